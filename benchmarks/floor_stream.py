"""The floor of transfers between nodes: a bare CURVE DEALER/ROUTER stream over loopback TCP, between two processes.

    python floor_stream.py      reads sizes in bytes from standard input, one a line; answers each with MB/s (1e6 bytes)

The sender hands pieces of one array to a DEALER without copying them; the receiver takes them from its ROUTER and
drops them.  No array is written at the other end, nothing is checked beyond what CURVE itself does.  From the first
piece sent to the answer that the last one has arrived.

Stands alone (no import of this package), so that it can be run in a clean process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy
import zmq

PIECE_BYTES = 1 << 20


def receive(link: Connection, secret: bytes) -> None:
    """The other process: count what arrives, and say so when it is as much as was announced."""
    context: zmq.Context = zmq.Context(io_threads=1)
    socket = context.socket(zmq.ROUTER)
    socket.sndhwm = socket.rcvhwm = 0
    socket.linger = 1000
    socket.curve_server = True
    socket.curve_secretkey = secret
    link.send(socket.bind_to_random_port("tcp://127.0.0.1"))
    while True:
        identity, announced = socket.recv_multipart()
        missing = int(announced)
        if not missing:
            break
        while missing > 0:
            socket.recv()
            missing -= len(socket.recv(copy=False))
        socket.send_multipart([identity, b"all here"])
    context.destroy()


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    public, secret = zmq.curve_keypair()
    link, its_end = multiprocessing.Pipe()
    other = multiprocessing.Process(target=receive, args=(its_end, secret), daemon=True)
    other.start()
    context: zmq.Context = zmq.Context(io_threads=1)
    socket = context.socket(zmq.DEALER)
    socket.sndhwm = socket.rcvhwm = 0
    socket.linger = 1000
    socket.curve_serverkey = public
    socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
    socket.connect(f"tcp://127.0.0.1:{link.recv()}")
    for line in sys.stdin:
        size = int(line)
        ones: Any = numpy.ones(size, dtype=numpy.uint8)
        array = memoryview(ones)
        start = time.perf_counter()
        socket.send(str(size).encode())
        for offset in range(0, size, PIECE_BYTES):
            socket.send(array[offset : offset + PIECE_BYTES], copy=False)
        socket.recv()
        print(round(size / 1e6 / (time.perf_counter() - start), 1), flush=True)
    socket.send(b"0")
    other.join(5)
    context.destroy()


if __name__ == "__main__":
    main()
