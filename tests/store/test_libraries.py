"""Values of torch, Arrow and lazy modules, to bytes and back."""

import sys
import types

import numpy as np
import pyarrow as pa
import pytest
import torch

from zray.exceptions import SerializationError
from zray.store.functions import deserialize_function, serialize_function
from zray.store.values import deserialize, deserialize_writable, serialize, to_bytes


def round_trip(value):
    return deserialize(to_bytes(serialize(value)))


TENSORS = {
    "float": lambda: torch.arange(10.0),
    "bfloat16": lambda: torch.arange(100_000).to(torch.bfloat16),
    "half": lambda: torch.arange(100).half(),
    "float8": lambda: torch.arange(10.0).to(torch.float8_e4m3fn),
    "uint16": lambda: torch.arange(100_000).to(torch.uint16),
    "bool": lambda: torch.tensor([True, False]),
    "complex": lambda: torch.tensor([1 + 2j, 3j]),
    "conjugated": lambda: torch.tensor([1 + 2j, 3j]).conj(),
    "empty": lambda: torch.empty(0, 3),
    "scalar": lambda: torch.tensor(3.5),
    "transposed": lambda: torch.arange(200_000.0).reshape(1000, 200).t(),
    "strided": lambda: torch.arange(200_000.0)[::3],
    "expanded": lambda: torch.ones(3, 1).expand(3, 4),
    "middle": lambda: torch.arange(200_000.0)[100_001:100_010],
    "channels last": lambda: torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "leaf": lambda: torch.ones(3, requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "compressed": lambda: torch.eye(3).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
    "dtype": lambda: torch.float32,
    "size": lambda: torch.Size([3, 4]),
}


def bytes_of(tensor):
    return bytes(tensor.detach().resolve_conj().contiguous().flatten().view(torch.uint8).tolist())


@pytest.mark.filterwarnings("ignore")  # torch's, of layouts in beta
@pytest.mark.parametrize("name", TENSORS)
def test_tensor_comes_back(name):
    value = TENSORS[name]()
    back = round_trip(value)
    assert type(back) is type(value)
    if not isinstance(value, torch.Tensor):
        assert back == value
        return
    assert back.dtype == value.dtype and back.shape == value.shape and back.layout == value.layout
    assert back.requires_grad == value.requires_grad and back.is_leaf
    if value.layout == torch.strided and not value.is_quantized:
        assert back.stride() == value.stride() and back.is_conj() == value.is_conj()
        assert bytes_of(back) == bytes_of(value)
    else:
        assert back.to_dense().equal(value.to_dense()) if not value.is_quantized else back.equal(value)


def test_meta_tensor_comes_back():
    back = round_trip(torch.empty(3, 4, device="meta"))
    assert back.device.type == "meta" and back.shape == (3, 4)


@pytest.mark.parametrize("size", [10, 100_000])
def test_tensors_of_one_storage_share_one_again(size):
    whole = torch.arange(float(size))
    back, tail, matrix, again = deserialize_writable(
        to_bytes(serialize([whole, whole[5:], whole.reshape(2, -1), {"deep": whole}]))
    )
    back[7] = -1
    assert tail[2] == -1 and matrix.flatten()[7] == -1 and again["deep"][7] == -1


def test_tied_weights_stay_tied():
    model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Linear(300, 300))
    model[1].weight = model[0].weight
    serialized = serialize(model)
    assert serialized.size < 1.5 * 300 * 300 * 4
    back = deserialize(to_bytes(serialized))
    assert back[0].weight is back[1].weight
    assert all(a.equal(b) for a, b in zip(back.parameters(), model.parameters(), strict=True))


def test_small_part_of_a_large_storage_travels_alone():
    batch = torch.arange(1_000_000).reshape(1000, 1000)
    serialized = serialize({"x": batch[3:5], "y": batch[4], "whole": torch.zeros(30_000)})
    assert serialized.size < 20_000 + 130_000
    back = deserialize_writable(to_bytes(serialized))
    assert back["x"].equal(batch[3:5]) and back["y"].equal(batch[4])
    back["x"][1] = 7
    assert (back["y"] == 7).all()


def test_small_part_in_a_value_that_only_cloudpickle_takes():
    batch = torch.arange(1_000_000)
    serialized = serialize([batch[999_000:], lambda: batch[:5]])
    assert serialized.size > 8_000_000  # the function takes all of it
    serialized = serialize([batch[999_000:], lambda: None])
    assert serialized.size < 20_000
    assert deserialize(to_bytes(serialized))[0].equal(batch[999_000:])


