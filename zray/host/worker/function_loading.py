"""The functions and classes of a worker, unpickled when the first task needs them.

A function travels as pickled code, named by the hash of its bytes.  Code that is too large for a message lies in the
object store, and the pickled code is a ref to it.  A loaded function stays in `Worker.functions`, but for one whose
closure has refs: the cache would keep their objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...exceptions import DeserializationError
from ...ids import function_id as id_of_code
from ...store.functions import CodeInStore, deserialize_function
from .async_tasks import runnable

if TYPE_CHECKING:
    from .main import Worker


def function_of(worker: Worker, function_id: bytes) -> Callable[..., Any]:
    """Return the function, unpickled once; or each time if its closure has refs, since a cache would keep them."""
    if worker.has_new_code:
        worker.code_changes.take()
    restored = worker.restored_count
    code = worker.executor.functions[function_id].code
    if id_of_code(code) != function_id:
        raise DeserializationError(
            f"The code of a function ({len(code)} bytes) does not match its hash, so it is not loaded."
        )
    function = deserialize_function(code)
    if type(function) is CodeInStore:
        found = worker.get((function.ref,), None)[0]
        restored = worker.restored_count  # that ref is not part of the closure
        function = deserialize_function(found)
    function = runnable(function)
    with worker.lock:
        if worker.restored_count == restored and not worker.has_new_code:
            worker.functions[function_id] = function
    return function  # type: ignore[no-any-return]
