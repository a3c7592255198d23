"""Actors that recover: the state is exact after kill -9, each call's effect in it once, and no caller sees an error."""

import os
import signal

import pytest

import zray
from tests.gates import Gate, Tally, is_running, until


@pytest.fixture
def session(nothing_left):
    with zray.init(num_cpus=2):
        yield


class Plain:
    """Counts; says where it runs; tells each run of a method."""

    def __init__(self, folder, start=0):
        self.folder, self.numbers, self.start = str(folder), [], start
        Tally(f"{folder}/made").visit()

    def add(self, number):
        Tally(f"{self.folder}/runs").visit()
        self.numbers.append(number)
        return sum(self.numbers) + self.start

    def fail_after(self, number):
        self.numbers.append(number)
        raise ValueError(number)

    def pid(self):
        return os.getpid()

    @zray.method(readonly=True)
    def look(self):
        Tally(f"{self.folder}/looks").visit()
        return list(self.numbers)

    def wait_at(self, gate):
        self.numbers.append("gate")
        gate.wait(60)
        return "passed"


class Saving(Plain):
    def __zray_save__(self):
        Tally(f"{self.folder}/saves").visit()
        return {"numbers": list(self.numbers), "folder": self.folder, "start": self.start}

    def __zray_restore__(self, state):
        Tally(f"{state['folder']}/restores").visit()
        self.__dict__.update(state)


class SavingAsRay(Plain):
    def __ray_save__(self):
        return self.folder, self.numbers, self.start

    def __ray_restore__(self, state):
        self.folder, self.numbers, self.start = state


def kill(actor):
    pid = zray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))


@pytest.mark.parametrize("cls", [Plain, Saving, SavingAsRay])
@pytest.mark.parametrize("interval", [0, 1, 7, 1000])
def test_the_state_is_exact(session, tmp_path, cls, interval):
    actor = zray.remote(checkpoint_interval=interval)(cls).remote(tmp_path, start=100)
    refs = []
    for number in range(1, 31):
        refs.append(actor.add.remote(number))
        if number % 10 == 0:
            kill(actor)
    assert zray.get(refs) == [100 + sum(range(1, number + 1)) for number in range(1, 31)]
    assert zray.get(actor.look.remote()) == list(range(1, 31))


def test_only_the_calls_since_the_last_checkpoint_run_again(session, tmp_path):
    actor = zray.remote(checkpoint_interval=10)(Saving).remote(tmp_path)
    zray.get([actor.add.remote(number) for number in range(25)])
    assert Tally(tmp_path / "saves").count() == 2
    kill(actor)  # which is a call too
    assert zray.get(actor.look.remote()) == list(range(25))
    assert Tally(tmp_path / "runs").count() == 30
    assert Tally(tmp_path / "restores").count() == 1
    assert Tally(tmp_path / "made").count() == 1


def test_readonly_calls_are_not_run_again(session, tmp_path):
    actor = zray.remote(checkpoint_interval=0)(Plain).remote(tmp_path)
    zray.get([actor.look.remote() for _ in range(5)])
    zray.get(actor.add.remote(1))
    kill(actor)
    assert zray.get(actor.add.remote(2)) == 3
    assert Tally(tmp_path / "looks").count() == 5
    assert Tally(tmp_path / "made").count() == 2


def test_what_a_call_raised_is_part_of_the_state_and_told_once(session, tmp_path):
    actor = zray.remote(checkpoint_interval=0)(Plain).remote(tmp_path)
    with pytest.raises(ValueError):
        zray.get(actor.fail_after.remote(5))
    kill(actor)
    assert zray.get(actor.look.remote()) == [5]


def test_a_call_under_way_has_its_effect_once(session, tmp_path):
    actor = zray.remote(checkpoint_interval=2)(Plain).remote(tmp_path)
    gate = Gate(tmp_path / "gate")
    pid = zray.get(actor.pid.remote())
    zray.get(actor.add.remote(1))
    begun, behind = actor.wait_at.remote(gate), actor.add.remote(2)
    os.kill(pid, signal.SIGKILL)
    gate.open()
    assert zray.get(begun) == "passed"
    with pytest.raises(TypeError):  # it sums up a str
        zray.get(behind)
    assert zray.get(actor.look.remote()) == [1, "gate", 2]


def test_arguments_and_a_state_that_lie_in_shared_memory(session, tmp_path):
    import numpy as np

    @zray.remote(checkpoint_interval=3)
    class Sum:
        def __init__(self):
            self.total = np.zeros(100_000)

        def add(self, array):
            self.total = self.total + array

        def pid(self):
            return os.getpid()

        @zray.method(readonly=True)
        def value(self):
            return self.total

    actor = Sum.remote()
    for _ in range(5):
        zray.get(actor.add.remote(zray.put(np.ones(100_000))))
    kill(actor)
    assert zray.get(actor.value.remote()).tolist() == [5.0] * 100_000


