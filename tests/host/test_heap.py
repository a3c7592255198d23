"""Memory that a process which speaks to other hosts has freed stays with it for what comes next, up to a bound."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")

PROGRAM = """
import os, resource, sys
from zray.host import heap
from zray.host.keys import KeyPair, KeyRing
from zray.host.neighbours import Neighbours
from zray.roles.object_manager.pulls import CHUNK_BYTES
from zray.roles.object_manager.sources import WINDOW_BYTES_MAX

if sys.argv[1] == "neighbours":
    neighbours = Neighbours("host", KeyPair.draw(), KeyRing(), print)
CHUNK, COUNT = CHUNK_BYTES, WINDOW_BYTES_MAX // CHUNK_BYTES

def faults_of_a_round(count=COUNT):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    chunks = [bytes([number % 255 + 1]) * CHUNK for number in range(count)]
    del chunks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

for _ in range(3):
    faults_of_a_round()
print(min(faults_of_a_round() for _ in range(5)) * resource.getpagesize() / (CHUNK * COUNT))
before = resident()
faults_of_a_round(16 * COUNT)
print(resident() - before < heap.FREED_BYTES_MAX + (8 << 20), flush=True)
os._exit(0)
"""


def run(kind: str) -> tuple[float, bool]:
    """What share of a window's bytes is new memory each time; whether much more, once freed, is given back."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, kind], capture_output=True, text=True, timeout=60, check=True)
    share, gives_back = done.stdout.split()[-2:]
    return float(share), gives_back == "True"


def test_chunks_that_come_and_go_take_no_new_pages_each_time() -> None:
    share, gives_back = run("neighbours")
    assert share < 0.02, "the end of the heap is given back and fetched again"
    assert gives_back, "memory that was freed stays without a bound"


def test_without_it_they_would() -> None:
    assert run("none")[0] > 0.5
