"""Actors whose nodes die: real processes, kill -9."""

import os
import signal
import time

import numpy as np
import pytest

import zray
from tests.clusters import two_with_disks
from tests.gates import Gate, Tally, is_running, until
from zray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@pytest.fixture
def cluster(nothing_left):
    with two_with_disks() as cluster:
        yield cluster


@zray.remote(resources={"disk": 1})
class Place:
    def __init__(self, number=0):
        self.number = number

    def where(self):
        return zray.get_runtime_context().get_node_id()

    def start(self):
        return self.number

    def pass_through(self, gate, tally):
        tally.visit()
        gate.wait(60)
        return self.number

    def stay(self):
        import threading

        threading.Event().wait()


def kill_home(cluster, actor):
    """Kill the node where it lives.  Returns that node's id."""
    home = zray.get(actor.where.remote(), timeout=20)
    cluster.remove_node(next(node for node in cluster.worker_nodes if node.node_id == home))
    return home


def test_an_actor_with_restarts_left_goes_on_elsewhere(cluster):
    """Its name leads to its new home, and what its constructor took is there too."""
    place = Place.options(name="it", max_restarts=1, max_task_retries=-1).remote(zray.put(7))
    first = kill_home(cluster, place)
    second = zray.get(place.where.remote(), timeout=30)
    assert second != first
    assert zray.get(zray.get_actor("it").start.remote(), timeout=20) == 7
    assert kill_home(cluster, place) == second
    with pytest.raises(ActorDiedError, match=second):
        zray.get(place.where.remote(), timeout=30)


def test_an_actor_without_restarts_says_which_node_was_lost(cluster):
    place = Place.options(name="it").remote()
    home = kill_home(cluster, place)
    with pytest.raises(ActorDiedError, match=home):
        zray.get(place.where.remote(), timeout=30)
    with pytest.raises(ValueError, match="it"):
        zray.get_actor("it")


def test_a_call_that_may_have_begun_is_not_repeated_unless_that_is_allowed(cluster):
    place = Place.options(max_restarts=-1).remote()
    home = zray.get(place.where.remote(), timeout=20)
    begun = place.stay.remote()
    cluster.remove_node(next(node for node in cluster.worker_nodes if node.node_id == home))
    with pytest.raises(RayActorError, match="may have begun"):
        zray.get(begun, timeout=30)
    assert zray.get(place.where.options(max_task_retries=-1).remote(), timeout=30) != home


@zray.remote(resources={"disk": 1}, max_restarts=1)
class SlowElsewhere:
    """Actor whose second constructor waits at a gate."""

    def __init__(self, gate, tally):
        if tally.visit() > 1:
            gate.wait(60)

    def where(self):
        return zray.get_runtime_context().get_node_id()


def test_calls_without_retries_do_not_wait_for_an_actor_whose_node_is_lost(cluster, tmp_path):
    """Calls that may be repeated wait for the new home, and there for the constructor."""
    gate, tally = Gate(tmp_path / "gate"), Tally(tmp_path / "tally")
    place = SlowElsewhere.remote(gate, tally)
    home = kill_home(cluster, place)
    waits = place.where.options(max_task_retries=-1).remote()
    until(lambda: tally.count() == 2)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(ActorUnavailableError, match="has not begun"):
            zray.get(place.where.remote(), timeout=30)
    assert time.monotonic() - began < 1.0
    assert zray.wait([waits], timeout=0)[0] == []
    gate.open()
    assert zray.get(waits, timeout=30) != home


def test_a_call_under_way_that_may_be_repeated_is(cluster, tmp_path):
    gate, tally = Gate(tmp_path / "gate"), Tally(tmp_path / "tally")
    place = Place.options(max_restarts=-1, max_task_retries=-1).remote(7)
    home = zray.get(place.where.remote(), timeout=20)
    begun, waits = place.pass_through.remote(gate, tally), place.where.remote()
    until(lambda: tally.count() == 1)
    cluster.remove_node(next(node for node in cluster.worker_nodes if node.node_id == home))
    until(lambda: tally.count() == 2)
    gate.open()
    assert zray.get(begun, timeout=30) == 7
    assert zray.get(waits, timeout=30) != home


