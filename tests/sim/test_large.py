"""Clusters of many nodes, under faults; the seeds of test_seeds.py have a few each."""

import pytest

from tests.sim.sweeps import sweep

pytestmark = pytest.mark.sim


@pytest.mark.parametrize(
    "nodes, seed, asked",
    [
        (20, 1, {"heads": True, "deaths": True}),
        (30, 1, {"cuts": True, "oneway": True}),
        (100, 5, {"deaths": True, "shards": 4, "replicas": 2}),
        (100, 1, {"weather": True}),
        (200, 5, {"deaths": True}),
    ],
)
def test_many_nodes(nodes, seed, asked):
    sweep([seed], nodes=nodes, **asked)
