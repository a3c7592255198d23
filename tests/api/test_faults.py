"""Workers and actors that die: what is tried again, what fails, what it says, and who is not to blame."""

import os
import random
import signal

import pytest

import zray
from tests.gates import Tally, forever, until
from tests.leftovers import processes_marked

pytestmark = pytest.mark.usefixtures("session")

WorkerCrashedError = zray.exceptions.WorkerCrashedError


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@zray.remote
def identity(value):
    return value


@zray.remote
def double(value):
    return 2 * value


@pytest.fixture
def tally(tmp_path):
    return Tally(tmp_path / "tally")


def test_a_killed_workers_task_is_tried_again(tally):
    @zray.remote
    def work():
        if tally.visit() == 1:
            forever()
        return "done"

    ref = work.remote()
    (pid,) = until(tally.pids)
    os.kill(pid, signal.SIGKILL)
    assert zray.get(ref) == "done"
    assert tally.count() == 2


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_a_task_is_tried_so_often_and_then_fails(max_retries, tally):
    @zray.remote(max_retries=max_retries)
    def always():
        tally.visit()
        die()

    with pytest.raises(WorkerCrashedError):
        zray.get(always.remote())
    assert tally.count() == 1 + max_retries


def test_three_retries_unless_said_otherwise(tally):
    @zray.remote
    def always():
        tally.visit()
        die()

    with pytest.raises(WorkerCrashedError):
        zray.get(always.remote())
    assert tally.count() == 4


def test_as_often_as_it_takes(tally):
    @zray.remote(max_retries=-1)
    def stubborn():
        if tally.visit() < 8:
            die()
        return "done"

    assert zray.get(stubborn.remote()) == "done"


@pytest.mark.slow
def test_a_hundred_tasks_that_kill_their_worker():
    """Each death is an error within a second, and a normal task runs after each."""
    # Functions of this module's own would have each new worker import it, which takes ten times as long as the rest.
    always = zray.remote(max_retries=0)(lambda: os.kill(os.getpid(), signal.SIGKILL))
    triple = zray.remote(lambda value: 3 * value)
    assert zray.get(triple.remote(1), timeout=20) == 3  # the session's own start is not what is timed
    for round_number in range(100):
        ref = always.remote()
        until(lambda ref=ref: zray.wait([ref], timeout=0)[0], 1.0)
        with pytest.raises(WorkerCrashedError):
            zray.get(ref)
        assert zray.get(triple.remote(round_number), timeout=20) == 3 * round_number


def test_only_the_task_that_ran_is_blamed(gate, tally):
    """Tasks queued behind it, in the same worker too, run elsewhere and use up no retry."""
    zray.get([identity.remote(i) for i in range(200)])  # short so far: several go to a worker at once

    @zray.remote(max_retries=0)
    def wait_and_die():
        tally.visit()
        gate.wait()
        die()

    killers = [wait_and_die.remote() for _ in range(2)]
    until(lambda: tally.count() == 2)
    behind = [identity.options(max_retries=0).remote(i) for i in range(100)]
    gate.open()
    assert zray.get(behind) == list(range(100))
    for ref in killers:
        with pytest.raises(WorkerCrashedError):
            zray.get(ref)


def test_killers_among_many_harmless_tasks():
    kill_worker = zray.remote(max_retries=0)(die)
    refs = [kill_worker.remote() if i % 20 == 10 else identity.options(max_retries=-1).remote(i) for i in range(100)]
    for i, ref in enumerate(refs):
        if i % 20 == 10:
            with pytest.raises(WorkerCrashedError):
                zray.get(ref)
        else:
            assert zray.get(ref) == i


def test_a_parent_that_dies_while_it_waits_is_tried_again(tally):
    @zray.remote
    def child():
        return "child"

    @zray.remote
    def parent():
        number = tally.visit()
        value = zray.get(child.remote())
        if number == 1:
            die()
        return value

    assert zray.get(parent.remote()) == "child"
    assert tally.count() == 2


def test_a_child_that_dies_under_a_waiting_parent_is_tried_again(tally):
    @zray.remote
    def child():
        if tally.visit() == 1:
            die()
        return "child"

    @zray.remote
    def parent():
        return zray.get(child.remote())

    assert zray.get(parent.remote()) == "child"


def test_a_retried_task_has_its_arguments_again(tally):
    @zray.remote
    def add(x, refs):
        if tally.visit() == 1:
            die()
        return x + zray.get(refs[0])

    assert zray.get(add.remote(identity.remote(1), [zray.put(2)])) == 3


