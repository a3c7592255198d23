"""Generators of actors that recover, whose nodes die: real processes, kill -9."""

import numpy as np
import pytest

import zray
from tests.clusters import two_with_disks
from tests.gates import Gate, Tally, until
from zray.exceptions import TaskCancelledError

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def nodes(nothing_left):
    with two_with_disks() as cluster:
        yield cluster


@pytest.fixture
def cluster(nodes):
    while len(nodes.worker_nodes) < 2:
        nodes.add_node(num_cpus=1, resources={"disk": 4})
    nodes.wait_for_nodes()
    return nodes


@zray.remote(checkpoint_interval=0, resources={"disk": 1})
class Source:
    """Counts what it has yielded; may wait at a gate ahead of an item."""

    def __init__(self, folder):
        self.folder, self.total, self.ends = str(folder), 0, []

    def where(self):
        return zray.get_runtime_context().get_node_id()

    def numbers(self, count, size=0, gate_at=None):
        try:
            for number in range(count):
                if number == gate_at:
                    Gate(f"{self.folder}/gate").wait(60)
                Tally(f"{self.folder}/yields").visit()
                self.total += 1
                yield np.full(size, self.total) if size else self.total
        finally:
            self.ends.append(self.total)

    def state(self):
        return self.total, self.ends


def home_of(cluster, actor):
    home = zray.get(actor.where.remote(), timeout=20)
    return next(node for node in cluster.worker_nodes if node.node_id == home)


def numbers_of(refs):
    return [int(np.ravel(zray.get(ref, timeout=60))[0]) for ref in refs]


@pytest.mark.parametrize("size", [0, 100_000])
def test_generator_under_way_goes_on_elsewhere(cluster, tmp_path, size):
    source = Source.remote(tmp_path)
    home = home_of(cluster, source)
    refs = source.numbers.remote(6, size, gate_at=4)
    taken = numbers_of([next(refs)])
    kept = [next(refs) for _ in range(2)]
    until(lambda: Tally(tmp_path / "yields").count() == 4)
    cluster.remove_node(home)
    Gate(tmp_path / "gate").open()
    assert taken + numbers_of(kept) + numbers_of(refs) == [1, 2, 3, 4, 5, 6]
    assert zray.get(source.state.remote(), timeout=60) == (6, [6])


def test_items_of_an_ended_generator_that_were_not_drawn_are_made_again(cluster, tmp_path):
    source = Source.remote(tmp_path)
    home = home_of(cluster, source)
    refs = source.numbers.remote(5, 100_000)
    taken = numbers_of([next(refs) for _ in range(2)])
    assert zray.get(refs.completed(), timeout=60) == 5
    cluster.remove_node(home)
    assert taken + numbers_of(refs) == [1, 2, 3, 4, 5]
    assert zray.get(source.state.remote(), timeout=60) == (5, [5])


def test_generator_that_was_closed_ends_at_the_same_item_elsewhere(cluster, tmp_path):
    source = Source.remote(tmp_path)
    home = home_of(cluster, source)
    refs = source.numbers.options(max_buffered=2).remote(100_000)
    assert numbers_of([next(refs) for _ in range(3)]) == [1, 2, 3]
    zray.cancel(refs)
    before = zray.get(source.state.remote(), timeout=60)
    assert 3 <= before[0] < 10
    cluster.remove_node(home)
    assert zray.get(source.state.remote(), timeout=60) == before
    with pytest.raises(TaskCancelledError):
        zray.get(refs.completed(), timeout=60)


def test_back_pressure_goes_on_elsewhere(cluster, tmp_path):
    source = Source.remote(tmp_path)
    home = home_of(cluster, source)
    refs = source.numbers.options(max_buffered=2).remote(9)
    assert numbers_of([next(refs) for _ in range(3)]) == [1, 2, 3]
    cluster.remove_node(home)
    assert numbers_of(refs) == [4, 5, 6, 7, 8, 9]


def test_generator_that_was_left_as_its_node_died_ends_elsewhere(cluster, tmp_path):
    source = Source.remote(tmp_path)
    home = home_of(cluster, source)
    refs = source.numbers.options(max_buffered=1).remote(1_000_000)
    assert numbers_of([next(refs) for _ in range(3)]) == [1, 2, 3]
    cluster.remove_node(home)
    del refs
    total, ends = zray.get(source.state.remote(), timeout=60)
    assert total >= 3 and ends == [total]
    assert numbers_of(source.numbers.remote(2)) == [total + 1, total + 2]
