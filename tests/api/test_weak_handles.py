"""Handles that get_actor() gives do not keep their actors; those of whoever made an actor do, and what they are passed
on as.
"""

import os
import threading

import pytest

import zray
from tests.gates import Gate, is_running, until
from zray.cluster_utils import Cluster

ActorDiedError = zray.exceptions.ActorDiedError


@zray.remote(num_cpus=0)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count

    def where(self):
        return zray.get_runtime_context().get_node_id()

    def pid(self):
        return os.getpid()

    def wait_at(self, gate):
        gate.wait()
        return self.count


@zray.remote(num_cpus=0)
class Caller:
    """Calls an actor that it has found by its name, or was handed."""

    def find(self, name):
        self.found = zray.get_actor(name)
        return zray.get(self.found.add.remote())

    def take(self, box):
        self.found = box[0]
        return zray.get(self.found.add.remote())

    def call(self, count=1):
        return zray.get([self.found.add.remote() for _ in range(count)])

    def pass_on(self):
        return [self.found]

    def kill(self):
        zray.kill(self.found)


def is_gone(name):
    try:
        zray.get_actor(name)
    except ValueError:
        return True
    return False


def test_actor_ends_with_the_handles_of_its_maker(session):
    actor = Counter.options(name="mine").remote()
    weak = zray.get_actor("mine")
    assert weak == actor and hash(weak) == hash(actor)
    assert zray.get([weak.add.remote(), actor.add.remote(), weak.add.remote()]) == [1, 2, 3]
    pid = zray.get(weak.pid.remote())
    box = zray.put([weak])
    del actor
    until(lambda: not is_running(pid))
    until(lambda: is_gone("mine"))
    for handle in (weak, zray.get(box)[0]):
        with pytest.raises(ActorDiedError, match="last handle"):
            zray.get(handle.add.remote())
    zray.kill(weak)


def test_handle_that_was_passed_on_keeps_the_actor(session):
    actor = Counter.options(name="passed on").remote()
    caller = Caller.remote()
    assert zray.get(caller.take.remote([actor])) == 1
    weak = zray.get_actor("passed on")
    del actor
    assert zray.get(caller.call.remote(3)) == [2, 3, 4]
    assert zray.get(weak.add.remote()) == 5
    del caller
    until(lambda: is_gone("passed on"))


def test_calls_of_weak_handles_are_finished(session, tmp_path):
    gate = Gate(tmp_path / "gate")
    actor = Counter.options(name="busy").remote()
    last = zray.get_actor("busy").wait_at.remote(gate)
    del actor
    threading.Event().wait(0.05)  # not to synchronise: an actor that ended too early would have by then
    gate.open()
    assert zray.get(last) == 0
    until(lambda: is_gone("busy"))


def test_detached_actor_says_how_it_died(session):
    Counter.options(name="lasting", lifetime="detached").remote()
    weak = zray.get_actor("lasting")
    assert zray.get(weak.add.remote()) == 1
    caller = Caller.remote()
    assert zray.get(caller.find.remote("lasting")) == 2
    zray.kill(weak)
    for call in (weak.add.remote(), caller.call.remote()):
        with pytest.raises(ActorDiedError, match="was killed by kill"):
            zray.get(call)


def test_actor_that_get_if_exists_has_found_or_made_is_kept(session):
    make = Counter.options(name="either", get_if_exists=True)
    first, second = make.remote(), make.remote()
    assert zray.get(second.add.remote()) == 1
    del first
    assert zray.get([second.add.remote() for _ in range(3)]) == [2, 3, 4]
    del second
    until(lambda: is_gone("either"))


def test_weak_handle_of_a_session_that_has_ended(nothing_left):
    zray.shutdown()
    with zray.init(num_cpus=1):
        Counter.options(name="old", lifetime="detached").remote()
        weak = zray.get_actor("old")
        assert zray.get(weak.add.remote()) == 1
    with zray.init(num_cpus=1):
        for use in (weak.add.remote, lambda: zray.kill(weak)):
            with pytest.raises(ActorDiedError, match="session that has ended"):
                use()


@pytest.fixture(scope="module")
def cluster(nothing_left):
    zray.shutdown()
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 2}) as cluster:
        for name in ("first", "second"):
            cluster.add_node(num_cpus=2, resources={name: 10})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            yield cluster


