"""Lineage that has left memory: what is lost is made again from what a shard's store holds, whatever dies meanwhile."""

import pytest

from tests.sim.test_ancestry import lost_and_made_again
from zray.roles.gcs import flushing, handover, journal, state
from zray.sim.main import run_options, run_program
from zray.sim.options import Wanted, options_of

pytestmark = pytest.mark.sim


@pytest.fixture
def read(monkeypatch):
    """How many specs were read from pages."""
    found = []
    unpack = flushing.unpack_spec

    def count(specs, place):
        found.append(place)
        return unpack(specs, place)

    monkeypatch.setattr(flushing, "unpack_spec", count)
    return found


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_line_of_tasks_is_made_again_from_specs_that_have_left_memory(shards, replicas, read):
    lost_and_made_again(10, 3, seed=1, shards=shards, replicas=replicas, lineage_bytes=1)
    assert len(read) >= 30


def test_whatever_dies_meanwhile_nothing_is_left(read, monkeypatch):
    """Nodes, and members of chains: those that join get the pages of the others."""
    pages = []
    monkeypatch.setattr(state, "PART_RECORDS_MAX", 2)
    take = handover.Handover.on_chain_lineage
    monkeypatch.setattr(
        handover.Handover, "on_chain_lineage", lambda self, page: (pages.append(page), take(self, page))[1]
    )
    world = {"nodes": 4, "shards": 2, "replicas": 2, "node_kills": 2, "node_kill_probability": 0.002, "spares": 1}
    world |= {"member_kills": 5, "member_kill_probability": 0.005}
    for seed in range(1, 16):
        options = {"delay": ("even", "loaded")[seed % 2], "breaks": seed % 4, "lineage_bytes": (1, 1_000)[seed % 2]}
        outcome = run_program("ancestry", seed=seed, **world, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"
    assert len(read) > 20 and len(pages) > 20


def test_heads_that_are_started_again_find_what_had_left_memory(read, monkeypatch):
    """The heads and the nodes of these seeds die, and much is made again."""
    monkeypatch.setattr(state, "PART_RECORDS_MAX", 2)
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 1_000)
    for seed in (12, 27):
        options = options_of(seed, Wanted(nodes=4, heads=True, deaths=True))
        options.lineage_bytes = 1
        outcome = run_options(options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"
    assert read
