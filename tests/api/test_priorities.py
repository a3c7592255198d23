"""Priorities of tasks in real processes."""

import os

import pytest

import zray
from tests.gates import until


@zray.remote
def hold(gate):
    until(lambda: os.path.exists(gate))


@zray.remote
def write(log, text):
    with open(log, "a") as file:
        file.write(f"{text}\n")


def test_urgent_tasks_start_before_those_that_were_there_first(start, tmp_path):
    start(num_cpus=1)
    log, gate = str(tmp_path / "log"), str(tmp_path / "gate")
    first = hold.remote(gate)
    refs = [write.options(priority=priority).remote(log, priority) for priority in (-5, 0, 9) for _ in range(3)]
    open(gate, "w").close()
    zray.get([first, *refs])
    with open(log) as file:
        assert [int(line) for line in file] == [9] * 3 + [0] * 3 + [-5] * 3


@pytest.mark.parametrize("wrong", [1.5, "high", 10**7])
def test_wrong_priorities_are_refused(wrong):
    with pytest.raises((ValueError, TypeError), match="priority"):
        write.options(priority=wrong)
