"""Rank of another library's allreduce, for benchmarks/collective.py: prints the milliseconds of each size as JSON.

    python collective_peer.py gloo RANK FILE SIZES      torch.distributed; both ranks name the same new file
    mpirun -n 2 python collective_peer.py mpi SIZES     mpi4py

No zray is imported, so that any Python with the library can run it.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy

# Calls of one size take so long together, or are so many.
SECONDS, CALLS_MIN, CALLS_MAX = 0.4, 5, 200


def main() -> None:
    """Run one rank."""
    if sys.argv[1] == "gloo":
        rank, wait, add, leave = gloo(int(sys.argv[2]), sys.argv[3])
    else:
        rank, wait, add, leave = mpi()
    found = measure(json.loads(sys.argv[-1]), wait, add)
    if rank == 0:
        print(json.dumps(found), flush=True)
    leave()


def measure(sizes: list[int], wait: Callable[[], None], add: Callable[[Any], None]) -> dict[int, float]:
    """Return the median of milliseconds by size; 0 stands for a barrier.

    Both ranks make as many calls: the number follows from the size alone.
    """
    found = {}
    for size in sizes:
        array: Any = numpy.ones(size // 4, numpy.float32)
        number = max(CALLS_MIN, min(CALLS_MAX, int(SECONDS * 1e9 / max(size, 1))))
        times = []
        for _ in range(number):
            wait()
            start = time.perf_counter()
            if size:
                add(array)
            else:
                wait()
            times.append(time.perf_counter() - start)
        found[size] = statistics.median(times) * 1e3
    return found


def gloo(rank: int, path: str) -> Any:
    """Join a group of torch."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    return rank, dist.barrier, lambda array: dist.all_reduce(torch.from_numpy(array)), dist.destroy_process_group


def mpi() -> Any:
    """Join the group of mpirun."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    return world.rank, world.Barrier, lambda array: world.Allreduce(MPI.IN_PLACE, array), lambda: None


if __name__ == "__main__":
    main()
