"""Actors: names, how an actor ends, and what a restarted one is."""

import os

import pytest

import zray
from tests.gates import Tally, is_running, until

pytestmark = pytest.mark.usefixtures("session")

ActorDiedError = zray.exceptions.ActorDiedError


@zray.remote
class Counter:
    def __init__(self, start=0):
        self.count = start

    def add(self, amount=1):
        self.count += amount
        return self.count

    def value(self):
        return self.count

    def pid(self):
        return os.getpid()

    def wait_at(self, gate):
        gate.wait()
        return self.count


def test_named_actors():
    counter = Counter.options(name="the counter").remote(1)
    found = zray.get_actor("the counter")
    assert zray.get([found.add.remote(), counter.add.remote()]) == [2, 3]

    @zray.remote
    def from_a_task():
        return zray.get(zray.get_actor("the counter").value.remote())

    assert zray.get(from_a_task.remote()) == 3
    with pytest.raises(ValueError):
        Counter.options(name="the counter").remote()
    same = Counter.options(name="the counter", get_if_exists=True).remote(100)
    assert zray.get(same.value.remote()) == 3
    zray.kill(counter)


def test_a_name_is_free_again_after_the_end():
    first = Counter.options(name="again").remote(1)
    zray.get(first.value.remote())
    zray.kill(first)

    def second():
        try:
            return Counter.options(name="again").remote(2)
        except ValueError:
            return None

    assert zray.get(until(second).value.remote()) == 2


def test_actor_that_a_call_is_about_to_end_is_not_found(gate):
    for number in range(10):
        actor = Counter.options(name="terminated", get_if_exists=True).remote(number)
        assert zray.get(actor.value.remote()) == number
        actor.__ray_terminate__.remote()
    busy = Counter.options(name="busy").remote(1)
    waits, last = busy.wait_at.remote(gate), busy.__ray_terminate__.remote()
    other = Counter.options(name="busy", get_if_exists=True).remote(2)
    with pytest.raises(ValueError, match="no living actor"):
        zray.get_actor("busy")
    value = other.value.remote()
    gate.open()
    assert zray.get([waits, value]) == [1, 2]
    with pytest.raises(ActorDiedError):
        zray.get(last)


def test_actor_whose_last_call_was_cancelled_is_found(gate):
    actor = Counter.options(name="goes on").remote(1)
    waits, last = actor.wait_at.remote(gate), actor.__ray_terminate__.remote()
    zray.cancel(last)
    with pytest.raises(zray.exceptions.TaskCancelledError):
        zray.get(last)
    gate.open()
    same = Counter.options(name="goes on", get_if_exists=True).remote(2)
    assert zray.get([waits, same.value.remote()]) == [1, 1]


def test_names_are_separate_in_each_namespace():
    here = Counter.options(name="shared").remote(1)
    there = Counter.options(name="shared", namespace="elsewhere").remote(2)
    assert zray.get(zray.get_actor("shared").value.remote()) == 1
    assert zray.get(zray.get_actor("shared", namespace="elsewhere").value.remote()) == 2
    assert here is not there


def test_names_that_nobody_has():
    with pytest.raises(ValueError):
        zray.get_actor("nobody")
    with pytest.raises(ValueError):
        zray.get_actor("")


def test_kill_ends_the_process_and_fails_what_is_pending(gate):
    counter = Counter.remote()
    pid = zray.get(counter.pid.remote())
    pending = [counter.wait_at.remote(gate), counter.add.remote()]
    zray.kill(counter)
    for ref in [*pending, counter.add.remote()]:
        with pytest.raises(ActorDiedError):
            zray.get(ref)
    until(lambda: not is_running(pid))


def test_kill_refuses_what_is_no_actor():
    for wrong in (zray.put(1), "counter", Counter):
        with pytest.raises(ValueError):
            zray.kill(wrong)


def test_an_actor_ends_with_its_last_handle_after_its_last_call(gate):
    counter = Counter.remote(4)
    pid = zray.get(counter.pid.remote())
    last = counter.wait_at.remote(gate)
    del counter
    assert zray.wait([last], timeout=0.1)[0] == []
    gate.open()
    assert zray.get(last) == 4
    until(lambda: not is_running(pid))


