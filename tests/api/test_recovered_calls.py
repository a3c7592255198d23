"""What the calls of an actor that recovers have made is found again when they run again: actors, names, values."""

import os
import signal

import pytest

import zray
from tests.gates import Gate, Tally, is_running, until


@pytest.fixture
def session(nothing_left):
    with zray.init(num_cpus=2, resources={"slot": 4}):
        yield


@zray.remote
class Child:
    """Counts; says how often it was made."""

    def __init__(self, folder):
        self.folder, self.count = str(folder), 0
        Tally(f"{folder}/children").visit()

    def add(self):
        self.count += 1
        return self.count


@zray.remote(checkpoint_interval=0)
class Parent:
    """Makes children; recovers."""

    def __init__(self, folder):
        self.folder, self.children, self.heard, self.refs = str(folder), [], [], []

    def make(self, **options):
        self.children.append(Child.options(**options).remote(self.folder))
        self.heard.append(zray.get(self.children[-1].add.remote()))
        return self.children[-1]

    def make_for_a_moment(self):
        return zray.get(Child.options(resources={"slot": 3}).remote(self.folder).add.remote())

    def make_at(self, gate, tally):
        self.children.append(Child.remote(self.folder))
        self.heard.append(zray.get(self.children[-1].add.remote()))
        tally.visit()
        gate.wait(60)
        return self.heard

    def add(self):
        self.heard.append(zray.get(self.children[-1].add.remote()))
        return self.heard

    def add_to(self, child):
        self.heard.append(zray.get(child.add.remote()))
        return self.heard

    def try_to_add(self):
        try:
            return self.add()
        except zray.exceptions.ActorDiedError:
            self.heard.append("dead")
            return self.heard

    def end_child(self):
        zray.kill(self.children[-1])

    def forget(self):
        self.children.clear()

    def find_or_make(self, name, value):
        child = Child.options(name=name, get_if_exists=True, lifetime="detached").remote(self.folder)
        self.refs.append(zray.put(value))
        self.heard.append(zray.get(child.add.remote()))
        return zray.get(self.refs)

    def put(self, value):
        self.refs.append(zray.put(value))
        return self.refs[-1:]

    @zray.method(readonly=True)
    def values(self):
        return zray.get(self.refs)

    @zray.method(readonly=True)
    def all_heard(self):
        return self.heard

    @zray.method(readonly=True)
    def pid(self):
        return os.getpid()


def kill(actor):
    pid = zray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))


def test_an_actor_that_a_call_has_made_is_made_once(session, tmp_path):
    parent = Parent.remote(tmp_path)
    child = zray.get(parent.make.remote())
    assert zray.get([child.add.remote() for _ in range(3)]) == [2, 3, 4]  # nobody makes these again
    kill(parent)
    assert zray.get(parent.add.remote()) == [1, 5]
    kill(parent)
    assert zray.get(child.add.remote()) == 6
    assert zray.get(parent.add.remote()) == [1, 5, 7]
    assert Tally(tmp_path / "children").count() == 1


def test_an_actor_that_only_its_maker_has_lives_on_while_that_recovers(session, tmp_path):
    parent = Parent.remote(tmp_path)
    zray.get(parent.make.remote())
    assert zray.get(parent.add.remote()) == [1, 2]
    kill(parent)
    assert zray.get(parent.add.remote()) == [1, 2, 3]
    assert Tally(tmp_path / "children").count() == 1


def test_the_call_that_makes_it_may_be_under_way(session, tmp_path):
    parent = Parent.remote(tmp_path)
    pid = zray.get(parent.pid.remote())
    gate, tally = Gate(tmp_path / "gate"), Tally(tmp_path / "tally")
    begun = parent.make_at.remote(gate, tally)
    until(lambda: tally.count() == 1)
    os.kill(pid, signal.SIGKILL)
    gate.open()
    assert zray.get(begun) == [1]
    assert zray.get(parent.add.remote()) == [1, 2]
    assert Tally(tmp_path / "children").count() == 1


