"""Rank of another library's allreduce, for benchmarks/collective.py: prints the milliseconds of each size as JSON.

    python collective_peer.py gloo RANK RANKS URL SIZES      torch.distributed; all ranks name the same meeting place
    python collective_peer.py sockets RANK HOST SIZES        a ring on bare sockets; prints its port, and reads the
                                                             addresses of all ranks from its standard input
    mpirun -n 2 python collective_peer.py mpi SIZES          mpi4py

No zray is imported, so that any Python with the library can run it.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy

# Calls of one size take so long together, or are so many.
SECONDS, CALLS_MIN, CALLS_MAX = 0.4, 5, 200
Sizes = Sequence[int] | Mapping[int, int]  # with the number of calls of each, where it is given


def main() -> None:
    """Run one rank."""
    if sys.argv[1] == "gloo":
        rank, wait, add, leave = gloo(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1] == "sockets":
        rank, wait, add, leave = sockets(int(sys.argv[2]), sys.argv[3])
    else:
        rank, wait, add, leave = mpi()
    given = json.loads(sys.argv[-1])
    found = measure({int(size): calls for size, calls in given.items()} if type(given) is dict else given, wait, add)
    if rank == 0:
        print(json.dumps(found), flush=True)
    leave()


def measure(sizes: Sizes, wait: Callable[[], None], add: Callable[[Any], None]) -> dict[int, float]:
    """Return the median of milliseconds by size; 0 stands for a barrier.

    Both ranks make as many calls: the number follows from the size alone, unless it is given with each size.
    """
    found = {}
    for size in sizes:
        array: Any = numpy.ones(size // 4, numpy.float32)
        number = max(CALLS_MIN, min(CALLS_MAX, int(SECONDS * 1e9 / max(size, 1))))
        if isinstance(sizes, Mapping):
            number = sizes[size]
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


def gloo(rank: int, ranks: int, url: str) -> Any:
    """Join a group of torch."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=ranks)
    return rank, dist.barrier, lambda array: dist.all_reduce(torch.from_numpy(array)), dist.destroy_process_group


def mpi() -> Any:
    """Join the group of mpirun."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    return world.rank, world.Barrier, lambda array: world.Allreduce(MPI.IN_PLACE, array), lambda: None


class Ring:
    """Ring of ranks on bare sockets: one connection to the next rank, and one from the rank before."""

    def __init__(self, rank: int, following: socket.socket, previous: socket.socket, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks
        self.following, self.previous = following, previous
        self.sender = ThreadPoolExecutor(1)
        self.buffer: Any = numpy.empty(0, numpy.float32)

    def exchange(self, outgoing: Any, incoming: Any) -> None:
        """Send one array, and receive another of any size meanwhile."""
        sent = self.sender.submit(self.following.sendall, outgoing)
        room = memoryview(incoming).cast("B")
        while room:
            count = self.previous.recv_into(room)
            if not count:
                raise ConnectionError("the rank before has ended")
            room = room[count:]
        sent.result()

    def wait(self) -> None:
        """Wait for all ranks."""
        byte = bytearray(1)
        for _ in range(self.ranks - 1):
            self.exchange(b"x", byte)

    def add(self, array: Any) -> None:
        """Add up an array of all ranks, in place."""
        chunks = numpy.array_split(array, self.ranks)
        longest = len(chunks[0])
        if len(self.buffer) < longest:
            self.buffer = numpy.empty(longest, numpy.float32)
        for step in range(self.ranks - 1):
            mine = chunks[(self.rank - 1 - step) % self.ranks]
            incoming = self.buffer[: len(mine)]
            self.exchange(memoryview(chunks[(self.rank - step) % self.ranks]), incoming)
            with numpy.errstate(over="ignore"):  # in place, again and again: soon all are infinite
                mine += incoming
        for step in range(self.ranks - 1):
            outgoing = chunks[(self.rank + 1 - step) % self.ranks]
            self.exchange(memoryview(outgoing), chunks[(self.rank - step) % self.ranks])


def sockets(rank: int, host: str) -> Any:
    """Join a ring on bare sockets."""
    with socket.create_server((host, 0)) as server:
        print(server.getsockname()[1], flush=True)
        addresses = json.loads(sys.stdin.readline())
        following = socket.create_connection(addresses[(rank + 1) % len(addresses)])
        previous, _ = server.accept()
    for connection in (following, previous):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ring = Ring(rank, following, previous, len(addresses))
    return rank, ring.wait, ring.add, lambda: None


if __name__ == "__main__":
    main()
