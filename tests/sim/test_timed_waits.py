"""Tasks that wait for short times inside each other: they go on at once, and all of them end."""

import pytest

from zray.roles.local_scheduler.tasks import pool
from zray.roles.task_executor import TaskExecutor
from zray.sim.main import run_program

pytestmark = pytest.mark.sim


@pytest.mark.parametrize(
    "nodes, kills, delay, beyond_cap",
    [(1, 0, "loaded", 32), (1, 3, "local", 32), (1, 0, "local", 0), (1, 3, "local", 0), (3, 3, "even", 0)],
)
def test_polls_inside_each_other_end(nodes, kills, delay, beyond_cap, monkeypatch):
    """Without workers beyond the cap their children run inside their waits, or are taken back from there."""
    monkeypatch.setattr(pool, "LIMITED_MAX", beyond_cap)
    for seed in range(1, 5):
        options = {"cpus": 1 + seed % 2, "kills": kills, "kill_probability": 0.02, "delay": delay}
        outcome = run_program("polls", seed=seed, nodes=nodes, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def test_tasks_that_were_sent_into_waits_that_are_left_run_all_the_same(monkeypatch):
    """Each is taken back by the node, and thrown out by the worker."""
    thrown_out = []
    throw_nested_out = TaskExecutor.throw_nested_out

    def counted(executor):
        thrown_out.extend(executor.nested)
        return throw_nested_out(executor)

    monkeypatch.setattr(TaskExecutor, "throw_nested_out", counted)
    monkeypatch.setattr(pool, "LIMITED_MAX", 0)
    outcome = run_program("polls", seed=27, nodes=1, cpus=1, delay="loaded")
    assert not outcome.error, outcome.error
    assert thrown_out
