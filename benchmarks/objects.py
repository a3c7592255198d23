"""Figures of objects: small and large values, in and out of the store. GB are 1e9 bytes, arrays are float64."""

from __future__ import annotations

import statistics
from types import ModuleType
from typing import Any

import numpy

from .processes import run_program
from .timing import Effort, median_seconds, rate, samples

STORE_BYTES = 4 << 30  # given to each session that holds gigabytes
MEGABYTE = 10**6
WARM_UP_BYTES = 6 * 10**9  # put before a steady state is taken to be reached
SMALL_CALLS = 1000  # puts or gets per sample
FIRST_GIGABYTE_SESSIONS = 3

FIRST_GIGABYTE = """
import numpy
ray = importlib.import_module(MODULE)
array = numpy.ones(10**9 // 8)
ray.init(num_cpus=2, object_store_memory=OPTIONS["store_bytes"])
@ray.remote
def nothing():
    return None
ray.get(nothing.remote())
start = time.perf_counter()
ref = ray.put(array)
took = time.perf_counter() - start
del ref
ray.shutdown()
report(took)
"""


def array_of(size: int) -> numpy.ndarray:
    """A float64 array of `size` bytes whose pages have been touched."""
    return numpy.ones(size // 8)


def small_values(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """`put` and `get` of 100 bytes: calls/s."""
    value = b"x" * 100
    ref = ray.put(value)

    def put() -> None:
        for _ in range(SMALL_CALLS):
            ray.put(value)

    def get() -> None:
        for _ in range(SMALL_CALLS):
            ray.get(ref)

    return {
        "single_client_put_calls": rate(SMALL_CALLS, put, effort),
        "single_client_get_calls": rate(SMALL_CALLS, get, effort),
    }


def put_rate(ray: ModuleType, size: int, effort: Effort) -> float:
    """GB/s of `put` in a steady state: each ref is dropped before the next put."""
    array = array_of(size)
    for _ in range(WARM_UP_BYTES // size):
        ray.put(array)
    return size / 1e9 / statistics.median(samples(lambda: ray.put(array) and None, effort, at_least=5))


def put_100_megabytes(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """`put` of 100 MB, refs dropped: GB/s."""
    return {"put_100mb_gigabytes": put_rate(ray, 100 * MEGABYTE, effort)}


def put_gigabyte(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """`put` of 1 GB, refs dropped: GB/s."""
    return {"single_client_put_gigabytes": put_rate(ray, 1000 * MEGABYTE, effort)}


def get_gigabyte(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """`get` of a 1 GB array that exists: microseconds; fails if it is a copy."""
    ref = ray.put(array_of(1000 * MEGABYTE))
    first, second = ray.get(ref), ray.get(ref)
    if first.ctypes.data != second.ctypes.data:
        raise AssertionError("get made a copy")
    return {"get_1gb": statistics.median(samples(lambda: ray.get(ref), effort)) * 1e6}


def round_trip_10_megabytes(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """A 10 MB array into a task and one back: round trips/s."""
    array = array_of(10 * MEGABYTE)

    @ray.remote
    def same(array):
        return array

    return {"array_10mb_round_trips": rate(1, lambda: ray.get(same.remote(array)), effort)}


def shared_100_megabytes(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """One 100 MB array put and read by 20 tasks: milliseconds, the put included."""
    array = array_of(100 * MEGABYTE)

    @ray.remote
    def ends(array):
        return array[0] + array[-1]

    def run() -> None:
        ref = ray.put(array)
        assert ray.get([ends.remote(ref) for _ in range(20)]) == [2.0] * 20

    return {"array_100mb_to_20_tasks": median_seconds(run, effort) * 1e3}


def parameter_server(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """25 MB of weights on a server, gradients of two workers applied: iterations/s."""
    size = 25 * MEGABYTE // 8

    class Server:
        def __init__(self):
            self.weights = numpy.ones(size)

        def apply(self, *gradients):
            for gradient in gradients:
                self.weights -= gradient
            return self.weights

    class Worker:
        def __init__(self):
            self.gradient = numpy.ones(size)

        def compute(self, weights):
            numpy.multiply(weights, 0.01, out=self.gradient)
            return self.gradient

    remote: Any = ray.remote
    server = remote(Server).remote()
    workers = [remote(Worker).remote() for _ in range(2)]
    state = {"weights": server.apply.remote()}

    def iterate() -> None:
        for _ in range(5):
            gradients = [worker.compute.remote(state["weights"]) for worker in workers]
            state["weights"] = server.apply.remote(*gradients)
        ray.get(state["weights"])

    return {"parameter_server_25mb": rate(5, iterate, effort)}


def first_gigabyte(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """The first `put` of 1 GB in a new session: GB/s.

    The floor, `fresh_copy`, is the best of several copies: all but its first find pages that were freed a moment ago.
    So this is the best of several sessions, one right after another.  Where the machine's host has taken freed pages
    back meanwhile, each costs it several times a copy to bring again; the first session's `put` shows that.
    """
    times = [run_program(ray.__name__, FIRST_GIGABYTE, store_bytes=STORE_BYTES) for _ in range(FIRST_GIGABYTE_SESSIONS)]
    return {"put_first_gigabyte": 1 / min(times), "put_first_gigabyte_at_rest": 1 / times[0]}


WORKLOADS = [
    small_values,
    put_100_megabytes,
    put_gigabyte,
    get_gigabyte,
    round_trip_10_megabytes,
    shared_100_megabytes,
    parameter_server,
]
FRESH_WORKLOADS = [first_gigabyte]
