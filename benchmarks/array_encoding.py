"""Small arrays inside messages: zray's head of dtype and shape beside msgpack-numpy, in turns.

    python -m benchmarks.array_encoding

Prints, for each size, the median microseconds of one array written and read again by each, and the ratio.
docs/design/decisions.md has the choice.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import msgpack
import msgpack_numpy
import numpy as np

from zray.store.arrays import decode_array, encode_array

SIZES = (1, 16, 128, 1_024, 8_000)  # elements of 8 bytes: below 64 KiB, as in messages
ROUNDS, REPEATS = 15, 2_000


def by_zray(array: np.ndarray) -> np.ndarray:
    encoded = encode_array(array)
    assert encoded is not None
    return decode_array(encoded.inband)


def by_msgpack_numpy(array: np.ndarray) -> np.ndarray:
    return msgpack.unpackb(msgpack.packb(array, default=msgpack_numpy.encode), object_hook=msgpack_numpy.decode)


def microseconds(work: Callable[[np.ndarray], np.ndarray], array: np.ndarray) -> float:
    """The mean of one call over many."""
    begin = time.perf_counter()
    for _ in range(REPEATS):
        work(array)
    return (time.perf_counter() - begin) / REPEATS * 1e6


def main() -> None:
    print(f"{'bytes':>8} {'zray us':>9} {'msgpack-numpy us':>17} {'ratio':>6}")
    for size in SIZES:
        array: np.ndarray = np.arange(size, dtype=np.float64)
        assert np.array_equal(by_zray(array), by_msgpack_numpy(array))
        pairs = [(microseconds(by_zray, array), microseconds(by_msgpack_numpy, array)) for _ in range(ROUNDS)]
        ours = statistics.median(first for first, _ in pairs)
        theirs = statistics.median(second for _, second in pairs)
        ratio = statistics.median(second / first for first, second in pairs)
        print(f"{array.nbytes:>8} {ours:>9.2f} {theirs:>17.2f} {ratio:>6.2f}")


if __name__ == "__main__":
    main()
