"""Writes past numpy's check into read-only shared memory: the process ends, and says why."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from zray.store import write_faults
from zray.store.segment import Segment, segment_name, unlink_session

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no handler for this machine")

PROGRAM = """
import ctypes, faulthandler, os, resource, signal, subprocess, sys, threading
import numpy
from zray.store.arena import ArenaView

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
{before}
view = ArenaView(sys.argv[1])
array = view.read(0, 0, 64)
others = numpy.frombuffer(view.writable(0, 4096, 64), numpy.uint8)
{after}
def write(array):
    {write}
write(array)
"""
WORDS = b"zray: this process ends because it wrote into an array that others read too."
IN_A_THREAD = "t = threading.Thread(target=ctypes.memset, args=(array.ctypes.data, 1, 1)); t.start(); t.join()"
OF_ANOTHER_PROCESS = "subprocess.run(['kill', '-SEGV', str(os.getpid())])"
THROUGH_THE_INTERFACE = """
    class Other: pass
    other = Other()
    other.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}
    numpy.asarray(other)[:] = 1"""


@pytest.fixture
def session():
    name = f"faults{os.getpid()}_{os.urandom(4).hex()}"
    Segment.create(segment_name(name, 0), 1 << 20).reserve(0, 1 << 20)
    yield name
    unlink_session(name)


def run(session, write, before="", after=""):
    program = PROGRAM.format(write=write, before=before, after=after)
    return subprocess.run(
        [sys.executable, "-c", program, session], capture_output=True, timeout=60, check=False, cwd=os.getcwd()
    )


@pytest.mark.parametrize(
    "write",
    [
        "numpy.add.at(array, [0, 1], 1)",
        "ctypes.memset(array.ctypes.data + 63, 1, 1)",
        THROUGH_THE_INTERFACE,
        IN_A_THREAD,
    ],
    ids=["add.at", "ctypes", "__array_interface__", "thread"],
)
def test_write_ends_the_process_and_is_explained(session, write):
    """The stack follows, with the line; the value stays."""
    done = run(session, write)
    assert done.returncode == -11
    text = done.stderr
    assert text.count(WORDS) == 1
    assert b"zray.get(ref, writable=True)" in text and b"@zray.remote(writable=True)" in text
    assert text.index(WORDS) < text.index(b"Fatal Python error: Segmentation fault")
    assert write == IN_A_THREAD or b"in write\n" in text
    assert bytes(Segment.open(segment_name(session, 0)).bytes_of(0, 64)) == bytes(64)


@pytest.mark.parametrize(
    "write",
    ["ctypes.string_at(0)", "ctypes.memset(id(None) & 0xFFF, 1, 1)", "signal.raise_signal(11)", OF_ANOTHER_PROCESS],
    ids=["read of nothing", "write to nothing", "signal", "signal of another process"],
)
def test_other_faults_are_left_to_others(session, write):
    done = run(session, write)
    assert done.returncode == -11
    assert WORDS not in done.stderr and b"Fatal Python error: Segmentation fault" in done.stderr


@pytest.mark.parametrize(
    "before, after",
    [
        ("faulthandler.enable()", ""),
        ("", "view.read(0, 0, 1); ArenaView(sys.argv[1]).read(0, 0, 1); array = ArenaView(sys.argv[1]).read(0, 0, 64)"),
    ],
    ids=["enabled before", "mapped again"],
)
def test_handlers_of_others_are_called_too(session, before, after):
    done = run(session, "numpy.add.at(array, [0, 1], 1)", before, after)
    assert done.returncode == -11
    assert done.stderr.count(b"Fatal Python error: Segmentation fault") == 1
    assert done.stderr.count(WORDS) == 1


def test_handler_that_repairs_the_fault_goes_on(session):
    """A Java virtual machine has such a handler.  The write is done, and nothing ends."""
    before = """
mprotect = ctypes.CDLL(None, use_errno=True).mprotect
@ctypes.CFUNCTYPE(None, ctypes.c_int)
def repair(number):
    assert mprotect(ctypes.c_void_p(page), ctypes.c_size_t(4096), 3) == 0
import mmap
memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
page = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert mprotect(ctypes.c_void_p(page), ctypes.c_size_t(4096), 1) == 0
ctypes.CDLL(None).signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
ctypes.CDLL(None).signal(11, ctypes.cast(repair, ctypes.c_void_p))
"""
    done = run(session, "ctypes.memset(page, 7, 1); print(memory[0])", before)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"7\n" and done.stderr == b""


def test_writer_of_this_process_is_not_stopped(session):
    done = run(session, "others[:] = 1; print(others.sum())")
    assert done.stdout == b"64\n" and done.returncode == 0


THREE = """
arrays = [view.read(0, at, 64, list, f"Object {at}. ") for at in (0, 128, 256)]
del arrays[0]"""


@pytest.mark.parametrize(
    "at, said", [(0, None), (63, None), (127, None), (128, 128), (191, 128), (192, None), (256, 256)]
)
def test_object_at_the_address_is_named(session, at, said):
    """An array that is gone is not named any more."""
    done = run(session, f"ctypes.memset(array.ctypes.data + {at}, 1, 1)", after=THREE)
    assert done.returncode == -11
    named = b"" if said is None else f"Object {said}. ".encode()
    assert WORDS + b"  " + named + b"zray.get() and the arguments" in done.stderr


def test_slots_are_used_again_and_more_arrays_than_slots_are_allowed(session):
    after = """
from zray.store import write_faults
for _ in range(3):
    count = write_faults.SLOTS_MAX + 5
    kept = [view.read(0, 64 * (at % 1000), 64, list, "Other object. ") for at in range(count)]
    assert not write_faults._free
    del kept
assert len(write_faults._free) == write_faults.SLOTS_MAX
last = view.read(0, 0, 64, list, "Object. " + "\u00e4" * 300)
"""
    done = run(session, "ctypes.memset(array.ctypes.data, 1, 1)", after=after)
    assert done.returncode == -11, done.stderr
    said = done.stderr[done.stderr.index(b"Object. ") : done.stderr.index(b"zray.get() and")]
    assert said.endswith(b"...  ") and len(said) == write_faults.SAID_BYTES_MAX - 1
