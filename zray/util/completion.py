"""Ray's util.as_completed: values, where zray.as_completed yields refs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import api
from ..object_ref import ObjectRef
from ..options import check_flag

__all__ = ["as_completed"]


def as_completed(
    refs: Sequence[ObjectRef],
    *,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> Iterator[Any]:
    """The values as they become ready; yield_obj_refs: the refs.

    Ray waits for chunk_size at a time, for at most timeout seconds, and then for the next ones.  Here each comes as
    soon as it is ready: neither changes anything.  fetch_local: as of zray.wait.

    Raises:
        ValueError: chunk_size is less than 1, or a ref is there twice; as zray.wait.
        TypeError: one of the arguments; as zray.wait.
        the task's error, where its value would be.
    """
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size must be an int of at least 1, not {chunk_size!r}.")
    check_flag("yield_obj_refs", yield_obj_refs)
    rest = list(refs)
    while rest:
        ready, rest = api.wait(rest, timeout=timeout, fetch_local=fetch_local)
        timeout = None  # wait() has found it to be one; nothing else hangs on it
        for ref in ready:
            yield ref if yield_obj_refs else api.get(ref)