def test_an_actor_stays_while_a_task_or_an_object_has_its_handle(gate):
    @zray.remote
    def use_later(handle):
        gate.wait()
        return zray.get(handle.add.remote())

    counter = Counter.remote(1)
    pid = zray.get(counter.pid.remote())
    stored = zray.put([counter])
    later = use_later.remote(counter)
    del counter
    gate.open()
    assert zray.get(later) == 2
    assert zray.get(zray.get(stored)[0].add.remote()) == 3
    del stored
    until(lambda: not is_running(pid))


def test_an_actor_ends_itself():
    @zray.remote
    class Mortal:
        def pid(self):
            return os.getpid()

        def leave(self):
            zray.actor.exit_actor()

    for ending in ("leave", "__ray_terminate__"):
        mortal = Mortal.remote()
        pid = zray.get(mortal.pid.remote())
        left = getattr(mortal, ending).remote()
        until(lambda pid=pid: not is_running(pid))
        with pytest.raises(ActorDiedError):
            zray.get(mortal.pid.remote())
        del left


def test_a_restarted_actor_has_a_new_state(tmp_path):
    phoenix = Counter.options(max_restarts=1).remote(10)
    assert zray.get(phoenix.add.remote()) == 11
    os.kill(zray.get(phoenix.pid.remote()), 9)

    def value():
        try:
            return zray.get(phoenix.add.remote())
        except zray.exceptions.RayActorError:
            return None

    assert until(value) == 11
    pid = zray.get(phoenix.pid.remote())
    os.kill(pid, 9)
    until(lambda: not is_running(pid))
    with pytest.raises(zray.exceptions.RayActorError):
        zray.get([phoenix.add.remote() for _ in range(3)])


def test_kill_with_a_restart_and_without():
    counter = Counter.options(max_restarts=-1, max_task_retries=-1).remote(10)
    pid = zray.get(counter.pid.remote())
    zray.kill(counter, no_restart=False)
    until(lambda: zray.get(counter.pid.remote()) != pid)
    zray.kill(counter)
    with pytest.raises(ActorDiedError):
        zray.get(counter.value.remote())


def test_calls_are_tried_again_on_the_restarted_actor(tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(max_restarts=2, max_task_retries=2)
    class Fragile:
        def work(self):
            if tally.visit() <= 2:
                os.kill(os.getpid(), 9)
            return "done"

    fragile = Fragile.remote()
    assert zray.get(fragile.work.remote()) == "done"
    assert tally.count() == 3


def test_a_method_is_tried_again_after_listed_exceptions(tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote
    class Flaky:
        @zray.method(max_task_retries=3, retry_exceptions=[ConnectionError])
        def work(self):
            if tally.visit() < 3:
                raise ConnectionError
            return "done"

    assert zray.get(Flaky.remote().work.remote()) == "done"
    assert tally.count() == 3


def test_kill_while_the_constructor_runs_or_waits(gate):
    @zray.remote
    class Slow:
        def __init__(self, argument=None):
            gate.wait()

        def value(self):
            return 1

    @zray.remote
    def never():
        gate.wait()

    for actor in (Slow.remote(), Slow.remote(never.remote())):
        call = actor.value.remote()
        zray.kill(actor)
        with pytest.raises(ActorDiedError, match="kill"):
            zray.get(call, timeout=20)
    gate.open()


def test_an_actor_whose_argument_failed():
    @zray.remote
    def fail():
        raise KeyError("argument")

    actor = Counter.remote(fail.remote())
    with pytest.raises(ActorDiedError, match="argument"):
        zray.get(actor.value.remote())


def test_a_restart_has_the_arguments_of_the_constructor_again():
    big = zray.put(bytes(1_000_000))

    @zray.remote(max_restarts=3, max_task_retries=3)
    class Holder:
        def __init__(self, data, refs):
            self.size = len(data) + len(zray.get(refs[0]))

        def sizes(self, die):
            if die and not zray.get_runtime_context().was_current_actor_reconstructed:
                os.kill(os.getpid(), 9)
            return self.size

    holder = Holder.remote(big, [zray.put(bytes(500_000))])
    del big
    assert zray.get(holder.sizes.remote(False)) == 1_500_000
    assert zray.get(holder.sizes.remote(True)) == 1_500_000


def test_many_ask_for_one_name_at_once():
    @zray.remote
    def join():
        counter = Counter.options(name="one for all", get_if_exists=True, lifetime="detached").remote()
        return zray.get(counter.add.remote())

    assert sorted(zray.get([join.remote() for _ in range(20)])) == list(range(1, 21))
    zray.kill(zray.get_actor("one for all"))
