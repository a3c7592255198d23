"""The store of shards on a Redis or Valkey server, beside the bare client and the log; and kills of server and head.

    python -m benchmarks.redis_store [--server redis-server] [--rounds 7] [--kills 0]

The script starts a server of its own with `appendfsync always`.  In each round, all ways append records of 200 bytes in
turns: one at a time, and 100 at a time.  The bare client sends RPUSH; the store sends its script, which compares owner,
epoch and last number first.

--kills: so often, at a random moment, the server or the process that appends is killed and started again.  At the end
all acknowledged records have to be there once, in order.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from zray.store.durable import StoreError, StoreFull
from zray.store.log import Log
from zray.store.redis_address import parse
from zray.store.redis_store import RedisStore

RECORD = b"r" * 200
GROUP = 100
LONE = 200  # appends of one record in a round
GROUPS = 40
PREFIX = "zray:measured:gcs-0:0"
SETTINGS = ("--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always")
KILL_SECONDS_MAX = 0.1


class Server:
    """A server on a Unix socket in a folder."""

    def __init__(self, program: str, folder: str) -> None:
        self.folder = folder
        self.socket = os.path.join(folder, "s")
        self.command = [program, *SETTINGS, "--dir", folder, "--unixsocket", self.socket]
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        while "eady to accept connections" not in (line := self.process.stdout.readline()):
            assert line, "the server has ended"

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def microseconds(append: Callable[[], object], count: int) -> float:
    """Return the time of one call."""
    began = time.perf_counter()
    for _ in range(count):
        append()
    return (time.perf_counter() - began) / count * 1e6


def measure(server: Server, rounds: int) -> list[tuple[str, float, float]]:
    """Return (way, microseconds of a lone append, records per second in groups), as medians of the rounds."""
    import redis

    client: Any = redis.Redis(unix_socket_path=server.socket)
    store = RedisStore(os.path.join(server.folder, "pages"), parse(f"unix://{server.socket}"), PREFIX)
    log = Log(os.path.join(server.folder, "log"))
    group = [RECORD] * GROUP
    ways: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "the bare client, RPUSH": (lambda: client.rpush("bare", RECORD), lambda: client.rpush("bare", *group)),
        "the store on the server": (lambda: store.append([RECORD]), lambda: store.append(group)),
        "a log on this disk": (lambda: log.append([RECORD]), lambda: log.append(group)),
    }
    lone: dict[str, list[float]] = {name: [] for name in ways}
    many: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (one, _) in ways.items():
            lone[name].append(microseconds(one, LONE))
        for name, (_, several) in ways.items():
            many[name].append(GROUP / microseconds(several, GROUPS) * 1e6)
    store.close()
    log.close()
    client.close()
    return [(name, statistics.median(lone[name]), statistics.median(many[name])) for name in ways]


def show(found: list[tuple[str, float, float]]) -> None:
    """Print a table, and the ratios to the bare client."""
    print(f"{'':28}{'lone append':>14}{'groups of 100':>20}")
    for name, alone, rate in found:
        print(f"{name:28}{alone:>11,.0f} us{rate:>12,.0f} records/s")
    (_, bare_alone, bare_rate), (_, alone, rate), _ = found
    print(f"of the client's: {alone / bare_alone:.2f} of the time alone, {rate / bare_rate:.2f} of the rate in groups")


# --- kills ---


def write_on(socket: str, folder: str) -> None:
    """Append numbered records for ever, as a role does: what was refused is appended again.  Says what is durable."""
    store = RedisStore(folder, parse(f"unix://{socket}"), PREFIX, patience=5.0)
    print(store.last, flush=True)
    while True:
        records = [b"%d" % (store.last + number) for number in range(1, 2 + store.last % 5)]
        for _ in range(10_000):
            with contextlib.suppress(StoreFull):
                store.append(records)
                break
            time.sleep(0.002)  # a role waits for a second
        print(store.last, flush=True)
        if store.last % 50 < len(records):
            with contextlib.suppress(StoreFull):
                store.begin_snapshot()
                store.add_to_snapshot(b"%d" % store.last)
                store.end_snapshot()


class Writer:
    """The process of `write_on`, and what it has acknowledged."""

    def __init__(self, server: Server) -> None:
        words = [sys.executable, "-m", "benchmarks.redis_store", "--write", server.socket]
        self.process = subprocess.Popen([*words, os.path.join(server.folder, "pages")], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.acknowledged = int(self.output.readline() or self._fail())

    def _fail(self) -> bytes:
        raise RuntimeError("the writer has ended")

    def kill(self) -> int:
        """Kill -9.  Returns the last acknowledged record."""
        self.process.kill()
        lines = self.output.read().split(b"\n")[:-1]
        self.process.wait()
        self.output.close()
        return int(lines[-1]) if lines else self.acknowledged


def check(server: Server, acknowledged: int) -> int:
    """Return the number of records, all of which are in their places."""
    store = RedisStore(os.path.join(server.folder, "pages"), parse(f"unix://{server.socket}"), PREFIX, patience=5.0)
    known = int(next((entry.payload for entry in store.snapshot()), b"0"))
    for entry in store.records():
        known += 1
        assert (entry.sequence, entry.payload) == (known, b"%d" % known), entry
    assert known == store.last >= acknowledged, (known, store.last, acknowledged)
    store.close()
    return known


def kill_often(server: Server, count: int, seed: int) -> None:
    """Kill server or writer so often."""
    chance = random.Random(seed)
    kills = {"server": 0, "head": 0}
    acknowledged = 0
    while sum(kills.values()) < count:
        writer = Writer(server)
        assert writer.acknowledged >= acknowledged
        for _ in range(min(chance.randint(0, 9), count - sum(kills.values()) - 1)):
            time.sleep(chance.random() * KILL_SECONDS_MAX)  # a moment at random
            server.kill()
            kills["server"] += 1
            server.start()
        time.sleep(chance.random() * KILL_SECONDS_MAX)
        acknowledged = writer.kill()
        kills["head"] += 1
        acknowledged = check(server, acknowledged)
    print(f"{kills['server']} kills of the server, {kills['head']} of the writer: {acknowledged:,} records, none lost")


def main() -> None:
    """Parse the arguments; measure, or kill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=shutil.which("redis-server") or shutil.which("valkey-server"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write_on(*given.write)
    if given.server is None:
        parser.error("neither redis-server nor valkey-server is installed: give --server PATH")
    with tempfile.TemporaryDirectory(prefix="zray-store-") as folder:
        server = Server(given.server, folder)
        try:
            if given.kills:
                kill_often(server, given.kills, given.seed)
            else:
                show(measure(server, given.rounds))
        except StoreError as error:
            sys.exit(str(error))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
