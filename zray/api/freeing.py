"""`free`: values that a program gives back before their refs are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..exceptions import is_error_value
from ..object_ref import ObjectRef
from ..options.remote_options import check_flag
from ..wire.limits import portions
from ..wire.listing import ListWork, ObjectFact, WorkListed
from ..wire.objects import FreeValues, ValuesFreed
from .sessions import require_runtime

if TYPE_CHECKING:
    from ..roles.client import Client

__all__ = ["free"]


def free(object_refs: ObjectRef[Any] | Sequence[ObjectRef[Any]], local_only: bool = False) -> None:
    """Free the values of refs now, on all nodes, whoever still has refs on them.

        zray.util.free([table])

    A later `get` raises ObjectFreedError, and so does a task that takes one of the refs.  The result of a task that is
    still running is left alone.  The bytes of an array that a process uses go with that array.

    Args:
        object_refs: a ref, or a list of refs.
        local_only: free the copies on this node only.  Only False is possible.  Default: False.

    Raises:
        TypeError: an argument is neither a ref nor a list of refs.
        NotImplementedError: local_only is True.
    """
    check_flag("local_only", local_only)
    if local_only:
        raise NotImplementedError("zray does not free the copies of one node alone yet.  Leave local_only out.")
    refs = [object_refs] if isinstance(object_refs, ObjectRef) else object_refs
    if not isinstance(refs, (list, tuple)) or not all(type(ref) is ObjectRef for ref in refs):
        raise TypeError("free() takes an ObjectRef or a list of them.")
    if not refs:
        return
    runtime = require_runtime(list(refs))
    runtime.refuse_in_the_middle()
    client = runtime.client
    with runtime.lock:
        for portion in portions([ref.id for ref in refs]):
            client.say(FreeValues(portion))
            client.on_values_freed(ValuesFreed([object_id for object_id in portion if _is_here(client, object_id)]))
        runtime.send_buffered()


def lose(ref: ObjectRef[Any]) -> list[ObjectFact]:
    """Have the object stores of all nodes lose a value, for tests of programs.  Returns the copies that have stayed.

    The value is made again when it is needed, or is an ObjectLostError.
    """
    runtime = require_runtime([ref])
    runtime.refuse_in_the_middle()
    client = runtime.client

    def question(request: int) -> ListWork:
        # In the same frame: each node looks at its copy before the value can be made again.
        client.say(FreeValues([ref.id], are_lost=True))
        return ListWork(request, are_objects=True)

    found: WorkListed = runtime.ask(question)
    return [fact for fact in found.objects if fact.object_id == ref.id and fact.state in ("MEMORY", "DISK")]


def _is_here(client: Client, object_id: bytes) -> bool:
    value = client.values.get(object_id)
    return value is not None and not is_error_value(value)
