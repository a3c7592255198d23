"""Writes past numpy's check into arrays that zray hands out: no reader ever sees another value."""

import ctypes
import signal
import subprocess
import sys

import numpy as np
import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")

LARGE, SMALL = 50_000, 100  # elements: in shared memory, and in the messages of zray
HEAD_BYTES = 64  # ahead of an array's elements
WORDS = "this process ends because it wrote into an array that others read too"


def through_the_interface(array):
    class Other:
        __array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}

    np.asarray(Other())[:2] += 1


WRITES = {
    "add.at": lambda array: np.add.at(array, [0, 1], 1),
    "ctypes": lambda array: ctypes.memset(array.ctypes.data, 1, 8),
    "__array_interface__": through_the_interface,
}


@pytest.mark.parametrize("how", WRITES)
def test_write_into_a_large_argument_ends_the_worker_and_is_explained(how):
    write = WRITES[how]
    ref = zray.put(np.zeros(LARGE))

    @zray.remote(max_retries=0)
    def change(table):
        write(table)

    with pytest.raises(zray.exceptions.WorkerCrashedError) as caught:
        zray.get(change.remote(ref))
    named = f"object {ref.hex()} ({8 * LARGE + HEAD_BYTES:,} bytes), argument 'table' of task "
    for words in ("SIGSEGV", WORDS, named, "in change", "@zray.remote(writable=True)"):
        assert words in str(caught.value)
    assert not zray.get(ref).any()


@pytest.mark.parametrize("count", [20_000, 1_000_000])
def test_write_of_torch_is_explained(count):
    pytest.importorskip("torch", reason="torch is not installed")
    ref = zray.put({"table": np.zeros(count)})

    @zray.remote(max_retries=0)
    def change(_, *, tables):
        import torch

        torch.from_numpy(tables["table"]).add_(1)

    with pytest.raises(zray.exceptions.WorkerCrashedError) as caught:
        zray.get(change.remote(1, tables=ref))
    for words in (WORDS, f"object {ref.hex()} (", "argument 'tables' of task ", "in change", "writable=True"):
        assert words in str(caught.value)
    assert not zray.get(ref)["table"].any()


@pytest.mark.parametrize(
    "call, origin",
    [
        (lambda writer, ref: writer.change.remote(ref), "Writer.change"),
        (lambda writer, ref: writer.get_and_change.remote([ref]), "which zray.get() or an await gave."),
        (lambda writer, ref: writer.change_kept.remote(), "argument 'kept' of the constructor of "),
    ],
    ids=["method", "get", "constructor"],
)
def test_message_says_how_the_array_came(call, origin):
    """Other arrays are in use at the same time: the one that is written is named."""
    refs = [zray.put(np.zeros(LARGE)) for _ in range(3)]

    @zray.remote
    class Writer:
        def __init__(self, kept, others):
            self.kept, self.others = kept, zray.get(others)

        def change_kept(self):
            np.add.at(self.kept, [0], 1)

        def change(self, table):
            np.add.at(table, [0], 1)

        def get_and_change(self, refs):
            np.add.at(zray.get(refs[0]), [0], 1)

    is_kept = "'kept'" in origin
    writer = Writer.remote(refs[0], refs[1:2])
    with pytest.raises(zray.exceptions.ActorDiedError) as caught:
        zray.get(call(writer, refs[2]))
    assert f"object {refs[0 if is_kept else 2].hex()} (" in str(caught.value) and origin in str(caught.value)


def test_write_of_an_actor_into_what_it_got_is_explained():
    @zray.remote
    class Writer:
        def change(self, refs):
            np.add.at(zray.get(refs[0])["table"], [0], 1)

    ref = zray.put({"table": np.zeros(LARGE)})
    with pytest.raises(zray.exceptions.ActorDiedError, match=WORDS):
        zray.get(Writer.remote().change.remote([ref]))
    assert not zray.get(ref)["table"].any()


@pytest.mark.parametrize("wrap, unwrap", [(lambda a: a, lambda a: a), (lambda a: {"a": a}, lambda a: a["a"])])
@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_write_into_a_small_array_is_seen_by_nobody_else(wrap, unwrap, write):
    """The process goes on: what it has is a copy."""
    ref = zray.put(wrap(np.zeros(SMALL)))

    @zray.remote(num_cpus=2)  # one worker
    def change(value):
        write(unwrap(value))
        return unwrap(value)[:2].copy()

    first, *rest = zray.get([change.remote(ref) for _ in range(6)])
    assert first.any()
    for again in rest:
        np.testing.assert_array_equal(again, first)
    write(unwrap(zray.get(ref)))
    assert not unwrap(zray.get(ref)).any()


def test_writable_copies_take_writes_of_any_kind():
    ref = zray.put(np.zeros(LARGE))

    @zray.remote(writable=True, max_retries=0)
    def change(table):
        for write in WRITES.values():
            write(table)
        return table

    own = zray.get(ref, writable=True)
    for write in WRITES.values():
        write(own)
    assert own[:2].all() and zray.get(change.remote(ref))[:2].all()
    assert not zray.get(ref).any()


def test_value_that_a_task_returns_and_keeps_stays_as_it_was_returned():
    @zray.remote
    class Keeper:
        def __init__(self):
            self.table = np.zeros(LARGE)

        def show(self):
            return self.table

        def change(self):
            np.add.at(self.table, [0], 1)
            return self.table[0]

    keeper = Keeper.remote()
    shown = zray.get(keeper.show.remote())
    assert zray.get(keeper.change.remote()) == 1
    assert not shown.any()


PROGRAM = """
import numpy as np, resource, sys, zray
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
zray.init(num_cpus=1)
array = zray.get(zray.put(np.zeros(50_000)))

def change(array):
    np.add.at(array, [0], 1)

change(array)
"""


def test_driver_that_writes_ends_and_says_why():
    """The program reads what it has put itself through the mapping for readers."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGSEGV
    for words in (WORDS, "zray.get(ref, writable=True)", "Fatal Python error: Segmentation fault", "in change"):
        assert words in done.stderr
