"""The same seed makes the same run, message for message: set order and hash order decide nothing."""

import os
import subprocess
import sys

import pytest

from tests.scripts import ROOT
from zray.sim.main import run_seed
from zray.sim.options import Wanted

pytestmark = pytest.mark.sim

PROGRAM = """
from zray.sim.main import run_seed
from zray.sim.options import Wanted
for seed, asked in {runs}:
    outcome = run_seed(seed, Wanted(**asked), check_every=1_000)  # checks are no part of the digest
    print(seed, asked, outcome.steps, outcome.kills, outcome.digest)
"""
PLAIN = [(seed, {"nodes": 1}) for seed in range(1, 25)] + [(seed, {"nodes": 3}) for seed in range(1, 7)]
PLAIN.append((39000017, {"nodes": 1}))  # several calls of an actor fail, which starts again
# Everything that faults, several shards and their replicas, heads and drains decide is decided by the seed alone too.
FAULTY = [
    (seed, asked)
    for asked in (
        {"nodes": 3, "deaths": True},
        {"nodes": 4, "heads": True},
        {"nodes": 4, "drains": True},
        {"nodes": 3, "shards": 2, "replicas": 2},
        {"nodes": 3, "shards": 2, "replicas": 2, "deaths": True, "drains": True},
        {"nodes": 5, "shards": 2, "heads": True, "deaths": True, "drains": True},
        {"nodes": 4, "replicas": 2, "deaths": True, "weather": True},
    )
    for seed in range(1, 3)
]


def digests(runs, hash_seed):
    environment = dict(os.environ, PYTHONHASHSEED=str(hash_seed), PYTHONPATH=str(ROOT))
    program = PROGRAM.format(runs=runs)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.timeout(240)  # two processes that compute for seconds, however many others do
@pytest.mark.parametrize("runs", [PLAIN, FAULTY], ids=["plain", "faulty"])
def test_one_seed_gives_one_run_whatever_the_hash_seed(runs):
    first = digests(runs, 1)
    assert len(first.splitlines()) == len(runs)
    assert first == digests(runs, 4242)


def test_two_runs_in_one_process_are_equal():
    one = Wanted(nodes=1)
    assert run_seed(7, one).digest == run_seed(7, one).digest


def test_two_seeds_give_two_runs():
    one = Wanted(nodes=1)
    assert run_seed(7, one).digest != run_seed(8, one).digest
