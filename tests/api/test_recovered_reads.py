"""Answers of readonly calls whose actor's node dies: real processes, kill -9."""

import numpy as np
import pytest

import zray
from tests.clusters import two_with_disks


@pytest.fixture
def cluster(nothing_left):
    with two_with_disks() as cluster:
        yield cluster


@zray.remote(resources={"disk": 1}, checkpoint_interval=5)
class Sums:
    """What it has added up, beside what those who ask have."""

    def __init__(self):
        self.sums = []

    def add(self, number):
        self.sums.append((self.sums[-1] if self.sums else 0) + number)
        return self.sums[-1]

    @zray.method(readonly=True)
    def beside(self, values):
        return np.concatenate([values, self.sums])

    @zray.method(readonly=True)
    def with_ref(self, refs):
        return [*refs, self.sums]

    @zray.method(readonly=True)
    def where(self):
        return zray.get_runtime_context().get_node_id()


def test_what_a_readonly_call_has_returned_that_lay_on_the_lost_node_alone_is_the_same_for_who_has_not_seen_it(cluster):
    """Large, or with refs inside: it was lost, and its caller got an error."""
    size = 250_000
    sums = Sums.remote()
    seen, looks = [], []
    for number in range(1, 9):
        values = zray.put(np.full(size, number))
        seen.append(sums.beside.remote(values))
        looks.append(sums.with_ref.remote([values]))
        assert zray.get(sums.add.remote(number), timeout=20) == number * (number + 1) // 2
    seen.append(sums.beside.remote(np.full(size, 9)))
    zray.wait(seen, num_returns=len(seen), fetch_local=False, timeout=20)
    del values
    home = zray.get(sums.where.remote(), timeout=20)
    cluster.remove_node(next(node for node in cluster.worker_nodes if node.node_id == home))
    totals = [number * (number + 1) // 2 for number in range(1, 9)]
    for number, (values, look) in enumerate(zip(seen, [*looks, None], strict=True)):
        found = zray.get(values, timeout=60)
        assert found[:size].min() == found[:size].max() == number + 1
        assert list(found[size:]) == totals[:number]
        if look is not None:
            ref, sums_then = zray.get(look, timeout=60)
            assert sums_then == totals[:number] and zray.get(ref, timeout=30)[0] == number + 1
    assert zray.get(sums.where.remote(), timeout=30) != home