def test_a_detached_actor_goes_on_too(cluster):
    place = Place.options(name="it", lifetime="detached", max_restarts=-1, max_task_retries=-1).remote()
    first = kill_home(cluster, place)
    del place
    found = zray.get_actor("it")
    assert zray.get(found.where.remote(), timeout=30) != first
    zray.kill(found)
    until(lambda: zray.available_resources().get("disk") == 4.0)


@zray.remote(resources={"disk": 1}, checkpoint_interval=5)
class Sum:
    """Recovers."""

    def __init__(self, start):
        self.total = start

    def add(self, number):
        self.total += number
        return self.total

    @zray.method(readonly=True)
    def where(self):
        return zray.get_runtime_context().get_node_id()

    @zray.method(readonly=True)
    def pid(self):
        return os.getpid()


@pytest.mark.slow
def test_an_actor_of_another_node_recovers_when_its_process_is_killed(cluster):
    """Its callers do not notice; what calls took from here is still there."""
    total = Sum.remote(zray.put(1000))
    refs = []
    for number in range(1, 25):
        refs.append(total.add.remote(zray.put(number)))
        if number % 8 == 0:
            pid = zray.get(total.pid.remote(), timeout=30)
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: not is_running(pid))
    assert zray.get(refs, timeout=60) == [1000 + sum(range(1, number + 1)) for number in range(1, 25)]


@pytest.mark.slow
def test_an_actor_that_recovers_goes_on_elsewhere_when_its_node_is_killed(cluster):
    """Its callers do not notice, though calls are under way; each of them is in its state once."""
    total = Sum.remote(zray.put(1000))
    refs = [total.add.remote(zray.put(number)) for number in range(1, 13)]  # two checkpoints, and two calls since
    zray.get(refs, timeout=30)
    refs += [total.add.remote(number) for number in range(13, 200)]
    home = kill_home(cluster, total)
    refs += [total.add.remote(zray.put(number)) for number in range(200, 210)]
    assert zray.get(refs, timeout=60) == [1000 + sum(range(1, number + 1)) for number in range(1, 210)]
    assert zray.get(total.where.remote(), timeout=30) != home


@zray.remote
class Child:
    def __init__(self, tally):
        self.count = 0
        tally.visit()

    def add(self):
        self.count += 1
        return self.count


@zray.remote(resources={"disk": 1}, checkpoint_interval=0)
class Maker:
    """Makes one on that node, in its constructor or in a call; recovers."""

    def __init__(self, tally, node=None):
        self.tally, self.children, self.heard = tally, [], []
        if node is not None:
            self.make(node)

    def make(self, node, **options):
        strategy = NodeAffinitySchedulingStrategy(node, soft=True)
        self.children.append(Child.options(scheduling_strategy=strategy, **options).remote(self.tally))
        return self.add()

    def add(self):
        self.heard.append(zray.get(self.children[-1].add.remote()))
        return self.heard

    def child(self):
        return self.children[-1]

    @zray.method(readonly=True)
    def where(self):
        return zray.get_runtime_context().get_node_id()


@pytest.mark.slow
@pytest.mark.parametrize("maker", ["constructor", "call", "call with a name"])
def test_an_actor_that_one_has_made_is_the_same_when_its_maker_goes_on_elsewhere(cluster, tmp_path, maker):
    tally = Tally(tmp_path / "made")
    first, second = (node.node_id for node in cluster.worker_nodes)
    there = NodeAffinitySchedulingStrategy(first, soft=True)
    actor = Maker.options(scheduling_strategy=there).remote(tally, second if maker == "constructor" else None)
    if maker != "constructor":
        options = {"name": "it", "lifetime": "detached"} if maker == "call with a name" else {}
        assert zray.get(actor.make.remote(second, **options), timeout=30) == [1]
    assert zray.get(actor.add.remote(), timeout=30) == [1, 2]
    if maker != "constructor":  # else only its maker has a handle
        child = zray.get(actor.child.remote(), timeout=30)
        assert zray.get(child.add.remote(), timeout=30) == 3
    assert kill_home(cluster, actor) == first
    after = [1, 2, 3] if maker == "constructor" else [1, 2, 4]
    assert zray.get(actor.add.remote(), timeout=60) == after
    assert zray.get(actor.where.remote(), timeout=30) == second
    assert tally.count() == 1
    if maker == "call with a name":
        zray.kill(zray.get_actor("it"))