def test_an_error_that_is_raised_is_no_crash(tally):
    @zray.remote
    def fail():
        tally.visit()
        raise ValueError

    with pytest.raises(ValueError):
        zray.get(fail.remote())
    assert tally.count() == 1


def test_what_depends_on_a_crashed_task_fails_with_its_error():
    crashed = zray.remote(max_retries=0)(die).remote()
    with pytest.raises(WorkerCrashedError):
        zray.get(double.remote(crashed))
    assert zray.wait([crashed], timeout=20)[0] == [crashed]


def test_a_large_value_outlives_the_worker_that_made_it():
    """Values lie with the node, not with the process that made them."""

    @zray.remote(num_returns=2)
    def make():
        return os.getpid(), b"x" * 5_000_000

    pid, value = make.remote()
    pid = zray.get(pid)
    os.kill(pid, signal.SIGKILL)
    assert len(zray.get(value)) == 5_000_000


def test_a_value_that_a_dead_actor_put_stays():
    @zray.remote
    class Maker:
        def make(self):
            return [zray.put(b"y" * 5_000_000)]

    maker = Maker.remote()
    (ref,) = zray.get(maker.make.remote())
    zray.kill(maker)
    assert len(zray.get(ref, timeout=20)) == 5_000_000


def test_an_actor_that_dies_in_a_call_fails_it_and_all_later_ones():
    @zray.remote
    class Mortal:
        def work(self, value):
            if value == 2:
                die()
            return value

    mortal = Mortal.remote()
    assert zray.get([mortal.work.remote(value) for value in range(2)]) == [0, 1]
    for ref in [mortal.work.remote(value) for value in range(2, 5)]:
        with pytest.raises(zray.exceptions.RayActorError):
            zray.get(ref)


def test_calls_before_and_after_a_restart_are_each_answered_or_failed():
    @zray.remote(max_restarts=-1)
    class Mortal:
        def work(self, value):
            if value == 50:
                die()
            return value

    mortal = Mortal.remote()
    refs = [mortal.work.remote(value) for value in range(100)]
    for value, ref in enumerate(refs):
        try:
            assert zray.get(ref, timeout=20) == value
            assert value != 50
        except zray.exceptions.RayActorError:
            pass  # An answer that was on its way when the actor died may be lost with it.

    def answers():
        try:
            return zray.get(mortal.work.remote(7)) == 7
        except zray.exceptions.RayActorError:
            return False

    until(answers)


def test_with_retries_every_call_is_answered(tally):
    @zray.remote(max_restarts=-1, max_task_retries=-1)
    class Mortal:
        def work(self, value):
            if value == 50 and tally.visit() == 1:
                die()
            return value

    mortal = Mortal.remote()
    assert zray.get([mortal.work.remote(value) for value in range(100)]) == list(range(100))


def test_resources_are_free_again_after_deaths():
    with pytest.raises(WorkerCrashedError):
        zray.get(zray.remote(max_retries=0, num_cpus=2)(die).remote())
    until(lambda: zray.available_resources().get("CPU") == 2.0)


def test_a_worker_whose_process_group_and_children_are_killed(tally):
    """A task may start processes of its own; they do not hold up the verdict on their parent."""

    @zray.remote
    def work():
        if tally.visit() == 1:
            if os.fork() == 0:
                forever()
            die()
        return "done"

    assert zray.get(work.remote(), timeout=20) == "done"


@pytest.mark.slow
def test_random_kills_under_load_change_no_result(tally, leftovers):
    """A value is what a sequential run gives, whatever was killed."""

    @zray.remote(max_retries=-1)
    def work(value):
        tally.visit()
        return sum(range(value))

    @zray.remote(max_retries=-1)
    def parent(base):
        return sum(zray.get([work.remote(base + i) for i in range(10)]))

    pick = random.Random(7)

    def kill_one():
        """False: who has come in has not left a number yet, or the one picked has just ended."""
        workers = sorted(set(tally.pids()) & set(processes_marked(leftovers.mark)))
        try:
            return bool(workers) and os.kill(pick.choice(workers), signal.SIGKILL) is None
        except ProcessLookupError:
            return False

    for round_number in range(20):
        refs = [parent.remote(10 * i) for i in range(10)] + [work.remote(i) for i in range(50)]
        seen = tally.count()
        until(lambda seen=seen: tally.count() > seen)
        until(kill_one)
        expected = [sum(sum(range(10 * i + j)) for j in range(10)) for i in range(10)]
        expected += [sum(range(i)) for i in range(50)]
        assert zray.get(refs, timeout=40) == expected, f"in round {round_number}"
