"""torch tensors: their storages are sent out of band, and read in shared memory.

torch itself pickles the rest of a tensor: sizes, strides, requires_grad, the class.  Only the storage is handled here,
since torch would write its content into the pickle.  Tensors of a common storage still share one after arrival.  If
tensors use less than half of a storage, as the rows of a batch do, only that part is sent.

A storage is read in pages without permission to write: torch cannot report this, and write_faults.py explains the end
of a process that writes.  Data of another device is copied through the memory of the host.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pickle import PickleBuffer
from typing import Any

from msgspec import Struct

from .libraries import unprotected

# A smaller storage is sent as a whole.
PART_MIN_BYTES = 64 * 1024

# torch's own, once imported.
_TypedStorage: Any = None
_rebuild_tensor: Any = None
_rebuild_sparse: Any = None
_rebuild_new_dtype: Any = None  # for a dtype without a class of storages, as float8


def learn() -> dict[type, Callable[[Any], Any]]:
    """The reducers of storages."""
    global _TypedStorage, _rebuild_tensor, _rebuild_sparse, _rebuild_new_dtype
    torch = sys.modules["torch"]
    _TypedStorage, _rebuild_tensor = torch.storage.TypedStorage, torch._utils._rebuild_tensor_v2
    _rebuild_sparse = getattr(torch._utils, "_rebuild_sparse_tensor", None)
    _rebuild_new_dtype = getattr(torch._utils, "_rebuild_tensor_v3", None)
    return {torch.storage.TypedStorage: _typed_storage_parts, torch.UntypedStorage: _storage_parts}


def _typed_storage_parts(storage: Any) -> Any:
    return restore_typed_storage, (storage._untyped_storage, storage.dtype)


def _storage_parts(storage: Any) -> Any:
    size, device = storage.nbytes(), storage.device
    if not size or device.type == "meta":
        return restore_empty_storage, (size, device.type)
    if device.type == "cpu":
        return restore_storage, (PickleBuffer(_bytes_of(storage)),)
    return restore_storage, (PickleBuffer(_bytes_of(storage.cpu())), str(device))


def _bytes_of(storage: Any) -> Any:
    """Return the bytes of a storage of the host, as a numpy array that keeps them alive."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage).numpy()


def restore_typed_storage(storage: Any, dtype: Any) -> Any:
    """The reverse of `_typed_storage_parts`."""
    import torch

    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def restore_new_dtype(storage: Any, *arguments: Any) -> Any:
    """Return a tensor of a dtype without a class of storages: torch pickles an untyped one, and takes a typed
    one here.
    """
    import torch

    return torch._utils._rebuild_tensor_v3(restore_typed_storage(storage, torch.uint8), *arguments)


def restore_sparse(layout: Any, parts: Any) -> Any:
    """Return a sparse tensor.  torch lists rebuilt tensors until `torch.load` has checked them."""
    import torch

    tensor = torch._utils._rebuild_sparse_tensor(layout, parts)
    torch._utils._validate_loaded_sparse_tensors()
    return tensor


def restore_empty_storage(size: int, device: str) -> Any:
    """A storage without contents."""
    import torch

    return torch.UntypedStorage(size, device=device)


def restore_storage(data: Any, device: str = "") -> Any:
    """Return a storage in the memory of `data`; or a copy on a device.

    Raises:
        RuntimeError: there is no such device here.
    """
    import numpy
    import torch

    own = torch.from_numpy(unprotected(numpy.frombuffer(data, numpy.uint8)))
    if device:
        try:
            own = own.to(device)
        except (RuntimeError, AssertionError) as error:
            raise RuntimeError(
                f"A tensor of device {device!r} cannot be put there in this process ({error}).  Send tensor.cpu(), or "
                "give the task or actor that reads it a GPU (num_gpus=1)."
            ) from error
    return own.untyped_storage()


class Parts(Struct, eq=False):
    """What the tensors of one value use of their storages.

    `reduce` replaces the pickling of tensors.  A first pickle finds the used parts; if `are_few` is true then, a second
    pickle includes only these parts.
    """

    used: dict[int, tuple[Any, int, int]] = {}
    cut: dict[int, tuple[Any, int]] = {}  # the part of it that travels, and where it begins

    def reduce(self, tensor: Any) -> Any:
        """Return the parts of a plain tensor, as __reduce_ex__."""
        reduced = tensor.__reduce_ex__(5)
        if reduced[0] is _rebuild_new_dtype:
            return restore_new_dtype, reduced[1]
        if reduced[0] is _rebuild_sparse:
            return restore_sparse, reduced[1]
        if reduced[0] is not _rebuild_tensor:
            return reduced
        arguments = reduced[1]
        typed, offset, size, stride = arguments[:4]
        storage = typed._untyped_storage
        if storage.nbytes() < PART_MIN_BYTES:
            return reduced
        address, item = storage.data_ptr(), tensor.element_size()
        if self.cut:
            if address in self.cut:
                part, begin = self.cut[address]
                typed = _TypedStorage(wrap_storage=part, dtype=typed.dtype, _internal=True)
                return _rebuild_tensor, (typed, offset - begin // item, *arguments[2:])
            return reduced
        low = offset * item
        high = low if 0 in size else low + item * (1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)))
        if address in self.used:
            _, before, behind = self.used[address]
            low, high = min(low, before), max(high, behind)
        self.used[address] = storage, low, high
        return reduced

    def are_few(self) -> bool:
        """Return whether less than half of a storage is used: the next pickle includes only the used parts."""
        import torch

        for address, (storage, low, high) in self.used.items():
            if 2 * (high - low) < storage.nbytes() and storage.device.type == "cpu":
                low -= low % 64  # all elements stay aligned
                # Each of its tensors would get a copy otherwise: this is a common storage.
                part = torch.from_numpy(_bytes_of(storage)[low:high]).untyped_storage()
                self.cut[address] = part, low
        return bool(self.cut)
