"""zray.util.as_completed: values, where zray.as_completed yields refs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..api import objects
from ..object_ref import ObjectRef
from ..options.remote_options import check_flag

__all__ = ["as_completed"]


def as_completed(
    refs: Sequence[ObjectRef],
    *,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> Iterator[Any]:
    """Iterate over values in the order in which they become ready.

        for value in zray.util.as_completed([f.remote(item) for item in items]):
            print(value)

    Args:
        refs: refs, all different.
        chunk_size: accepted without effect; Ray waits for so many at a time.
        yield_obj_refs: yield the refs instead of the values.  Default: False.
        timeout: accepted without effect; Ray waits so long, in seconds, for a chunk.
        fetch_local: as for zray.wait.  Default: True.

    Raises:
        ValueError: chunk_size is less than 1, or a ref is there twice.
        TypeError: an argument has a wrong type.
        TaskError: a task raised; the error takes the place of its value.
    """
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size must be an int of at least 1, not {chunk_size!r}.")
    check_flag("yield_obj_refs", yield_obj_refs)
    rest = list(refs)
    while rest:
        ready, rest = objects.wait(rest, timeout=timeout, fetch_local=fetch_local)
        timeout = None  # wait() has found it to be one; nothing else hangs on it
        for ref in ready:
            yield ref if yield_obj_refs else objects.get(ref)