def test_one_that_has_ended_is_not_made_again(session, tmp_path):
    """By its last handle, or by kill()."""
    parent = Parent.remote(tmp_path)
    assert zray.get(parent.make_for_a_moment.remote()) == 1
    zray.get([parent.make.remote(), parent.end_child.remote()])
    assert zray.get(parent.try_to_add.remote()) == [1, "dead"]
    kill(parent)
    assert zray.get(parent.try_to_add.remote()) == [1, "dead", "dead"]
    assert Tally(tmp_path / "children").count() == 2


def test_one_whose_handles_are_gone_ends_though_its_maker_could_recover(session, tmp_path):
    parent = Parent.remote(tmp_path)
    for _ in range(3):
        assert zray.get(parent.make_for_a_moment.remote()) == 1
        until(lambda: zray.available_resources().get("slot") == 4)
    zray.get(parent.make.remote(resources={"slot": 2}))
    kill(parent)
    assert zray.get(parent.add.remote()) == [1, 2]
    assert zray.available_resources()["slot"] == 2
    zray.get(parent.forget.remote())
    until(lambda: zray.available_resources().get("slot") == 4)
    zray.get(parent.make.remote(resources={"slot": 4}))
    del parent
    until(lambda: zray.available_resources().get("slot") == 4)


@pytest.mark.parametrize("lifetime", [None, "detached"])
def test_named_ones_are_the_same_too(session, tmp_path, lifetime):
    parent = Parent.remote(tmp_path)
    zray.get(parent.make.remote(name="it", lifetime=lifetime))
    assert zray.get(zray.get_actor("it").add.remote()) == 2
    kill(parent)
    assert zray.get(parent.add.remote()) == [1, 3]
    assert zray.get(zray.get_actor("it").add.remote()) == 4
    assert Tally(tmp_path / "children").count() == 1
    zray.kill(zray.get_actor("it"))


def test_whether_an_actor_of_that_name_was_there_changes_no_ids(session, tmp_path):
    """In the first run it is made, in the others it is found; what comes behind it is the same."""
    parent = Parent.remote(tmp_path)
    assert zray.get(parent.find_or_make.remote("it", "first")) == ["first"]
    kill(parent)
    assert zray.get(parent.find_or_make.remote("it", "second")) == ["first", "second"]
    assert zray.get(parent.all_heard.remote()) == [1, 2]
    assert zray.get(zray.get_actor("it").add.remote()) == 3
    zray.kill(zray.get_actor("it"))


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_what_a_call_has_put_is_good_afterwards(session, tmp_path, size):
    parent = Parent.remote(tmp_path)
    (first,) = zray.get(parent.put.remote(b"a" * size))
    zray.get(parent.put.remote(b"b" * size))
    kill(parent)
    assert zray.get(parent.values.remote()) == [b"a" * size, b"b" * size]
    assert zray.get(first) == b"a" * size
    kill(parent)
    (last,) = zray.get(parent.put.remote(b"c" * size))
    del parent
    assert zray.get(last) == b"c" * size


def test_what_saves_puts_is_its_own_each_time(session):
    @zray.remote(checkpoint_interval=1)
    class Saving:
        def __init__(self):
            self.total = 0

        def add(self, number):
            self.total += number
            return self.total

        @zray.method(readonly=True)
        def pid(self):
            return os.getpid()

        def __zray_save__(self):
            return [zray.put(self.total)]

        def __zray_restore__(self, state):
            self.total = zray.get(state[0])

    actor, total = Saving.remote(), 0
    for number in range(1, 6):
        total += number
        assert zray.get(actor.add.remote(number)) == total
        kill(actor)
    assert zray.get(actor.add.remote(0)) == total


