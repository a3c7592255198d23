"""Tensors of callers as flat vectors, and the operations on such vectors.

A contiguous array is changed in place.  A strided one is copied, in the order of C, and written back at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy

from .types import ReduceOp

BFLOAT16 = "bfloat16"  # numpy has no such dtype: its bits travel as int16, and torch calculates
_UFUNCS = {
    ReduceOp.SUM: numpy.add,
    ReduceOp.PRODUCT: numpy.multiply,
    ReduceOp.MIN: numpy.minimum,
    ReduceOp.MAX: numpy.maximum,
}
# Writes `first op second` to `out`.
Combiner = Callable[[Any, Any, Any], None]


class Flat:
    """A tensor as a vector.  vector: its elements; dtype: its name in headers; shape."""

    __slots__ = ("_array", "dtype", "shape", "vector")

    def __init__(self, array: Any, dtype: str) -> None:
        self.dtype = dtype
        self.shape = array.shape
        is_contiguous = array.flags.c_contiguous
        self.vector = (array if is_contiguous else numpy.ascontiguousarray(array)).reshape(-1)
        self._array = None if is_contiguous else array

    def write_back(self) -> None:
        """Copy the vector into the tensor, where the vector is a copy."""
        if self._array is not None:
            self._array[...] = self.vector.reshape(self.shape)

    @property
    def octets(self) -> Any:
        """The vector as bytes, for calls that do not calculate."""
        return self.vector.view(numpy.uint8) if self.vector.size else numpy.empty(0, numpy.uint8)


def check_tensor(tensor: Any) -> None:
    """Refuse what is no tensor.

    Raises:
        RuntimeError: the value is neither an array of numpy nor a tensor of torch.
    """
    if not isinstance(tensor, numpy.ndarray) and not _is_torch(tensor):
        raise RuntimeError(
            f"Unrecognized tensor type '{type(tensor)}'.  Supported types are: np.ndarray, torch.Tensor (of a CPU)."
        )


def check_tensor_list(tensors: Any) -> None:
    """Refuse what is no list of tensors.

    Raises:
        RuntimeError: the value is no list, is empty, or contains something else.
    """
    if not isinstance(tensors, list):
        raise RuntimeError(f"The input must be a list of tensors.  Got '{type(tensors)}'.")
    if not tensors:
        raise RuntimeError("Got an empty list of tensors.")
    for tensor in tensors:
        check_tensor(tensor)


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")  # a program with a tensor has imported it
    return torch is not None and isinstance(value, torch.Tensor)


def flat(tensor: Any, *, is_written: bool) -> Flat:
    """Return a tensor as a vector.

    Args:
        tensor: an array or a tensor.
        is_written: the call changes the tensor.

    Raises:
        RuntimeError: the value is no dense tensor of a CPU, or a read-only one would be changed.
        TypeError: the elements are Python objects.
    """
    check_tensor(tensor)
    array, dtype = (tensor, str(tensor.dtype)) if isinstance(tensor, numpy.ndarray) else _from_torch(tensor)
    if array.dtype.hasobject or array.dtype.kind == "T":
        raise TypeError(f"Arrays of {dtype} hold Python objects, which collective calls do not send.")
    if is_written and not array.flags.writeable:
        raise RuntimeError("The array is read-only, and this call changes it in place: pass array.copy().")
    return Flat(array, dtype)


def _from_torch(tensor: Any) -> tuple[Any, str]:
    """Return the memory of a tensor as an array, with the name of its dtype.

    Raises:
        RuntimeError: the tensor has no memory of a CPU.
        TypeError: neither numpy nor this module knows the dtype.
    """
    import torch

    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise RuntimeError(
            f"The tensor lies on {tensor.device} with layout {tensor.layout}, and collective groups take dense tensors "
            "of CPUs.  Pass tensor.cpu(), or tensor.to_dense()."
        )
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy(), BFLOAT16
    array = plain.numpy()
    return array, str(array.dtype)


@lru_cache(maxsize=256)
def combiner_of(op: ReduceOp, dtype: str) -> Combiner:
    """Return the function that calculates with two vectors of a dtype.

    Raises:
        TypeError: the operation is none, or numpy does not have it for the dtype.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op must be a ReduceOp, as ReduceOp.SUM, not {op!r}.")
    if dtype == BFLOAT16:
        return _combiner_of_torch(op)
    ufunc = _UFUNCS[op]
    try:
        nothing: Any = numpy.empty(0, numpy.dtype(dtype))
        ufunc(nothing, nothing, out=nothing)
        if nothing.dtype.kind in "USV":
            raise TypeError("its elements are no numbers")
    except TypeError as error:
        raise TypeError(f"numpy has no {op.name} of {dtype} elements: {error}.") from None

    def combine(first: Any, second: Any, out: Any) -> None:
        with numpy.errstate(all="ignore"):  # an overflow is the result, as of the same sum in torch
            ufunc(first, second, out=out)

    return combine


def _combiner_of_torch(op: ReduceOp) -> Combiner:
    import torch

    functions: dict[ReduceOp, Any] = {
        ReduceOp.SUM: torch.add,
        ReduceOp.PRODUCT: torch.mul,
        ReduceOp.MIN: torch.minimum,
        ReduceOp.MAX: torch.maximum,
    }
    function = functions[op]

    def view(vector: Any) -> Any:
        array = vector if vector.flags.writeable else vector.copy()  # torch warns of the former
        return torch.from_numpy(array).view(torch.bfloat16)

    def combine(first: Any, second: Any, out: Any) -> None:
        function(view(first), view(second), out=view(out))

    return combine
