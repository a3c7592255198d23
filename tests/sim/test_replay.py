"""`scripts/simulate` with a failure planted: it says so, names the seed, and gives the line that replays it."""

import os
import shlex
import subprocess
import sys

import pytest

from tests.scripts import ROOT
from zray.roles.local_scheduler.tasks.pool import WorkerPool
from zray.sim import main as simulate
from zray.sim.main import run_seed
from zray.sim.options import Wanted

pytestmark = pytest.mark.sim

# A handler that raises, in the runs where a worker cannot be started: some, and never the first message.
PLANT = """
from zray.roles.local_scheduler.tasks.pool import WorkerPool

def raise_instead(self, message):
    raise KeyError("planted")

WorkerPool.start_failed = raise_instead
"""
FIRST, RUNS = 1, 6


def raise_instead(self, message):
    raise KeyError("planted")


@pytest.fixture
def planted(monkeypatch):
    """In this process, where all runs then are."""
    monkeypatch.setattr(WorkerPool, "start_failed", raise_instead)
    monkeypatch.setattr(simulate.os, "cpu_count", lambda: 1)


def seeds_that_fail():
    """Those that meet what is planted."""
    outcomes = [run_seed(seed, Wanted(nodes=1)) for seed in range(FIRST, FIRST + RUNS)]
    return {outcome.seed: outcome for outcome in outcomes if outcome.error}


def test_without_a_plant_all_is_well():
    assert not seeds_that_fail()


def test_an_exception_in_a_handler_fails_the_run(planted):
    """No exception disappears: an exception of a role ends the run, with its origin."""
    failed = seeds_that_fail()
    assert 0 < len(failed) < RUNS
    for outcome in failed.values():
        assert "KeyError: 'planted'" in outcome.error
        assert "raise_instead" in outcome.error


def test_a_failure_is_told_with_the_line_that_replays_it(planted, capsys):
    failed = seeds_that_fail()
    assert simulate.main(["--seed", str(FIRST), "--runs", str(RUNS), "--nodes", "1"]) == 1
    told = capsys.readouterr().out
    assert f"{RUNS} runs, {len(failed)} failed" in told
    assert "failed: " + " ".join(map(str, failed)) in told
    lines = [line for line in told.splitlines() if line.startswith("replay: ")]
    assert len(lines) == min(3, len(failed))
    for line, seed in zip(lines, failed, strict=False):
        script, *arguments = shlex.split(line.partition(" ")[2])
        assert script == "scripts/simulate"
        assert simulate.main([*arguments, "--verbose"]) == 1
        again = capsys.readouterr().out
        # The very same run, message for message, to the same end.
        assert failed[seed].digest in again
        assert failed[seed].error in again


def test_a_line_says_all_that_was_asked_for():
    """Each argument of scripts/simulate that changes a run is in it."""
    counts = {"nodes": 4, "shards": 2, "replicas": 3}
    flags = [name for name in Wanted.__struct_fields__ if name not in counts]
    line = Wanted(**counts, **dict.fromkeys(flags, True)).flags()
    assert set(line.split(" --")[1:]) == {"nodes 4", "shards 2", "replicas 3", *flags}
    assert {"deaths", "heads", "drains", "crashes"} <= set(flags)


def test_the_program_itself_ends_with_1_and_its_line_replays(tmp_path):
    """With processes of its own, as scripts/simulate runs it."""
    (tmp_path / "sitecustomize.py").write_text(PLANT)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = dict(os.environ, PYTHONPATH=path)

    def simulated(*arguments):
        command = [sys.executable, "-m", "zray.sim.main", *arguments]
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=50)

    told = simulated("--seed", str(FIRST), "--runs", str(RUNS), "--nodes", "1")
    assert told.returncode == 1, told.stderr
    line = next(line for line in told.stdout.splitlines() if line.startswith("replay: "))
    again = simulated(*shlex.split(line)[2:])
    assert again.returncode == 1
    assert line in again.stdout
    assert "KeyError: 'planted'" in again.stdout
