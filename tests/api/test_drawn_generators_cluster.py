"""Generators that calls of a recoverable actor call, in clusters whose nodes die: real processes, kill -9."""

import numpy as np
import pytest

import zray
from tests.clusters import two_with_disks
from tests.gates import Gate, Tally, until
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

pytestmark = pytest.mark.timeout(120)
WAIT = 60.0


@pytest.fixture(scope="module")
def nodes(nothing_left):
    with two_with_disks() as cluster:
        yield cluster


@pytest.fixture
def cluster(nodes):
    while len(nodes.worker_nodes) < 3:
        nodes.add_node(num_cpus=1, resources={"disk": 4})
    nodes.wait_for_nodes()
    return nodes


class Source:
    """Yields numbers from 1 on, and counts its items; may wait at a gate ahead of an item."""

    def __init__(self):
        self.total, self.ends = 0, 0

    def where(self):
        return zray.get_runtime_context().get_node_id()

    def numbers(self, count, size, gate, gate_at):
        try:
            for number in range(count):
                if number == gate_at:
                    gate.wait(60)
                self.total += 1
                yield np.full(size, number + 1) if size else number + 1
        finally:
            self.ends += 1

    def state(self):
        return self.total, self.ends


@zray.remote(checkpoint_interval=0, resources={"disk": 1})
class Caller:
    def __init__(self, drawn):
        self.drawn, self.found = drawn, []

    def where(self):
        return zray.get_runtime_context().get_node_id()

    def draw(self, source, args, at_most=100):
        for ref in source.numbers.remote(*args):
            self.found.append(int(np.ravel(zray.get(ref))[0]))
            self.drawn.visit()
            if len(self.found) == at_most:
                break
        return self.found

    def look(self):
        return self.found


@pytest.fixture(params=["recovers", "recovers beside", "plain"])
def pair(request, cluster, tmp_path):
    """A source, a caller, the caller's node, what it has drawn, and whether the source is plain."""
    drawn = Tally(tmp_path / "drawn")
    if request.param == "plain":  # it lies on the head
        source = zray.remote(num_cpus=0)(Source).remote()
        place = cluster.worker_nodes[0]
    else:
        source = zray.remote(checkpoint_interval=0, resources={"disk": 1})(Source).remote()
        home = home_of(cluster, source)
        place = home if "beside" in request.param else next(node for node in cluster.worker_nodes if node is not home)
    where = NodeAffinitySchedulingStrategy(place.node_id, soft=True)
    caller = Caller.options(scheduling_strategy=where).remote(drawn)
    return source, caller, home_of(cluster, caller), drawn, request.param == "plain"


def got(ref):
    return zray.get(ref, timeout=WAIT)


def home_of(cluster, actor):
    home = got(actor.where.remote())
    return next((node for node in cluster.worker_nodes if node.node_id == home), None)


@pytest.mark.parametrize("size", [0, 100_000])
def test_next_home_sees_the_same_items_and_the_others(cluster, pair, tmp_path, size):
    source, caller, home, drawn, is_plain = pair
    gate = Gate(tmp_path / "gate")
    ref = caller.draw.remote(source, (7, size, gate, 4))
    until(lambda: drawn.count() >= 4)
    cluster.remove_node(home)
    until(lambda: drawn.count() >= 8, WAIT)  # the next process has seen the same
    gate.open()
    assert got(ref) == [1, 2, 3, 4, 5, 6, 7]
    # A call on a plain actor runs again, if it ends before it is made again.
    assert got(source.state.remote()) in [(7, 1), (14, 2)][: 1 + is_plain]


def test_ended_generator_is_not_run_again_elsewhere(cluster, pair):
    source, caller, home, _, _ = pair
    assert got(caller.draw.remote(source, (3, 0, None, -1))) == [1, 2, 3]
    cluster.remove_node(home)
    assert got(caller.look.remote()) == [1, 2, 3]
    assert got(caller.draw.remote(source, (2, 100_000, None, -1))) == [1, 2, 3, 1, 2]
    assert got(source.state.remote()) == (5, 2)


def test_generator_that_was_left_is_left_elsewhere(cluster, pair):
    source, caller, home, _, is_plain = pair
    assert got(caller.draw.remote(source, (20_000, 0, None, -1), at_most=3)) == [1, 2, 3]
    before = got(source.state.remote())
    cluster.remove_node(home)
    assert got(caller.look.remote()) == [1, 2, 3]
    after = got(source.state.remote())
    # A call on a plain actor runs again, if it ends before it is made again; to be left is an end.
    assert before[1] == 1 and (after == before or (is_plain and after[1] == 2))
