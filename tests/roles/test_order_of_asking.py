"""Tasks and actors of one program that want the same CPU: who was asked for first is placed first."""

import pytest

from tests.roles.actor_desk import ActorDesk
from zray.roles.local_scheduler.tasks.dispatch import LEASE_SECONDS
from zray.wire.actors import StartActor
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import StartTasks

FIRST, SECOND = b"actor-01".ljust(16, b"\0"), b"actor-02".ljust(16, b"\0")


def of_cpus(count):
    return ActorOptions(resources={"CPU": count * RESOURCE_UNIT})


class Bench(ActorDesk):
    def task(self, cpus=1):
        """Of a queue of its own."""
        spec = self.new_spec()
        self.count += 1
        options = TaskOptions(resources={"CPU": cpus * RESOURCE_UNIT}, name=f"task {self.count}")
        spec.options = encode_options(options)
        self.submit(spec)
        return spec.task_id

    def begun(self):
        """Tasks and actors that have a worker since the last look, in order."""
        found = []
        for _, message in self.take_sent():
            if type(message) is StartActor:
                found.append(message.spec.task_id)
            elif type(message) is StartTasks:
                found += [spec.task_id for spec in message.specs]
        return found

    def births(self):
        while self.starting:
            self.give_birth()
        return self.begun()


def test_task_that_waits_for_a_worker_is_not_overtaken_by_an_actor():
    desk = Bench(cpus=1)
    task = desk.task()
    desk.create(FIRST, of_cpus(1))
    assert desk.births() == [task]
    desk.run_all()
    assert desk.begun() == [FIRST]


def test_nor_is_one_that_waits_for_the_cpu_of_an_actor():
    desk = Bench(cpus=1)
    desk.create(FIRST, of_cpus(1))
    assert desk.births() == [FIRST]
    task = desk.task()
    desk.create(SECOND, of_cpus(1))
    desk.kill(next(iter(desk.actors)))
    assert desk.births() == [task]
    desk.run_all()
    assert SECOND in desk.begun()


def test_task_does_not_overtake_the_actor_that_was_asked_for_before():
    desk = Bench(cpus=1)
    desk.create(FIRST, of_cpus(1))
    desk.task()
    assert desk.births() == [FIRST]


@pytest.mark.parametrize("cpus", [0, 1])
def test_actor_does_not_wait_where_there_is_room_for_both(cpus):
    desk = Bench(cpus=2)
    task = desk.task()
    desk.create(FIRST, of_cpus(cpus))
    assert sorted(desk.births()) == sorted([task, FIRST])


def test_actor_does_not_wait_for_a_task_that_cannot_begin():
    """The task wants what another actor has."""
    desk = Bench(cpus=2)
    desk.create(FIRST, of_cpus(1))
    desk.births()
    desk.task(cpus=2)
    desk.create(SECOND, of_cpus(1))
    assert desk.births() == [SECOND]


def test_actor_waits_for_no_worker_that_cannot_be_had(monkeypatch):
    desk = Bench(cpus=1)
    task = desk.task()
    desk.create(FIRST, of_cpus(1))
    monkeypatch.setattr(desk.scheduler.pool, "may_have", lambda queue: False)
    desk.give_birth()
    assert desk.begun() == [FIRST] and task in desk.scheduler.tasks
    desk.timer("ActorRoom.look_again")


def in_turn(desk, count):
    """Tasks and actors that begin while the oldest running tasks end, one by one, and as many are asked for."""
    found = []
    for _ in range(count):
        desk.now += 2 * LEASE_SECONDS
        running = [worker for worker in desk.queues if desk.inflight(worker)]
        desk.task()
        desk.finish_one(running[0])
        found += desk.births() if desk.starting else desk.begun()
    return found


def test_actor_does_not_wait_for_tasks_that_are_asked_for_after_it():
    desk = Bench(cpus=2)
    for _ in range(4):
        desk.task()
    running = desk.births()
    desk.create(FIRST, of_cpus(1))
    later = in_turn(desk, 8)
    assert len(running) == 2 and FIRST in later[:5]
    assert len(later) > later.index(FIRST) + 1  # tasks go on beside it


def test_tasks_go_first_where_the_actor_would_leave_no_cpu_for_them():
    desk = Bench(cpus=1)
    desk.task()
    desk.births()
    desk.create(FIRST, of_cpus(1))
    assert FIRST not in in_turn(desk, 8)
    desk.run_all()
    assert desk.births()[-1:] == [FIRST]


def test_tasks_of_all_kinds_begin_in_the_order_in_which_they_were_asked_for():
    desk = Bench(cpus=1)
    asked = [desk.task() for _ in range(4)]
    begun = desk.births()
    for _ in range(8):
        desk.now += 2 * LEASE_SECONDS
        asked.append(desk.task())
        desk.finish_one(next(worker for worker in desk.queues if desk.inflight(worker)))
        begun += desk.begun()
    assert begun == asked[: len(begun)] and len(begun) == 9