@pytest.mark.slow
def test_an_actor_that_is_lost_with_its_maker_is_made_again_and_so_are_its_calls(cluster, tmp_path):
    tally = Tally(tmp_path / "made")
    actor = Maker.remote(tally)
    home = zray.get(actor.where.remote(), timeout=30)
    assert zray.get([actor.make.remote(home), actor.add.remote()], timeout=30) == [[1], [1, 2]]
    kill_home(cluster, actor)
    assert zray.get(actor.add.remote(), timeout=60) == [1, 2, 3]
    assert tally.count() == 2


@zray.remote(resources={"disk": 1})
class Giver:
    def __init__(self):
        self.count = 0

    def give(self, size):
        self.count += 1
        return bytes([self.count]) * size

    def give_at(self, gate, tally, size):
        tally.visit()
        gate.wait(60)
        return self.give(size)

    @zray.method(readonly=True)
    def given(self):
        return self.count


@zray.remote(resources={"disk": 1}, checkpoint_interval=0)
class Taker:
    def __init__(self):
        self.taken = []

    def take(self, giver, size):
        value = zray.get(giver.give.remote(size))
        return self.keep(value)

    def take_at(self, giver, gate, tally, size):
        return self.keep(zray.get(giver.give_at.remote(gate, tally, size)))

    def ask_oneself(self, oneself, size):
        self.own = oneself.give_large.remote(size)

    def give_large(self, size):
        return bytes([len(self.taken)]) * size

    def have_a_look(self):
        return self.keep(zray.get(self.own))

    def keep(self, value):
        self.taken.append((value[0], value[-1], len(value)))
        return self.taken

    @zray.method(readonly=True)
    def where(self):
        return zray.get_runtime_context().get_node_id()


@pytest.mark.slow
def test_large_answers_that_lie_elsewhere_are_the_same_for_who_goes_on_elsewhere(cluster):
    first, second = (NodeAffinitySchedulingStrategy(node.node_id, soft=True) for node in cluster.worker_nodes)
    taker = Taker.options(scheduling_strategy=first).remote()
    giver = Giver.options(scheduling_strategy=second).remote()
    sizes = [1_000_000, 10, 20 << 20, 2_000_000]
    for size in sizes:
        zray.get(taker.take.remote(giver, size), timeout=30)
    kill_home(cluster, taker)
    expected = [(number, number, size) for number, size in enumerate((*sizes, 20), 1)]
    assert zray.get(taker.take.remote(giver, 20), timeout=60) == expected


@pytest.mark.slow
def test_a_large_answer_that_is_under_way_to_a_node_that_dies_is_there_for_who_goes_on_elsewhere(cluster, tmp_path):
    home, second = cluster.worker_nodes
    there, other = (NodeAffinitySchedulingStrategy(node.node_id, soft=True) for node in (home, second))
    taker = Taker.options(scheduling_strategy=there).remote()
    giver = Giver.options(scheduling_strategy=other, checkpoint_interval=0).remote()
    gate, tally = Gate(tmp_path / "gate"), Tally(tmp_path / "tally")
    taken = taker.take_at.remote(giver, gate, tally, 1_000_000)
    until(lambda: tally.count() == 1)
    os.kill(home.pid, signal.SIGSTOP)
    gate.open()
    assert zray.get(giver.given.remote(), timeout=60) == 1  # and the answer has left
    cluster.remove_node(home)
    assert zray.get(taken, timeout=60) == [(1, 1, 1_000_000)]
    assert zray.get(giver.given.remote(), timeout=30) == 1


@pytest.mark.slow
def test_large_answers_that_lay_on_the_lost_node_alone_are_the_same_for_who_goes_on_elsewhere(cluster):
    home = NodeAffinitySchedulingStrategy(cluster.worker_nodes[0].node_id, soft=True)
    taker = Taker.options(scheduling_strategy=home).remote()
    giver = Giver.options(scheduling_strategy=home, checkpoint_interval=0).remote()
    for size in (1_000_000, 10, 2_000_000):
        zray.get(taker.take.remote(giver, size), timeout=30)
    kill_home(cluster, taker)
    expected = [(1, 1, 1_000_000), (2, 2, 10), (3, 3, 2_000_000), (4, 4, 20)]
    assert zray.get(taker.take.remote(giver, 20), timeout=60) == expected
    assert zray.get(giver.given.remote(), timeout=30) == 4