def test_function_takes_its_tensors_along():
    weights = torch.arange(100_000.0)
    code, _ = serialize_function(lambda: weights.sum())
    assert deserialize_function(code)() == weights.sum()


def test_hooks_and_attributes_of_a_tensor_stay():
    tensor = torch.ones(3)
    tensor.label = "mine"
    assert round_trip([tensor])[0].label == "mine"


def test_tensor_of_a_missing_device_is_explained():
    from zray.store.tensors import restore_storage

    with pytest.raises(RuntimeError, match=r"tensor\.cpu\(\)"):
        restore_storage(bytes(8), "cuda:99")


class Nested:
    """Pickles another value while it is pickled."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return bytes_to_nested, (to_bytes(serialize([self.tensor, self.tensor[:2]])),)


def bytes_to_nested(data):
    return Nested(deserialize(data)[0])


def test_value_that_is_pickled_in_the_middle_of_another():
    batch = torch.arange(100_000)
    value = [batch[:5], Nested(batch), batch[5:10]]
    first, nested, last = round_trip(value)
    assert first.equal(batch[:5]) and nested.tensor.equal(batch) and last.equal(batch[5:10])


def test_pickler_is_sound_after_a_failure_and_after_a_large_value():
    small = [torch.arange(3)]
    for value in ([small, (part for part in ())], ["x" * 100_000, small]):
        try:
            serialize(value)
        except SerializationError:
            pass
        again = serialize(small)
        assert round_trip(small)[0].equal(small[0]) and to_bytes(again) == to_bytes(serialize(small))


COLUMN = pa.array([f"text {number}" for number in range(50_000)])
TABLE = pa.table({"a": COLUMN, "b": range(50_000), "c": COLUMN.dictionary_encode(), "d": [[1, 2]] * 50_000})
SLICES = {
    "table": TABLE.slice(100, 7),
    "no rows": TABLE.slice(100, 0),
    "batch": TABLE.to_batches()[0].slice(20, 3),
    "array": COLUMN.slice(9, 4),
    "column": TABLE["a"].slice(40_000, 2),
    "dictionaries": TABLE["c"].slice(40_000, 2),
    "struct": pa.StructArray.from_arrays([COLUMN, COLUMN], ["x", "y"]).slice(7, 2),
}


@pytest.mark.parametrize("name", SLICES)
def test_slice_of_arrow_data_travels_without_the_rest(name):
    value = SLICES[name]
    serialized = serialize([value])
    assert serialized.size < (2_000_000 if name in ("dictionaries", "table", "no rows", "batch") else 10_000)
    (back,) = deserialize(to_bytes(serialized))
    assert type(back) is type(value) and back.equals(value)


def test_whole_arrow_data_is_not_copied():
    serialized = serialize(TABLE)
    addresses = {np.frombuffer(buffer, np.uint8).ctypes.data for buffer in serialized.buffers}
    assert TABLE["b"].chunk(0).buffers()[1].address in addresses
    assert deserialize(to_bytes(serialized)).equals(TABLE)


class LazyModule(types.ModuleType):
    """As transformers has it: its own __reduce__ makes another module."""

    def __reduce__(self):
        return type(self), (self.__name__,)


class Holder:
    def __init__(self, held):
        self.held = held


def uses_module():
    return lazy.__name__


lazy = LazyModule("a_lazy_module")


def test_lazy_module_travels_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "a_lazy_module", lazy)
    assert round_trip([lazy])[0] is lazy
    assert round_trip(Holder(lazy)).held is lazy
    assert deserialize_function(serialize_function(lambda: lazy)[0])() is lazy


def test_lazy_module_of_no_name_is_left_to_its_own_pickle():
    back = round_trip([LazyModule("nowhere_to_be_found")])[0]
    assert type(back) is LazyModule and back.__name__ == "nowhere_to_be_found"


def test_libraries_are_not_imported_for_other_values():
    import subprocess

    from tests.scripts import environment

    program = (
        "import sys; from zray.store.values import serialize; "
        "import numpy; serialize([numpy.zeros(3), {}, sys.intern]); "
        "print({'torch', 'pyarrow', 'pandas', 'jax'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert result.stdout == "set()\n", result.stderr


@pytest.mark.parametrize("name", ["sparse", "compressed"])
def test_sparse_tensor_is_freed_with_its_last_reference(name):
    """torch keeps rebuilt sparse tensors in a list that only torch.load empties."""
    value = TENSORS[name]()
    found = deserialize(to_bytes(serialize(value)))
    assert (found.to_dense() == value.to_dense()).all()
    assert not torch._utils._sparse_tensors_to_validate
