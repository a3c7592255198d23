"""Values of torch, pandas, Arrow and scipy: their elements lie in shared memory, and are read there."""

import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

import zray
from tests.places import is_shared

pytestmark = pytest.mark.usefixtures("session")

ELEMENTS = 12_500_000  # of 8 bytes: 100 MB


def address_of(array):
    return array.__array_interface__["data"][0]


class PeakMemory:
    """The growth of this process's peak memory in bytes, from now on."""

    def __init__(self):
        Path("/proc/self/clear_refs").write_text("5")
        self.before = self._peak()

    def _peak(self):
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def growth(self):
        return self._peak() - self.before


def arrow_address(array):
    chunk = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    return chunk.buffers()[-1].address


def module():
    layer = torch.nn.Linear(1, 1)
    layer.weight = torch.nn.Parameter(torch.zeros(ELEMENTS, 1, dtype=torch.float64), requires_grad=False)
    return layer


# A value of 100 MB, and the addresses of its elements.
LARGE = {
    "numpy array": (lambda: np.zeros(ELEMENTS), lambda value: [address_of(value)]),
    "torch tensor": (lambda: torch.zeros(ELEMENTS, dtype=torch.float64), lambda value: [value.data_ptr()]),
    "torch parameter": (lambda: torch.nn.Parameter(torch.zeros(2 * ELEMENTS)), lambda value: [value.data_ptr()]),
    "torch module": (module, lambda value: [value.weight.data_ptr()]),
    "state_dict": (lambda: module().state_dict(), lambda value: [value["weight"].data_ptr()]),
    "optimizer": (
        lambda: {"grads": [torch.zeros(ELEMENTS // 2), torch.zeros(ELEMENTS // 2)], "step": 3},
        lambda value: [grad.data_ptr() for grad in value["grads"]],
    ),
    "sparse tensor": (
        lambda: torch.sparse_coo_tensor(np.arange(ELEMENTS // 2)[None], np.ones(ELEMENTS // 2), check_invariants=False),
        lambda value: [value._indices().data_ptr(), value._values().data_ptr()],
    ),
    "Arrow table": (
        lambda: pa.table({"a": np.zeros(ELEMENTS // 2), "b": np.zeros(ELEMENTS // 2)}),
        lambda value: [arrow_address(value["a"]), arrow_address(value["b"])],
    ),
    "data frame": (
        lambda: pd.DataFrame({"a": np.zeros(ELEMENTS // 2), "b": np.arange(ELEMENTS // 2)}),
        lambda value: [address_of(value["a"].to_numpy()), address_of(value["b"].to_numpy())],
    ),
    "strings": (
        lambda: pd.Series(["x" * 100_000] * 1000),
        lambda value: [arrow_address(pa.chunked_array(value.array._pa_array))],
    ),
    "sparse matrix": (
        lambda: sp.csr_array((np.ones(ELEMENTS // 2), (np.arange(ELEMENTS // 2), np.zeros(ELEMENTS // 2, np.int32)))),
        lambda value: [address_of(value.data), address_of(value.indices)],
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_elements_are_read_where_they_lie(name):
    make, addresses = LARGE[name]
    ref = zray.put(make())
    zray.get(ref)  # the store is mapped, and what unpickling imports is there
    peak, start = PeakMemory(), time.perf_counter()
    value = zray.get(ref)
    seconds, growth = time.perf_counter() - start, peak.growth()
    assert all(map(is_shared, addresses(value)))
    assert growth < 20_000_000 and seconds < 1


def test_result_of_a_task_is_read_where_it_lies():
    @zray.remote
    def step(weights):
        assert is_shared(weights["w"].data_ptr())
        return {"w": weights["w"] + 1}

    found = zray.get(step.remote(zray.put({"w": torch.zeros(1000, 1000)})))["w"]
    assert is_shared(found.data_ptr()) and bool((found == 1).all())


def test_write_into_a_tensor_ends_the_worker_and_is_explained():
    ref = zray.put(torch.zeros(100_000))

    @zray.remote(max_retries=0)
    def change(tensor):
        tensor.add_(1)

    with pytest.raises(zray.exceptions.WorkerCrashedError, match="wrote into an array that others read too"):
        zray.get(change.remote(ref))
    assert not zray.get(ref).any()


def test_write_into_a_data_frame_is_refused():
    frame = zray.get(zray.put(pd.DataFrame({"a": np.zeros(100_000)})))
    with pytest.raises(ValueError, match="read-only"):
        frame["a"].array._ndarray[0] = 1


@pytest.mark.parametrize("size", [10, 100_000])
def test_writable_tensors_are_copies(size):
    ref = zray.put([torch.zeros(size), torch.nn.Parameter(torch.zeros(size))])
    own = zray.get(ref, writable=True)
    with torch.no_grad():
        own[0].add_(1)
        own[1].add_(1)
    assert not any(tensor.any() for tensor in zray.get(ref))


class Guarded:
    """Cannot be pickled, but for its serializer."""

    def __init__(self, values):
        self.values, self.lock = values, threading.Lock()


def test_registered_serializer_reaches_workers_with_the_value():
    @zray.remote
    def total(guarded):
        return float(guarded.values.sum()), is_shared(address_of(guarded.values))

    zray.util.register_serializer(Guarded, serializer=lambda guarded: guarded.values, deserializer=Guarded)
    try:
        guarded = Guarded(np.ones(100_000))
        assert zray.get([total.remote(guarded), total.remote(zray.put(guarded))]) == [(100_000, True)] * 2
        assert is_shared(address_of(zray.get(zray.put([guarded]))[0].values))
    finally:
        zray.util.deregister_serializer(Guarded)
    with pytest.raises(zray.exceptions.SerializationError, match=r"\.lock"):
        zray.put(guarded)


def test_tensor_outlives_its_ref():
    value = zray.get(zray.put({"a": torch.ones(100_000)}))["a"][50_000:]
    others = [zray.get(zray.put(torch.full((100_000,), float(number)))) for number in range(20)]
    assert value.sum() == 50_000 and [int(other[0]) for other in others] == list(range(20))