def test_arrays_of_a_restored_state_may_be_written_to(session):
    import numpy as np

    @zray.remote(checkpoint_interval=1)
    class Sum:
        def __init__(self):
            self.small, self.large = np.zeros(2), np.zeros(100_000)

        def add(self, number):
            self.small += number
            self.large += number

        def pid(self):
            return os.getpid()

        @zray.method(readonly=True)
        def value(self):
            return self.small.tolist(), float(self.large.sum())

    actor = Sum.remote()
    actor.add.remote(1)
    kill(actor)  # by a call that comes behind the checkpoint
    actor.add.remote(2)
    assert zray.get(actor.value.remote()) == ([3.0, 3.0], 300_000.0)


def test_a_long_journal_is_run_again(session, tmp_path):
    actor = zray.remote(checkpoint_interval=0)(Plain).remote(tmp_path)

    def size_of(instance, data):
        instance.numbers.append(len(data))

    sizes = [50_000 + number for number in range(200)]
    zray.get([actor.__ray_call__.remote(size_of, bytes(size)) for size in sizes])
    kill(actor)
    assert zray.get(actor.look.remote()) == sizes


def test_refs_and_children_of_calls_that_run_again(session):
    @zray.remote
    def double(number):
        return 2 * number

    @zray.remote(checkpoint_interval=3)
    class Keeper:
        def __init__(self):
            self.refs = []

        def keep(self, number):
            self.refs += [zray.put(number), double.remote(number)]
            return zray.get(self.refs[-1])

        def values(self):
            return zray.get(self.refs)

        def pid(self):
            return os.getpid()

    actor = Keeper.remote()
    assert zray.get([actor.keep.remote(number) for number in range(4)]) == [0, 2, 4, 6]
    kill(actor)
    assert zray.get(actor.values.remote()) == [0, 0, 1, 2, 2, 4, 3, 6]


def test_kill_and_exit_are_final_but_a_kill_that_allows_it_is_recovered_from(session, tmp_path):
    actor = zray.remote(checkpoint_interval=0)(Plain).remote(tmp_path)
    zray.get(actor.add.remote(1))
    zray.kill(actor, no_restart=False)
    assert zray.get(actor.look.remote()) == [1]
    for last in (actor.__ray_terminate__.remote(), actor.look.remote()):
        with pytest.raises(zray.exceptions.ActorDiedError, match="exit_actor"):
            zray.get(last)
    other = zray.remote(checkpoint_interval=0)(Plain).remote(tmp_path)
    zray.get(other.add.remote(1))
    zray.kill(other)
    with pytest.raises(zray.exceptions.ActorDiedError, match="kill"):
        zray.get(other.look.remote())


def test_a_call_that_kills_its_process_each_time_ends_the_actor(session, tmp_path):
    actor = zray.remote(checkpoint_interval=0)(Plain).remote(tmp_path)
    assert zray.get(actor.add.remote(1)) == 1

    def die(instance):
        Tally(f"{tmp_path}/deaths").visit()
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(zray.exceptions.ActorDiedError, match="10 times in a row"):
        zray.get(actor.__ray_call__.remote(die))
    assert Tally(tmp_path / "deaths").count() == 10


def test_a_state_that_cannot_be_restored_says_so(session):
    @zray.remote(checkpoint_interval=1)
    class Odd:
        def pid(self):
            return os.getpid()

        def __zray_save__(self):
            return 7

        def __zray_restore__(self, state):
            raise KeyError(f"no {state} here")

    actor = Odd.remote()
    zray.get(actor.pid.remote())
    kill(actor)  # another call, whose result comes behind the first one's checkpoint
    with pytest.raises(zray.exceptions.ActorDiedError, match="(?s)while its state was restored.*no 7 here"):
        zray.get(actor.pid.remote())


def test_a_state_that_cannot_be_saved_costs_more_calls_that_run_again(session, tmp_path, capfd):
    class Locked(Plain):
        def __zray_save__(self):
            raise TypeError("it is locked")

    actor = zray.remote(checkpoint_interval=2)(Locked).remote(tmp_path)
    zray.get([actor.add.remote(number) for number in range(5)])
    kill(actor)
    assert zray.get(actor.look.remote()) == list(range(5))
    assert Tally(tmp_path / "runs").count() == 10
    seen = []

    def is_said():
        seen.append(capfd.readouterr().out)
        return "Locked: its state could not be saved: TypeError('it is locked')" in "".join(seen)

    until(is_said)


def test_only_serial_actors_recover(session, tmp_path):
    with pytest.raises(ValueError, match="one call after the other"):
        zray.remote(checkpoint_interval=1, max_concurrency=2)(Plain).remote(tmp_path)


def test_handles_know_that_no_call_that_has_ended_is_made_once_more(session, tmp_path):
    """However they came by: what it has returned is in its log."""
    from zray.wire.task_spec import parse_options

    @zray.remote
    def is_logged(handle):
        return parse_options(handle.look._encode_options()).is_logged

    for interval, expected in ((5, True), (None, False)):
        options = {"name": f"it-{interval}", "max_task_retries": -1}
        actor = zray.remote(checkpoint_interval=interval, **options)(Plain).remote(tmp_path)
        for handle in (actor, zray.get_actor(options["name"])):
            assert zray.get(is_logged.remote(handle)) is expected
            assert parse_options(handle.look.options(num_returns=2)._encode_options()).is_logged is expected
