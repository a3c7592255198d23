"""CPUs that are lent while threads beside a worker's main one wait, by hand (background_waits.py says when)."""

from tests.roles.desk import Desk
from zray.ids import return_id
from zray.roles.local_scheduler.tasks.actor_room import SHORT_TASK_SECONDS
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, encode_options
from zray.wire.tasks import CancelWait, TaskResult, TasksFinished, WaitObjects, WaitReply


class OneCpu(Desk):
    """One CPU, and a worker that runs a task; another task waits for that CPU."""

    def __init__(self):
        super().__init__(cpus=1)
        self.first, self.second = self.submit(self.new_spec(), self.new_spec())
        self.worker = self.give_birth()
        self.running = self.queues[self.worker][0]
        self.windows[self.worker] -= 1
        assert self.free() == 0
        self.take_sent()

    def free(self):
        return self.scheduler.resources.free["CPU"]

    def wait(self, request, *object_ids, aside=False):
        self.tell(self.worker, WaitObjects(request, list(object_ids), len(object_ids), False, True, aside))

    def replies(self):
        return [message.request for _, message in self.take_sent(WaitReply)]

    def run_second(self):
        """In a worker of its own, until its end."""
        other = self.give_birth()
        assert self.finish_one(other) is not None

    def end_first(self):
        self.queues[self.worker] = []
        self.tell(self.worker, TasksFinished([TaskResult(self.running.task_id, [b"\x01"])]))


def test_it_lends_until_all_is_there():
    desk = OneCpu()
    desk.wait(1, desk.second, aside=True)
    desk.run_second()
    assert desk.replies() == [1]
    assert desk.free() == 0, "it has its CPU again"
    desk.end_first()
    assert desk.free() == 10_000


def test_the_main_threads_wait_takes_its_place():
    desk = OneCpu()
    desk.wait(1, desk.second, aside=True)
    desk.wait(2, desk.second)
    assert desk.replies() == [1], "and the other is over"
    desk.run_second()
    assert desk.replies() == [2]
    desk.end_first()
    assert desk.free() == 10_000


def test_it_adds_nothing_to_the_main_threads_wait():
    desk = OneCpu()
    desk.wait(1, desk.second)
    desk.wait(2, desk.second, aside=True)
    assert desk.replies() == [2]
    desk.run_second()
    assert desk.replies() == [1]
    desk.end_first()
    assert desk.free() == 10_000


def test_a_task_that_ends_while_it_is_lent():
    """What it says last may come before or behind its word that it goes on: nothing is given back twice."""
    for cancels_first in (True, False):
        desk = OneCpu()
        missing = return_id(b"\x77" * 16, 1)
        desk.wait(1, missing, aside=True)
        if cancels_first:
            desk.tell(desk.worker, CancelWait(1))
        desk.end_first()
        if not cancels_first:
            desk.tell(desk.worker, CancelWait(1))
        desk.run_all()
        assert 1 in desk.replies()
        assert desk.free() == 10_000
        assert desk.scheduler.objects.entries.keys() == {desk.first, desk.second}


def test_its_cpu_is_in_use_when_it_goes_on():
    desk = OneCpu()
    desk.wait(1, desk.second, aside=True)
    other = desk.give_birth()
    desk.tell(desk.worker, CancelWait(1))
    assert desk.replies() == []
    desk.end_first()
    assert desk.finish_one(other) is not None
    assert desk.replies() == [1]
    assert desk.free() == 10_000, "its lease has ended"


FLOOD = 2_000


def end_of_wait(desk, workers, request=1):
    """How many tasks end until the wait is over."""
    for count in range(FLOOD):
        if request in desk.replies():
            return count
        for worker in workers:
            if desk.queues[worker]:
                desk.finish_one(worker)
    raise AssertionError("the whole flood has run before it")


def test_it_has_its_cpu_back_before_more_begins():
    """Tasks that another worker was given before end first, and they are few (docs/security.md, B20)."""
    desk = OneCpu()
    desk.wait(1, desk.second)
    other = desk.give_birth()
    desk.submit(*[desk.new_spec() for _ in range(FLOOD)])
    assert end_of_wait(desk, [other]) < 200
    assert desk.free() == 0 and not desk.queues[other]
    desk.end_first()
    desk.run_all()
    assert desk.free() == 10_000


def spec_of(desk, cpus):
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(resources={"CPU": cpus * RESOURCE_UNIT}))
    return spec


def test_one_that_lacks_several_has_what_comes_free_kept_for_it():
    desk = Desk(cpus=2)
    (large,) = desk.submit(spec_of(desk, 2))
    worker = desk.give_birth()
    (child,) = desk.submit(desk.new_spec())
    desk.tell(worker, WaitObjects(1, [child], 1, False, True, False))
    others = [desk.give_birth() for _ in range(len(desk.starting))]
    desk.submit(*[desk.new_spec() for _ in range(FLOOD)])
    while desk.starting:
        others.append(desk.give_birth())
    assert len(others) == 2
    desk.replies = lambda: [message.request for _, message in desk.take_sent(WaitReply)]
    assert end_of_wait(desk, others) < 200
    desk.windows[worker] -= 1
    desk.queues[worker] = []
    desk.tell(worker, TasksFinished([TaskResult(large[:16], [b"\x01"])]))
    desk.run_all()
    assert desk.scheduler.resources.free["CPU"] == 2 * RESOURCE_UNIT


def test_nothing_is_kept_for_it_while_the_rest_does_not_come():
    """Who has the rest may wait for what is not begun, without a word."""
    desk = Desk(cpus=2)
    desk.submit(spec_of(desk, 2))
    worker = desk.give_birth()
    (child,) = desk.submit(desk.new_spec())
    desk.tell(worker, WaitObjects(1, [child], 1, False, True, False))
    first = desk.give_birth()
    desk.submit(*[desk.new_spec() for _ in range(2)])
    second = desk.give_birth() if desk.starting else None
    assert second is not None and len(desk.queues[first]) and len(desk.queues[second])
    desk.finish_one(first)  # the child: its parent may go on when both CPUs are free
    while desk.queues[first]:
        desk.finish_one(first)
    desk.submit(desk.new_spec())
    assert not desk.queues[first]
    desk.now += 2 * SHORT_TASK_SECONDS
    desk.timer("ActorRoom.look_again")
    assert desk.queues[first]