@pytest.mark.slow
def test_large_answers_of_its_own_too(cluster):
    taker = Taker.options(resources={"disk": 1}).remote()
    zray.get(taker.ask_oneself.remote(taker, 200_000), timeout=30)
    for number in range(1, 10):
        assert zray.get(taker.have_a_look.remote(), timeout=30) == [(0, 0, 200_000)] * number
    kill_home(cluster, taker)
    assert zray.get(taker.have_a_look.remote(), timeout=60) == [(0, 0, 200_000)] * 10


@pytest.mark.slow
def test_a_large_answer_that_nobody_has_yet_is_given_again_when_its_call_runs_again_elsewhere(cluster):
    """The guardians know of it, and are about to pull it: who asked for it, on the lost node too, asks again."""
    home = cluster.worker_nodes[0]
    there = NodeAffinitySchedulingStrategy(home.node_id, soft=True)
    taker = Taker.options(scheduling_strategy=there).remote()
    giver = Giver.options(scheduling_strategy=there, checkpoint_interval=0).remote()
    size = 12_000_000
    taken = taker.take.remote(giver, size)
    until(lambda: zray.get(giver.given.remote(), timeout=30) == 1)
    os.kill(home.pid, signal.SIGKILL)
    cluster.remove_node(home)
    assert zray.get(taken, timeout=60) == [(1, 1, size)]
    assert zray.get(giver.given.remote(), timeout=30) == 1


@zray.remote(resources={"disk": 1}, max_restarts=-1, checkpoint_interval=4)
class Reader:
    """Has read what its first call has put, and what its callers have."""

    def __init__(self):
        self.kept = None
        self.sums = []

    def where(self):
        return zray.get_runtime_context().get_node_id()

    def keep(self, size):
        self.kept = zray.put(np.ones(size))

    def read(self, refs):
        self.sums.append(sum(int(zray.get(ref).sum()) for ref in refs or [self.kept]))

    def have_read(self, there, refs):
        self.sums.append(zray.get(total.options(scheduling_strategy=there).remote(refs)))

    @zray.method(readonly=True)
    def seen(self):
        return self.sums

    @zray.method(readonly=True)
    def pid(self):
        return os.getpid()


@zray.remote
def put_there(size):
    return [zray.put(np.ones(size))]


@zray.remote
def total(refs):
    return sum(int(zray.get(ref).sum()) for ref in refs)


@zray.remote(num_cpus=0)
def have_read(reader, size):
    """What this task puts lies on its own node."""
    zray.get(reader.read.remote([zray.put(np.ones(size))]))


@pytest.mark.parametrize("size", [1_000, 1_000_000])
def test_what_was_put_on_the_lost_node_alone_is_there_for_who_goes_on_elsewhere(cluster, size):
    """Calls that had been answered were run again, did not find it, and were missing in the state: nobody was told."""
    reader = Reader.remote()
    zray.get(reader.keep.remote(size), timeout=20)
    home = zray.get(reader.where.remote(), timeout=20)
    there = have_read.options(scheduling_strategy=NodeAffinitySchedulingStrategy(home, soft=False))
    for _ in range(4):  # behind the checkpoint: the last ones are run again
        zray.get(reader.read.remote(None), timeout=20)
    zray.get(there.remote(reader, size), timeout=20)
    cluster.remove_node(next(node for node in cluster.worker_nodes if node.node_id == home))
    assert zray.get(reader.seen.remote(), timeout=30) == [size] * 5
    assert zray.get(reader.where.remote(), timeout=20) != home
    zray.get(reader.read.remote(None), timeout=20)


def test_who_would_not_be_what_callers_have_seen_is_dead_and_says_why(cluster):
    """Refs on what was put on another node, which is lost as well: a call that runs again does not find it."""
    first, second = (NodeAffinitySchedulingStrategy(node.node_id, soft=True) for node in cluster.worker_nodes)
    reader = Reader.options(scheduling_strategy=first).remote()
    refs = zray.get(put_there.options(scheduling_strategy=second).remote(1_000_000), timeout=20)
    zray.get(reader.have_read.remote(second, refs), timeout=20)
    assert zray.get(reader.seen.remote(), timeout=20) == [1_000_000]
    cluster.remove_node(cluster.worker_nodes[1])
    os.kill(zray.get(reader.pid.remote(), timeout=20), signal.SIGKILL)
    with pytest.raises(ActorDiedError, match=r"it cannot recover: Reader.have_read succeeded before the loss"):
        zray.get(reader.seen.remote(), timeout=30)