def on(name):
    return {"resources": {name: 0.1}}


def test_weak_handles_on_other_nodes(cluster):
    """Found on one node, passed on to another one, and to where the actor lives."""
    actor = Counter.options(name="far", **on("first")).remote()
    finder, taker = (Caller.options(**on("second")).remote() for _ in range(2))
    beside = Caller.options(**on("first")).remote()
    assert zray.get(finder.find.remote("far"), timeout=30) == 1
    (passed,) = zray.get(finder.pass_on.remote())
    assert zray.get(passed.add.remote(), timeout=30) == 2
    assert zray.get(taker.take.remote([passed]), timeout=30) == 3
    assert zray.get(beside.take.remote([passed]), timeout=30) == 4
    assert zray.get(taker.call.remote(1_000), timeout=30) == list(range(5, 1_005))
    del actor
    until(lambda: is_gone("far"))
    for caller in (finder, taker, beside):
        with pytest.raises(ActorDiedError, match="last handle"):
            zray.get(caller.call.remote(), timeout=30)
    with pytest.raises(ActorDiedError, match="last handle"):
        zray.get(passed.add.remote(), timeout=30)


def test_weak_handle_beside_a_strong_one(cluster):
    """On the same node: the strong one counts, whichever was there first."""
    actor = Counter.options(name="both", **on("first")).remote()
    finder, taker = (Caller.options(**on("second")).remote() for _ in range(2))
    assert zray.get(finder.find.remote("both"), timeout=30) == 1
    assert zray.get(taker.take.remote([actor]), timeout=30) == 2
    del actor
    assert zray.get([finder.call.remote(5), taker.call.remote(5)], timeout=30)
    assert zray.get(taker.call.remote(), timeout=30) == [13]
    del taker
    until(lambda: is_gone("both"))
    with pytest.raises(ActorDiedError):
        zray.get(finder.call.remote(), timeout=30)


def test_weak_handle_kills_an_actor_of_another_node(cluster):
    actor = Counter.options(name="doomed", **on("first")).remote()
    killer = Caller.options(**on("second")).remote()
    assert zray.get(killer.find.remote("doomed"), timeout=30) == 1
    pid = zray.get(actor.pid.remote(), timeout=30)
    zray.get(killer.kill.remote(), timeout=30)
    until(lambda: not is_running(pid))
    for call in (actor.add.remote(), killer.call.remote()):
        with pytest.raises(ActorDiedError, match="kill"):
            zray.get(call, timeout=30)
    Counter.options(name="doomed too", lifetime="detached", **on("first")).remote()
    zray.kill(zray.get_actor("doomed too"))
    until(lambda: is_gone("doomed too"))


def test_get_if_exists_never_gives_an_actor_of_another_node_that_ends(cluster):
    make = Counter.options(name="again and again", get_if_exists=True, **on("first"))
    for _ in range(15):
        actor = make.remote()
        assert zray.get(actor.add.remote(), timeout=30) == 1
        del actor


def test_named_actor_is_found_while_it_moves(cluster):
    """The head makes it, has its name registered, and hands it over: an answer may name the head still."""
    for number in range(20):
        actor = Counter.options(name=f"moves {number}", **on("first")).remote()
        assert zray.get_actor(f"moves {number}") == actor
    del actor


@pytest.mark.slow
def test_weak_handle_follows_an_actor_to_another_node(nothing_left):
    zray.shutdown()
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 2}) as cluster:
        homes = [cluster.add_node(num_cpus=2, resources={"home": 1}) for _ in range(2)]
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            Counter.options(
                name="mover", lifetime="detached", max_restarts=1, max_task_retries=-1, **on("home")
            ).remote()
            weak = zray.get_actor("mover")
            first = zray.get(weak.where.remote(), timeout=30)
            cluster.remove_node(next(node for node in homes if node.node_id == first))
            assert zray.get(weak.where.remote(), timeout=40) != first
            last = next(node for node in homes if node.node_id != first)
            cluster.remove_node(last)
            with pytest.raises(ActorDiedError):
                zray.get(weak.where.remote(), timeout=40)
