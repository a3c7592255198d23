"""Same seed, same run, message for message (DESIGN 9.7): set order and hash order decide nothing."""

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
for seed, nodes in {seeds}:
    print(seed, nodes, run_seed(seed, Wanted(nodes=nodes)).digest)
"""
SEEDS = [(seed, 1) for seed in range(1, 41)] + [(seed, 3) for seed in range(1, 11)]


def digests(hash_seed):
    environment = dict(os.environ, PYTHONHASHSEED=str(hash_seed), PYTHONPATH=str(ROOT))
    program = PROGRAM.format(seeds=SEEDS)
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=50
    )
    return finished.stdout


def test_one_seed_gives_one_run_whatever_the_hash_seed():
    first = digests(1)
    assert len(first.splitlines()) == len(SEEDS)
    assert first == digests(4242)


def test_two_runs_in_one_process_are_equal():
    one = Wanted(nodes=1)
    assert run_seed(7, one).digest == run_seed(7, one).digest


def test_two_seeds_give_two_runs():
    one = Wanted(nodes=1)
    assert run_seed(7, one).digest != run_seed(8, one).digest
