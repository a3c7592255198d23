"""Three nodes, and every second a process of them is killed, whichever it is: all answers are right."""

import os

import pytest

from benchmarks.chaos import VICTIMS, measure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
SEED = int(os.environ.get("ZRAY_CHAOS_SEED", "1"))


@pytest.fixture
def own_environment(monkeypatch):
    """What the driver changes to be a host of its own."""
    for name in ("ZRAY_TMPDIR", "ZRAY_TOKEN"):
        monkeypatch.setenv(name, "")


def test_all_answers_are_right_whatever_is_killed(own_environment, nothing_left):
    found = measure(2_000, 0.01, 1.0, SEED, VICTIMS, replicas=1)
    assert found.wrong == 0 and found.killed
    assert found.free_s >= 0.0
