"""`zray status`: programs, memory that is really in use, and the meaning of each count."""

import os
import time

import numpy as np
import pytest

import zray
from cli.status import ROWS
from tests.cli.commands import statuses
from tests.cli.commands import zray as command
from tests.gates import Gate, until

MB = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=1):
        yield


def status():
    (fact,) = statuses().values()
    return fact


def test_program_of_a_session_has_its_command_pid_and_start():
    (program,) = status()["programs"]
    assert program["pid"] == os.getpid()
    assert "pytest" in program["command"]
    started = time.mktime(time.strptime(program["started"], "%Y-%m-%d %H:%M:%S"))
    assert started <= time.mktime(time.strptime(status()["started"], "%Y-%m-%d %H:%M:%S")) <= time.time()


def test_memory_of_workers_and_of_the_store_is_what_they_take(tmp_path):
    before = status()["memory"]
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")

    @zray.remote
    def takes():
        block = np.ones(100 * MB, dtype=np.uint8)
        begun.open()
        gate.wait()
        return int(block[0])

    kept, ref = zray.put(np.ones(30 * MB, dtype=np.uint8)), takes.remote()
    begun.wait()
    memory = status()["memory"]
    assert 90 * MB < memory["used_bytes"] - before["used_bytes"] < 150 * MB
    assert 30 * MB <= memory["store_bytes"] - before["store_bytes"] < 40 * MB
    gate.open()
    assert zray.get(ref, timeout=30) == 1
    del kept
    until(lambda: status()["memory"]["used_bytes"] < before["used_bytes"] + 50 * MB)


def test_table_explains_each_count():
    lines = command("status").stdout.splitlines()
    for name, meaning in ROWS.items():
        assert any(f"│ {name.replace('_', ' ')} " in line and meaning in line for line in lines), lines
    for text in (f"pid {os.getpid()}, since", " reserved ", "GB really used by", "MB of memory really taken"):
        assert any(text in line for line in lines), lines
