"""Random programs give what they give in one thread, end, and leave nothing (see sessions.py).

ZRAY_PROGRAM_RUNS says how many sessions (6), ZRAY_PROGRAM_SEED where to begin (0); a failure says the line that replays
it, as far as the machine's scheduling lets it.
"""

import os
import random
import subprocess
import sys

import pytest

from tests.scripts import environment

from .moves import parts_of, programs_in
from .sessions import programs_of
from .shrink import smaller
from .writer import style_of, write

RUNS = int(os.environ.get("ZRAY_PROGRAM_RUNS", "6"))
FIRST_SEED = int(os.environ.get("ZRAY_PROGRAM_SEED", "0"))


@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * RUNS)
def test_programs_give_what_they_give_in_one_thread(tmp_path):
    command = [sys.executable, "-m", "tests.random_programs.sessions", "--seed", str(FIRST_SEED), "--runs", str(RUNS)]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def test_a_seed_is_a_program():
    assert programs_of(7) == programs_of(7) != programs_of(8)


def test_programs_make_all_kinds_of_moves():
    """As long as nobody turns some off by mistake."""
    kinds = {
        type(move).__name__ for seed in range(20) for _, program in programs_of(seed) for move in parts_of(program)
    }
    assert len(kinds) == 17, sorted(kinds)


def test_what_is_smaller_is_smaller():
    rng = random.Random(1)
    program = write(rng, style_of(rng))
    texts = [repr(less) for less in smaller(program)]
    assert len(texts) > 10 and repr(program) not in texts
    assert all(programs_in(move) is not None for move in program.moves)