@zray.remote(checkpoint_interval=0)
class Registering:
    """Its constructor calls others, and makes one."""

    def __init__(self, folder, other, gate=None, tally=None):
        self.other, self.own = other, Child.remote(folder)
        self.heard = zray.get([other.add.remote(), self.own.add.remote()])
        if tally is not None:
            tally.visit()
            gate.wait(60)

    def add(self):
        self.heard += zray.get([self.other.add.remote(), self.own.add.remote()])
        return self.heard

    @zray.method(readonly=True)
    def pid(self):
        return os.getpid()


def test_what_a_constructor_has_called_and_made_is_found_again(session, tmp_path):
    other = Child.remote(tmp_path)
    actor = Registering.remote(tmp_path, other)
    kill(actor)
    assert zray.get(actor.add.remote()) == [1, 1, 2, 2]
    kill(actor)
    assert zray.get(other.add.remote()) == 3
    assert zray.get(actor.add.remote()) == [1, 1, 2, 2, 4, 3]
    assert Tally(tmp_path / "children").count() == 2


def test_a_constructor_that_is_killed_under_way_calls_nobody_twice(session, tmp_path):
    other, gate, tally = Child.remote(tmp_path), Gate(tmp_path / "gate"), Tally(tmp_path / "tally")
    zray.get(other.add.remote())
    actor = Registering.remote(tmp_path, other, gate, tally)
    until(lambda: tally.count() == 1)
    zray.kill(actor, no_restart=False)
    until(lambda: tally.count() == 2)
    gate.open()
    assert zray.get(actor.add.remote()) == [2, 1, 3, 2]
    assert Tally(tmp_path / "children").count() == 2


@zray.remote(checkpoint_interval=1)
class Restoring:
    """What it makes while it is restored is not what its constructor has made."""

    def __init__(self, folder):
        self.folder, self.own, self.other = folder, Child.remote(folder), None

    def add(self):
        return zray.get(self.own.add.remote()), self.other and zray.get(self.other.add.remote())

    @zray.method(readonly=True)
    def pid(self):
        return os.getpid()

    def __zray_save__(self):
        return self.folder, self.own

    def __zray_restore__(self, state):
        self.folder, self.own = state
        self.other = Child.remote(self.folder)


def test_what_is_made_while_it_is_restored_is_new(session, tmp_path):
    actor = Restoring.remote(tmp_path)
    assert zray.get([actor.add.remote(), actor.add.remote()]) == [(1, None), (2, None)]
    kill(actor)
    assert zray.get([actor.add.remote(), actor.add.remote()]) == [(3, 1), (4, 2)]
    kill(actor)
    assert zray.get(actor.add.remote()) == (5, 1)


@pytest.mark.parametrize("options", [{"checkpoint_interval": 0}, {"max_restarts": -1, "max_task_retries": -1}])
def test_what_threads_make_is_their_own_in_each_process(session, tmp_path, options):
    """They are not run again; but what another process's threads make is not taken for what these have made."""

    class Threaded:
        def __init__(self, folder, other):
            import threading

            self.folder, self.other, self.refs = folder, other, []
            threading.Thread(target=self._wait_and_call, daemon=True).start()

        def _wait_and_call(self):
            Gate(f"{self.folder}/gate-{os.getpid()}").wait(60)  # between two calls
            self.refs += [self.other.add.remote(), zray.put(os.getpid())]
            Tally(f"{self.folder}/done").visit()

        @zray.method(readonly=True)
        def made(self):
            return self.refs

        @zray.method(readonly=True)
        def pid(self):
            return os.getpid()

    actor = zray.remote(**options)(Threaded).remote(str(tmp_path), Child.remote(tmp_path))
    kept = []
    for number in range(1, 4):
        pid = zray.get(actor.pid.remote())
        Gate(f"{tmp_path}/gate-{pid}").open()
        until(lambda number=number: Tally(tmp_path / "done").count() == number)
        kept.append(zray.get(actor.made.remote()))
        assert zray.get(kept[-1]) == [number, pid]
        kill(actor)
