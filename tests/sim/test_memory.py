"""Nodes that run short of memory: workers are ended, their tasks run again, and programs get the same values."""

import pytest

from tests.sim.sweeps import MIXTURES
from zray.roles.local_scheduler.tasks.memory import MemoryGuard
from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim

PROGRAMS = ("tree", "chain", "counter", "own_actors", "flood", "timeouts", "borrowed", "cancels")


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_shortage_of_memory_changes_no_value(program, name):
    for seed in range(1, 4):
        outcome = sweep_program(program, seed=seed, memory_shortages=6, **MIXTURES[name])
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def test_runs_with_shortages_end_workers_and_hold_retries(monkeypatch):
    seen = []
    for name in ("_end", "hold"):
        method = getattr(MemoryGuard, name)
        monkeypatch.setattr(MemoryGuard, name, lambda *given, _run=method: (seen.append(_run.__name__), _run(*given)))
    for seed in range(1, 9):
        assert not sweep_program("tree", seed=seed, memory_shortages=6, **MIXTURES["one node"]).error
    assert {"_end", "hold"} <= set(seen)
