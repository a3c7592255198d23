"""Calls of an actor with `max_pending_calls`: refused where too many calls of this process are unfinished."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from ..exceptions import PendingCallsLimitExceeded
from ..object_ref import ObjectRef
from . import objects, sessions
from .actor_handle import MAX_PENDING, ActorHandle, ActorMethod
from .introspection import shows_signature


class PendingCalls:
    """Unfinished calls of one actor's handle in this process, oldest first.

    Each is known by the ref of its first return.  The refs keep the results of the last calls until the next call.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.refs: deque[ObjectRef[Any]] = deque()
        self.lock = threading.RLock()

    def make_room(self, name: str) -> None:
        """Forget calls that have finished.

        Raises:
            PendingCallsLimitExceeded: as many as may be are unfinished.
        """
        refs, values = self.refs, sessions.require_runtime().client.values
        while refs and refs[0].id in values:
            refs.popleft()
        if len(refs) < self.most:
            return
        _, rest = objects.wait(list(refs), num_returns=len(refs), timeout=0)
        self.refs = deque(rest)
        if len(rest) >= self.most:
            raise PendingCallsLimitExceeded(
                f"{name} is not called: {len(rest)} calls of this process are unfinished, and max_pending_calls is "
                f"{self.most}.  Wait for some with zray.wait(refs)."
            )


class LimitedMethod(ActorMethod):
    """Method of an actor with `max_pending_calls`."""

    __slots__ = ("_pending",)

    def __init__(self, handle: ActorHandle[Any], name: str, options: dict[str, Any]) -> None:
        super().__init__(handle, name, options)
        self._pending = pending_calls_of(handle, options[MAX_PENDING])

    def options(self, /, **options: Any) -> ActorMethod:
        """As ActorMethod.options."""
        other = super().options(**options)
        other._pending = self._pending  # type: ignore[attr-defined]
        return other

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """As ActorMethod.remote.

        Raises:
            PendingCallsLimitExceeded: too many calls of this process are unfinished; the call is not sent.
        """
        pending = self._pending
        with pending.lock:
            pending.make_room(f"{self._class_name}.{self._name}")
            found = super().remote(*args, **kwargs)
            first = found[0] if isinstance(found, list) else found
            if first is not None:
                pending.refs.append(first)
        return found


shows_signature(LimitedMethod.remote)


def pending_calls_of(handle: ActorHandle[Any], most: int) -> PendingCalls:
    """The calls that all methods of the handle count together."""
    found: PendingCalls | None = handle.__dict__.get("_pending")
    if found is None:
        found = handle.__dict__["_pending"] = PendingCalls(most)
    return found
