"""Speed of spilling: `python -m benchmarks.spilling` compares zray with plain files on the same disk, on two CPUs.

Each figure has its peer in the same turn.  Files are written and read in pieces of 8 MiB, without a checksum.

    through    values of ten stores: `put`, then `get` of each; peer: as many bytes written to files, then read
    get        `get` of one spilled array of 100 MB; peer: its file, read into touched memory
    sort       external sort of records of 100 bytes: map, shuffle and merge of 64 x 64 blocks; peer: twice the bytes
               written and read
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from typing import Any

import numpy as np
import psutil

import zray

PIECE_BYTES = 8 << 20
VALUE_BYTES = 100_000_000
PARTS = 64
# A single `get` of 20 ms is at the mercy of what the disk writes meanwhile.
LONE_GETS = 7
# Of the sort, as in the benchmarks of sorting (sortbenchmark.org): a sort of bare numbers would measure that alone.
RECORD = np.dtype([("key", "<u8"), ("rest", "V92")])


def write_and_read(folder: str, count: int, size: int) -> float:
    """Seconds for `count` files of `size` bytes, written and then read."""
    data = memoryview(os.urandom(PIECE_BYTES))
    buffer = bytearray(PIECE_BYTES)
    began = time.perf_counter()
    for number in range(count):
        with open(os.path.join(folder, str(number)), "wb", buffering=0) as file:
            for start in range(0, size, PIECE_BYTES):
                file.write(data[: min(PIECE_BYTES, size - start)])
    for number in range(count):
        with open(os.path.join(folder, str(number)), "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    seconds = time.perf_counter() - began
    for number in range(count):
        os.unlink(os.path.join(folder, str(number)))
    return seconds


def private_bytes() -> int:
    """Memory of this program and all its processes, without what they share."""
    own = psutil.Process()
    found = 0
    for process in (own, *own.children(recursive=True)):
        try:
            memory = process.memory_info()
        except psutil.Error:
            continue
        found += memory.rss - memory.shared
    return found


def through(store: int, folder: str) -> dict[str, float]:
    """Ten stores of values are put and read again; wrong bytes are counted, outside the time."""
    count = 10 * store // VALUE_BYTES
    peers = [write_and_read(folder, count, VALUE_BYTES)]
    source: Any = np.frombuffer(os.urandom(VALUE_BYTES), np.uint8).copy()
    before, most, wrong = private_bytes(), 0, 0
    began = time.perf_counter()
    refs = []
    for number in range(count):
        source[0] = number % 256
        refs.append(zray.put(source))
        if number % 10 == 0:
            most = max(most, private_bytes())
    seconds = time.perf_counter() - began
    for number, ref in enumerate(refs):
        began = time.perf_counter()
        value = zray.get(ref)
        found = int(value[0])
        seconds += time.perf_counter() - began
        source[0] = number % 256
        wrong += int((value != source).sum()) if number % 10 == 0 else int(found != number % 256)
        del value
        if number % 10 == 0:
            most = max(most, private_bytes())
    del refs
    peers.append(write_and_read(folder, count, VALUE_BYTES))
    return {"through_s": seconds, "through_peer_s": sum(peers) / 2, "wrong": wrong, "private_mb": (most - before) / 1e6}


def lone_get(store: int, folder: str) -> dict[str, float]:
    """`get` of a spilled array, and its bytes read from a file into touched memory: medians of several."""
    first: Any = np.frombuffer(os.urandom(VALUE_BYTES), np.uint8)
    path = os.path.join(folder, "lone")
    buffer = bytearray(VALUE_BYTES)
    gets, reads = [], []
    for _ in range(LONE_GETS):
        lone = zray.put(first)
        others = [zray.put(first) for _ in range(2 * store // VALUE_BYTES)]
        time.sleep(1.0)  # the writes end: no measure of them
        began = time.perf_counter()
        zray.get(lone)[0]
        gets.append(time.perf_counter() - began)
        with open(path, "wb") as file:
            file.write(first)
        began = time.perf_counter()
        with open(path, "rb", buffering=0) as file:
            file.readinto(buffer)
        reads.append(time.perf_counter() - began)
        os.unlink(path)
        del lone, others
    return {"get_ms": statistics.median(gets) * 1e3, "get_peer_ms": statistics.median(reads) * 1e3}


def in_order(records: Any) -> Any:
    """The records sorted by their keys."""
    return records[np.argsort(records["key"])]


@zray.remote(num_returns=PARTS)
def split(seed: int, count: int) -> list[Any]:
    """Random records, divided by the range of their keys into one block for each merge."""
    records = np.frombuffer(np.random.default_rng(seed).bytes(count * RECORD.itemsize), RECORD)
    order = in_order(records)
    edges = [(1 << 64) // PARTS * part for part in range(1, PARTS)]
    return np.split(order, np.searchsorted(order["key"], np.array(edges, np.uint64)))


@zray.remote
def merge(*blocks: Any) -> tuple[Any, int, int]:
    """The sorted records of a range, with the first and the last key."""
    merged = in_order(np.concatenate(blocks))
    return merged, int(merged["key"][0]), int(merged["key"][-1])


@zray.remote
def bounds(part: tuple[Any, int, int]) -> tuple[int, int, int, bool]:
    """How many records are in a part, its first and last key, and whether they are in order."""
    records, first, last = part
    return len(records), first, last, bool((records["key"][1:] >= records["key"][:-1]).all())


def sort(size: int, folder: str) -> dict[str, float]:
    """Sort `size` bytes of records; every block is written and read at least once."""
    count = size // RECORD.itemsize // PARTS
    began = time.perf_counter()
    blocks = [split.remote(seed, count) for seed in range(PARTS)]
    merged = [merge.remote(*[row[part] for row in blocks]) for part in range(PARTS)]
    del blocks
    found = zray.get([bounds.remote(part) for part in merged])
    seconds = time.perf_counter() - began
    assert sum(each[0] for each in found) == count * PARTS and all(each[3] for each in found)
    assert all(one[2] <= two[1] for one, two in zip(found, found[1:], strict=False))
    del merged
    peer = 2 * write_and_read(folder, PARTS, size // PARTS)
    return {"sort_s": seconds, "sort_peer_s": peer}


def main() -> None:
    """Measure, and print medians with their ratios.

    The first files that a disk gets may be written ten times slower than later ones: so the peer writes some first.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of 10 GB through 1 GB, and of 4 GB in 512 MB")
    given = parser.parse_args()
    rows: list[dict[str, float]] = []
    folder = tempfile.mkdtemp(prefix="zray-bench-")
    try:
        write_and_read(folder, int(100 * given.scale), VALUE_BYTES)
        for _ in range(given.turns):
            row: dict[str, float] = {}
            store = int(1e9 * given.scale)
            zray.init(num_cpus=2, object_store_memory=store, object_spilling_directory=folder)
            row |= through(store, folder)
            row |= lone_get(store, folder)
            zray.shutdown()
            zray.init(num_cpus=2, object_store_memory=int(512e6 * given.scale), object_spilling_directory=folder)
            row |= sort(int(4e9 * given.scale), folder)
            zray.shutdown()
            rows.append(row)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    for name, value in medians.items():
        print(f"{name:16} {value:10.2f}")
    print(f"through / peer   {medians['through_peer_s'] / medians['through_s']:10.2f}   (0.7)")
    print(f"get / peer       {medians['get_ms'] / medians['get_peer_ms']:10.2f}   (1.2)")
    print(f"sort / peer      {medians['sort_s'] / medians['sort_peer_s']:10.2f}   (3)")


if __name__ == "__main__":
    main()
