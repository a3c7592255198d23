"""E13 (OSDI Table 3): a policy is served to clients on the same machine, by an actor and by a REST server.

Both servers hold the same model: one real layer of numpy, then a sleep up to the time that the paper's models take
for a batch of 64 states.  A client keeps two batches in flight, so that the next batch travels while one is served.
The serving is embedded and co-located, as the paper says of its own.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

import zray

from ..timing import Effort
from .rest_server import Model
from .results import MEASURED, Figure

BATCH = 64  # states
IN_FLIGHT = 2
WARM_UP = 4  # batches
START_SECONDS = 20.0  # that a REST server may take to start
PATHS = {"REST, JSON": "/json", "REST, msgpack": "/msgpack"}


@dataclass(frozen=True)
class Load:
    """States of one size, and how long the model takes for a batch of them."""

    name: str
    state_bytes: int
    batch_seconds: float
    paper: str

    @property
    def ceiling(self) -> float:
        """States per second of a model that never waits."""
        return BATCH / self.batch_seconds


LOADS = (
    Load("4 KB", 4_000, 0.010, "Ray 6200, Clipper 4400 states/s"),
    Load("100 KB", 100_000, 0.005, "Ray 6900, Clipper 290 states/s"),
)


def measure(figure: Figure, effort: Effort) -> None:
    """States per second of each way, for both sizes."""
    seconds = 0.5 if effort.quick else 4.0
    runs = 2 if effort.quick else 5
    has_rest = all(importlib.util.find_spec(name) for name in ("starlette", "uvicorn"))
    for load in LOADS:
        states = np.random.default_rng(1).standard_normal((BATCH, load.state_bytes // 4), dtype=np.float32)
        rates = {"zray": [one_run(call, seconds) for call in with_actor(load, states, runs)]}
        if has_rest:
            for way, path in PATHS.items():
                with rest_server(load) as port:
                    rates[way] = [clients(port, path, states, seconds) for _ in range(runs)]
        _judge(figure, load, rates)
    figure.notes.append(
        f"Batches of {BATCH} states, {IN_FLIGHT} in flight, client and server on one machine. The model takes 10 ms "
        "for a batch of 4 KB states, and 5 ms for one of 100 KB states: one layer of numpy, then a sleep. REST servers "
        "are starlette on uvicorn, in place of Clipper; one takes JSON as Clipper's clients send it, one takes msgpack."
    )


def _judge(figure: Figure, load: Load, rates: dict[str, list[float]]) -> None:
    medians = {way: statistics.median(values) for way, values in rates.items()}
    for way, values in rates.items():
        figure.add(f"{load.name} states, {way}", medians[way], "states/s", MEASURED, paper=load.paper)
        figure.keep(f"{load.name} states, {way}", values, "states/s", MEASURED)
    share = medians["zray"] / load.ceiling
    is_large = load.state_bytes >= 100_000
    label = f"{load.name} states: zray, to a model that never waits"
    figure.add(label, share, "", MEASURED, at_least=None if is_large else 0.9)
    label = f"{load.name} states: zray, to REST with JSON"
    if "REST, JSON" in medians:
        figure.add(
            label,
            medians["zray"] / medians["REST, JSON"],
            "x",
            MEASURED,
            at_least=10 if is_large else None,
            paper=load.paper,
        )
        ratio = medians["zray"] / medians["REST, msgpack"]
        figure.add(f"{load.name} states: zray, to REST with msgpack", ratio, "x", MEASURED)
    else:
        figure.leave_out(label, "starlette and uvicorn are not installed: pip install starlette uvicorn")


def with_actor(load: Load, states: np.ndarray, runs: int) -> Iterator[Callable[[], Any]]:
    """A function, once for each run, that has a batch served by an actor and keeps another one in flight."""
    with zray.init(num_cpus=2):
        server: Any = zray.remote(Model).remote(load.state_bytes // 4, load.batch_seconds)
        flying: list[Any] = []

        def call() -> Any:
            while len(flying) < IN_FLIGHT:
                flying.append(server.predict.remote(states))
            return zray.get(flying.pop(0))

        for _ in range(runs):
            yield call


def one_run(call: Callable[[], Any], seconds: float) -> float:
    """States per second."""
    for _ in range(WARM_UP):
        call()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        assert len(call()) == BATCH
        count += 1
    return count * BATCH / (time.perf_counter() - started)


# --- REST ---


@contextlib.contextmanager
def rest_server(load: Load) -> Iterator[int]:
    """A REST server in a process of its own; the value is its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        port, descriptor = listener.getsockname()[1], listener.fileno()
        options = [str(descriptor), str(load.state_bytes // 4), str(load.batch_seconds)]
        command = [sys.executable, "-m", f"{__package__}.rest_server", *options]
        process = subprocess.Popen(command, pass_fds=[descriptor])
    try:
        _wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    """Until the server answers: requests wait in the listener's queue until then."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    connection.request("GET", "/nothing")
    assert connection.getresponse().status == 404
    connection.close()


def clients(port: int, path: str, states: np.ndarray, seconds: float) -> float:
    """States per second of as many clients as a driver of zray has batches in flight."""

    def encoded() -> bytes:
        if path == "/json":
            return json.dumps({"input": states.tolist()}).encode()
        return msgspec.msgpack.encode((states.shape, states.tobytes()))

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            while time.perf_counter() < end:
                connection.request("POST", path, encoded())
                answer = connection.getresponse().read()
                actions = json.loads(answer)["output"] if path == "/json" else msgspec.msgpack.decode(answer)
                assert len(actions) == BATCH
                counts.append(1)
        finally:
            connection.close()

    counts: list[int] = []
    started = time.perf_counter()
    end = started + seconds
    threads = [threading.Thread(target=client) for _ in range(IN_FLIGHT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(counts) * BATCH / (time.perf_counter() - started)
