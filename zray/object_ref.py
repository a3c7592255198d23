"""ObjectRef: a name for a value that exists, or will.

A dropped ref appends its id to `released` and does nothing else: the runtime drains the deque at a quiet moment.  The
runtime gives this module its hooks; without hooks a ref is only a name.

    resolve_future   a ref's value as a concurrent.futures.Future
    on_restore       a ref was unpickled or copied in this process: count the ref
    on_handed        a ref was pickled in this process: others may ask for the value
    released         ids of refs that died, oldest first

Fork: the refs inherited by a forked child are counted in the parent, so the child says nothing of inherited refs; a
child that is to count its own refs calls `enable_releases()`.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from msgspec import Struct

from .exceptions import OufOfBandObjectRefSerializationException, SerializationError
from .ids import OBJECT_ID_BYTES, REFS_MAX, TASK_ID_BYTES

if TYPE_CHECKING:
    from asyncio import Future as AsyncFuture
    from concurrent.futures import Future

T_co = TypeVar("T_co", covariant=True)

# No task has such an id, nor any of its values.
NIL_ID = b"\xff" * OBJECT_ID_BYTES

released: deque[bytes] = deque()


def _say_nothing(object_id: bytes) -> None:
    """Ignore a dying ref where nobody counts: after a fork, and while the interpreter shuts down."""


_append: Callable[[bytes], None] = released.append
resolve_future: Callable[[ObjectRef], Future[Any]] | None = None
on_restore: Callable[[bytes], None] = _say_nothing
on_handed: Callable[[bytes], None] = _say_nothing


def enable_releases() -> None:
    """Record refs that die in the process in `released` from now on (a worker calls this once forked)."""
    global _append
    released.clear()
    _append = released.append


def disable_releases() -> None:
    """Stop recording refs that die."""
    global _append
    _append = _say_nothing


if TYPE_CHECKING:

    class Argument(Awaitable[T_co], Any, Generic[T_co]):
        """Type for type checkers: a ref may stand for its value, as an argument of `.remote()`.

        Python's types cannot say "each parameter, or a ref on it" of a ParamSpec.  Where the value of a ref is needed
        and get() was forgotten, an index is reported at least.
        """

        def __getitem__(self, key: NoReturn) -> NoReturn: ...

else:

    class Argument:
        __slots__ = ()
        __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)


# `weakref=True` rules out `gc=False` in msgspec; a struct that holds only bytes is not tracked anyway.
class ObjectRef(Struct, Argument[T_co], frozen=True, weakref=True):
    """Reference to a value that exists or will exist: hashable, comparable, awaitable.

        value = zray.get(ref)
        value = await ref

    `ObjectRef[int]` in annotations names the type of the value.  A value is dropped with the last ref.
    """

    id: bytes

    def __del__(self) -> None:
        try:
            _append(self.id)
        except (TypeError, NameError):
            pass  # The module's globals are already gone: the interpreter is shutting down.

    def hex(self) -> str:
        """The id in hexadecimal."""
        return self.id.hex()

    def binary(self) -> bytes:
        """The id as 20 bytes."""
        return self.id

    def task_id(self) -> bytes:
        """Return the id of the task that returns or has put the value."""
        return self.id[:TASK_ID_BYTES]

    def __repr__(self) -> str:
        return f"ObjectRef({self.id.hex()})"

    def _repr_html_(self) -> str:
        """Return the ref for a notebook.  Nobody is asked for the value."""
        return f"<code>{self!r}</code>"

    @classmethod
    def nil(cls) -> ObjectRef[Any]:
        """Return a ref on nothing, as a placeholder: no value will ever exist."""
        return cls(NIL_ID)

    def is_nil(self) -> bool:
        """Return whether the ref is on nothing."""
        return self.id == NIL_ID

    def as_future(self) -> AsyncFuture[T_co]:
        """Return the value as a future of asyncio, in the event loop of this thread."""
        import asyncio

        future = self.future()
        future.cancels_task = False  # type: ignore[attr-defined]  # asyncio would: wait_for() cancels what it awaits
        return asyncio.wrap_future(future)

    def future(self) -> Future[T_co]:
        """Return a concurrent.futures.Future of the value, or of the task's error.

        `cancel()` of the future ends the task if neither a worker nor another node has the task yet, and else returns
        False.

        Raises:
            RuntimeError: this process is in no session.
        """
        refuse_nil((self.id,))
        if resolve_future is None:
            raise RuntimeError("This ObjectRef has no runtime to ask: call zray.init() first.")
        return resolve_future(self)

    def __await__(self) -> Generator[Any, None, T_co]:
        return self.as_future().__await__()

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError("An ObjectRef is not iterable: zray.get(ref) gives its value; num_returns=n gives n refs.")

    def __copy__(self) -> ObjectRef[T_co]:
        return _restore(self.id)

    def __deepcopy__(self, memo: dict[int, Any]) -> ObjectRef[T_co]:
        return _restore(self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.id == NIL_ID:
            return ObjectRef, (NIL_ID,)
        collected: dict[bytes, None] | None = getattr(_collecting, "ids", None)
        if collected is None:
            global refusals
            refusals += 1
            raise OufOfBandObjectRefSerializationException(
                f"{self!r} cannot be pickled here: only values that zray itself carries (arguments, results, "
                "zray.put) may contain refs, since zray must count them. Pass the ref to a task, or get() it."
            )
        collected[self.id] = None
        on_handed(self.id)
        return _restore, (self.id,)


class DynamicObjectRefGenerator:
    """Refs on the items of a generator with `num_returns="dynamic"`: iterates once, and may be passed on."""

    __module__ = "zray"

    def __init__(self, refs: Iterable[ObjectRef[Any]]) -> None:
        self._refs = deque(refs)

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        while self._refs:
            yield self._refs.popleft()

    def __len__(self) -> int:
        return len(self._refs)

    def __reduce__(self) -> Any:
        return DynamicObjectRefGenerator, (list(self._refs),)

    def __repr__(self) -> str:
        return f"DynamicObjectRefGenerator({len(self)} refs)"


# Ray's older name.
ObjectID = ObjectRef

_collecting = threading.local()
# How often a ref refused to be pickled: a serializer that tried without collecting looks whether user code
# has swallowed a refusal.
refusals = 0


def refuse_nil(ids: Collection[bytes]) -> None:
    """Raises: ValueError: some id is the id of ObjectRef.nil()."""
    if NIL_ID in ids:
        raise ValueError("ObjectRef.nil() refers to no object, so it has no value.")


def _restore(object_id: bytes) -> ObjectRef:
    """Return a further ref on an object, counted as one: called by unpickling and copying."""
    if object_id != NIL_ID:
        on_restore(object_id)
    return ObjectRef(object_id)


def check_refs(ids: Collection[bytes]) -> None:
    """Raises: SerializationError: messages cannot name so many refs of one value, or of one task's arguments."""
    if len(ids) > REFS_MAX:
        raise SerializationError(
            f"There are {len(ids):,} refs in one value, or among the arguments of one task; at most {REFS_MAX:,} can "
            "be sent together.  Put lists of some of them, and pass the refs of these."
        )


class collect_refs:
    """Context in which refs may be pickled: `with collect_refs() as ids:`.  ids: of the pickled refs, in first-seen
    order.

    Nested collections are each complete only in themselves: the outer collection does not see the ids of the inner.

    Raises:
        SerializationError: at the end: more refs than messages can name.
    """

    __slots__ = ("ids", "outer")

    def __enter__(self) -> dict[bytes, None]:
        self.outer = getattr(_collecting, "ids", None)
        self.ids: dict[bytes, None] = {}
        _collecting.ids = self.ids
        return self.ids

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        _collecting.ids = self.outer
        if kind is None:
            check_refs(self.ids)


def _after_fork_in_child() -> None:
    disable_releases()
    released.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(disable_releases)
