"""Spilling onto a disk that is full: values stay readable, and programs go on once there is space."""

import subprocess
import sys

import pytest

ON_FULL_DISK = """
import sys

import numpy as np

import zray

zray.init(num_cpus=1, object_store_memory=100_000_000, object_spilling_directory=sys.argv[1])
refs = []
try:
    while len(refs) < 60:
        refs.append(zray.put(np.full(1_250_000, len(refs), dtype=np.float64)))
except zray.exceptions.OutOfDiskError as error:
    said = str(error)[:300]
    is_said = sys.argv[1] in said and "Free space" in said and "object_spilling_directory" in said
    print("full", 20 < len(refs) < 40 and (is_said or said))
for number in (0, 1, 2, len(refs) - 1):
    print(zray.get(refs[number], timeout=30)[0] == number)
"""


def on_small_disk(tmp_path, source, disk_size, *arguments, timeout_s):
    """Run a program with a folder for spilling on a file system of a size."""
    program, folder = tmp_path / "full.py", tmp_path / "disk"
    program.write_text(source)
    folder.mkdir()
    words = " ".join(map(str, (sys.executable, program, folder, *arguments)))
    mount = f"mount -t tmpfs -o size={disk_size} tmpfs {folder} && exec {words}"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True, text=True, timeout=timeout_s)
    if done.returncode and ("unshare" in done.stderr or "mount:" in done.stderr):
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    return done


def test_values_are_read_while_the_disk_is_full(tmp_path):
    done = on_small_disk(tmp_path, ON_FULL_DISK, "200m", timeout_s=100)
    assert done.stdout.split() == ["full", *["True"] * 5], done.stdout + done.stderr


# A disk with less free space than one value has; all values stay referred to.
ON_FULLER_DISK = """
import sys

import numpy as np

import zray

size = int(sys.argv[2])
zray.init(num_cpus=1, object_store_memory=50_000_000, object_spilling_directory=sys.argv[1])
refs = []
try:
    while len(refs) < 200:
        refs.append(zray.put(np.full(size, len(refs), dtype=np.uint8)))
except zray.exceptions.OutOfDiskError:
    print("full")
for _ in range(2):
    for number, ref in enumerate(refs):
        array = zray.get(ref, timeout=30)
        assert (array == number).all() and array.ctypes.data % 64 == 0, number
    print("read")
kept = zray.get(refs[:-1], timeout=30)
print("kept", all((array == number).all() for number, array in enumerate(kept)))
del kept, array
zray.shutdown()
"""


@pytest.mark.parametrize("size", [9_999_999, 1_500_001], ids=["a file each", "several in a file"])
def test_values_are_read_while_neither_store_nor_disk_has_space(tmp_path, size):
    done = on_small_disk(tmp_path, ON_FULLER_DISK, "26m", size, timeout_s=200)
    assert done.stdout.split() == ["full", "read", "read", "kept", "True"], done.stdout + done.stderr


# A function that fails since its disk is full leaves calls, or generators, that nobody wants any more.
TRIES_AGAIN = """
import sys

import numpy as np

import zray

zray.init(num_cpus=2, object_store_memory=64_000_000, object_spilling_directory=sys.argv[1])


def block(number):
    return np.full(5_000_000, number, dtype=np.uint8)


@zray.remote
class Holder:
    def __init__(self):
        self.refs = []

    def add(self, number):
        self.refs.append(zray.put(block(number)))


@zray.remote
def blocks(count):
    for number in range(count):
        yield block(number)


def held(count):
    holder = Holder.remote()
    zray.get([holder.add.remote(number) for number in range(count)])


def yielded(count):
    zray.get([list(items) for items in [blocks.remote(count // 2) for _ in range(2)]][0])


use = {"held": held, "yielded": yielded}[sys.argv[2]]
for count in (100, 20, 100, 20):
    try:
        use(count)
        print("used")
    except zray.exceptions.OutOfDiskError:
        print("full")
"""


@pytest.mark.parametrize("what", ["held", "yielded"])
def test_program_that_tries_again_with_less_after_the_error_of_a_full_disk_succeeds(tmp_path, what):
    """Work that the first attempt has left runs for a moment, and frees space at its end only."""
    done = on_small_disk(tmp_path, TRIES_AGAIN, "100m", what, timeout_s=100)
    assert done.stdout.split() == ["full", "used"] * 2, done.stdout + done.stderr
