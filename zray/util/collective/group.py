"""Group: one member's end of a collective group, with checks of arguments, and errors that end the group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from .errors import CollectiveGroupError, CollectiveMismatchError, Header
from .handles import Background, Handle
from .tensors import Combiner, Flat, combiner_of, flat
from .types import Backend, ReduceOp


class Transport(Protocol):
    """The calls of a group, and its end."""

    def barrier(self, header: Header) -> None: ...

    def allreduce(self, header: Header, tensor: Flat, combine: Combiner) -> None: ...

    def reduce(self, header: Header, tensor: Flat, combine: Combiner, root: int) -> None: ...

    def reducescatter(self, header: Header, output: Flat, inputs: Sequence[Flat], combine: Combiner) -> None: ...

    def allgather(self, header: Header, outputs: Sequence[Flat], tensor: Flat) -> None: ...

    def broadcast(self, header: Header, tensor: Flat, root: int) -> None: ...

    def send(self, header: Header, tensor: Flat, receiver: int) -> None: ...

    def recv(self, header: Header, tensor: Flat, sender: int) -> None: ...

    def look(self) -> None:
        """Look for the end of other members between two calls.  Raises CollectiveGroupError: there is one."""

    def fail(self, text: str) -> None:
        """Tell the others why the group is over, and let everything go."""

    def leave(self) -> None:
        """Leave in order, and let everything go."""


class Group:
    """Member of a collective group, from `get_group_handle`.

    rank; world_size; group_name.
    """

    __module__ = "zray.util.collective"

    def __init__(self, group_name: str, rank: int, names: Sequence[str], transport: Transport) -> None:
        self.group_name = group_name
        self.rank = rank
        self.world_size = len(names)
        self._name = names[rank]
        self._transport = transport
        self._lock = threading.Lock()
        self._background: Background | None = None
        self._over = ""  # why

    @classmethod
    def backend(cls) -> str:
        """Name of the backend."""
        return Backend.GLOO

    @property
    def is_over(self) -> bool:
        """Whether the group takes no more calls, since a member has ended or left, as far as this one has noticed."""
        return bool(self._over)

    def look(self) -> bool:
        """Return whether the group goes on, after a look at the other members."""
        if not self._over and self._lock.acquire(blocking=False):  # a call that runs looks itself
            try:
                self._transport.look()
            except CollectiveGroupError as error:
                self._end(str(error))
            finally:
                self._lock.release()
        return not self._over

    # --- calls ---

    def barrier(self, async_op: bool = False) -> Handle | None:
        """Wait until all ranks have called."""
        header = Header("barrier", "", "", ())
        return self._do(lambda: self._transport.barrier(header), async_op)

    def allreduce(self, tensor: Any, op: ReduceOp = ReduceOp.SUM, async_op: bool = False) -> Handle | None:
        """Replace each element by the result of all ranks."""
        found = flat(tensor, is_written=True)
        combine = combiner_of(op, found.dtype)
        header = Header("allreduce", op.name, found.dtype, found.shape)

        def run() -> None:
            self._transport.allreduce(header, found, combine)
            found.write_back()

        return self._do(run, async_op)

    def reduce(
        self, tensor: Any, dst_rank: int = 0, op: ReduceOp = ReduceOp.SUM, async_op: bool = False
    ) -> Handle | None:
        """Replace each element by the result of all ranks, at one of them."""
        self.check_rank(dst_rank)
        is_taken = dst_rank == self.rank
        found = flat(tensor, is_written=is_taken)
        combine = combiner_of(op, found.dtype)
        header = Header("reduce", f"{op.name} to rank {dst_rank}", found.dtype, found.shape)

        def run() -> None:
            self._transport.reduce(header, found, combine, dst_rank)
            if is_taken:
                found.write_back()

        return self._do(run, async_op)

    def broadcast(self, tensor: Any, src_rank: int = 0, async_op: bool = False) -> Handle | None:
        """Copy the tensor of one rank to all others."""
        self.check_rank(src_rank)
        is_written = src_rank != self.rank
        found = flat(tensor, is_written=is_written)
        header = Header("broadcast", f"from rank {src_rank}", found.dtype, found.shape)

        def run() -> None:
            self._transport.broadcast(header, found, src_rank)
            if is_written:
                found.write_back()

        return self._do(run, async_op)

    def allgather(self, tensor_list: list[Any], tensor: Any, async_op: bool = False) -> Handle | None:
        """Copy the tensors of all ranks into the list."""
        found = flat(tensor, is_written=False)
        outputs = self._list_of("allgather", tensor_list, found, is_written=True)
        header = Header("allgather", "", found.dtype, found.shape)

        def run() -> None:
            self._transport.allgather(header, outputs, found)
            for output in outputs:
                output.write_back()

        return self._do(run, async_op)

    def reducescatter(
        self, tensor: Any, tensor_list: list[Any], op: ReduceOp = ReduceOp.SUM, async_op: bool = False
    ) -> Handle | None:
        """Write the result of all ranks for one tensor of the list."""
        found = flat(tensor, is_written=True)
        inputs = self._list_of("reducescatter", tensor_list, found, is_written=False)
        combine = combiner_of(op, found.dtype)
        header = Header("reducescatter", op.name, found.dtype, found.shape)

        def run() -> None:
            self._transport.reducescatter(header, found, inputs, combine)
            found.write_back()

        return self._do(run, async_op)

    def send(self, tensor: Any, dst_rank: int, async_op: bool = False) -> Handle | None:
        """Send a tensor to one rank, and wait until it is there."""
        self._check_peer(dst_rank, "destination")
        found = flat(tensor, is_written=False)
        header = Header("send", f"to rank {dst_rank}", found.dtype, found.shape)
        return self._do(lambda: self._transport.send(header, found, dst_rank), async_op)

    def recv(self, tensor: Any, src_rank: int, async_op: bool = False) -> Handle | None:
        """Wait for a tensor of one rank."""
        self._check_peer(src_rank, "source")
        found = flat(tensor, is_written=True)
        header = Header("recv", f"from rank {src_rank}", found.dtype, found.shape)

        def run() -> None:
            self._transport.recv(header, found, src_rank)
            found.write_back()

        return self._do(run, async_op)

    # --- arguments ---

    def check_rank(self, rank: int) -> None:
        """Refuse what is no rank of the group.

        Raises:
            ValueError: the rank is negative, or not less than the size of the group.
        """
        if rank < 0:
            raise ValueError(f"rank '{rank}' is negative.")
        if rank >= self.world_size:
            raise ValueError(f"rank '{rank}' must be less than world size '{self.world_size}'.")

    def _check_peer(self, rank: int, role: str) -> None:
        self.check_rank(rank)
        if rank == self.rank:
            raise RuntimeError(f"The {role} rank '{rank}' is self.")

    def _list_of(self, function: str, tensors: list[Any], like: Flat, *, is_written: bool) -> list[Flat]:
        """Return the tensors of a list as vectors.

        Raises:
            RuntimeError: their number is not that of the ranks, or they differ from the single tensor.
        """
        if len(tensors) != self.world_size:
            raise RuntimeError(
                f"The length of the tensor list operands to {function} must be equal to world_size, which is "
                f"{self.world_size}, not {len(tensors)}."
            )
        found = [flat(tensor, is_written=is_written) for tensor in tensors]
        for index, other in enumerate(found):
            if (other.dtype, other.shape) != (like.dtype, like.shape):
                raise RuntimeError(
                    f"All tensor operands to {function} must have the same dtype and shape: tensor {index} of the list "
                    f"is {other.dtype} {other.shape}, and the single tensor is {like.dtype} {like.shape}."
                )
        return found

    # --- order, and the end ---

    def _do(self, run: Callable[[], None], async_op: bool) -> Handle | None:
        """Run a call behind all others of this member; async_op: return its handle at once."""
        background = self._background
        if async_op:
            if background is None:
                background = self._background = Background(self.group_name)
            return background.add(lambda: self._run(run))
        if background is not None and not background.is_idle():
            background.add(lambda: self._run(run)).wait()
        else:
            self._run(run)
        return None

    def _run(self, run: Callable[[], None]) -> None:
        """Run a call.

        Raises:
            CollectiveGroupError: a member has ended or left, now or before.
            any error of the call.
        """
        with self._lock:
            if self._over:
                raise CollectiveGroupError(self._over)
            try:
                run()
            except CollectiveMismatchError as error:
                if error.is_over:
                    self._end(str(error))
                raise
            except CollectiveGroupError as error:
                self._end(str(error))
                raise
            except BaseException as error:
                self._end(f"Group {self.group_name!r} is over: a call of {self._name} failed: {error!r}.")
                raise

    def _end(self, text: str) -> None:
        self._over = text
        self._transport.fail(text)

    def destroy_group(self) -> None:
        """Leave the group, after the calls that run."""
        if self._background is not None:
            self._background.end()

        with self._lock:
            if not self._over:
                self._over = f"This member has left group {self.group_name!r}."
                with suppress(OSError):
                    self._transport.leave()
