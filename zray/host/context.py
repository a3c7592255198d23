"""The runtime of this process, used by the public API.

zray's own processes import this module first, and before a node launches its fork server: no msgspec here (main.py).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..on_import.shadows import hidden_by_program

if TYPE_CHECKING:
    from ..exceptions import ActorDiedError, ObjectLostError
    from .client.runtime import Runtime

runtime: Runtime | None = None
is_own = False  # True in zray's own processes, a node or a fork server
packages: tuple[str, ...] = ()  # folders of the packages of this process's environment
had_session = False  # True after another session: refs and handles of that session may remain
is_forked = False  # True in a process forked from a member of a session


def set_runtime(new: Runtime | None) -> None:
    """Set the runtime when this process joins or leaves a session."""
    global runtime, is_forked, is_own, had_session
    had_session |= runtime is not None
    runtime, is_forked, is_own = new, False, False


def ref_of_ended_session(object_id: bytes) -> ObjectLostError:
    """Return the error for use of a ref from an ended session."""
    from ..exceptions import ObjectLostError

    return ObjectLostError(f"ObjectRef({object_id.hex()}) belongs to a session that has ended: its value is lost.")


def of_ended_session(ref: Any) -> Any:
    """Refuse the future of a ref after the session's end.

    Raises:
        ObjectLostError: always.
    """
    raise ref_of_ended_session(ref.id)


def actor_of_ended_session(class_name: str) -> ActorDiedError:
    """Return the error for use of an actor handle from an ended session."""
    from ..exceptions import ActorDiedError

    return ActorDiedError(
        f"This handle of actor {class_name} belongs to a session that has ended, and the actor ended with it.  Create "
        "another actor; get_actor() finds a detached actor of a session that goes on."
    )


def refuse_strangers(ids: Iterable[bytes]) -> None:
    """Refuse refs of other sessions in arguments or values.

    Raises:
        ObjectLostError: a ref, or a ref inside an actor handle, is of another session.
    """
    if had_session and runtime is not None:
        held = runtime.client.held
        for object_id in ids:
            if object_id not in held:
                raise ref_of_ended_session(object_id)


def refuse_without_session(using: Any) -> None:
    """Refuse to begin a session for a ref, a handle, or a call with such arguments, after this process left its
    session.

    Raises:
        ObjectLostError, ActorDiedError: `using` is or contains a ref or handle.
        and as refuse_at_the_end.
    """
    refuse_at_the_end()
    if had_session:
        from ..object_ref import ObjectRef

        for thing in using if isinstance(using, (list, tuple)) else (using,):
            if type(thing) is ObjectRef:
                raise ref_of_ended_session(thing.id)
            if type(thing).__name__ in ("ActorHandle", "ActorMethod"):
                raise actor_of_ended_session(thing._class_name)
        for object_id in _contained(using):
            raise ref_of_ended_session(object_id)


def _contained(value: Any) -> Iterable[bytes]:
    """Return the refs inside a value, including those of handles."""
    from ..store.values import serialize

    try:
        return serialize(value).contained
    except Exception:
        return ()  # the later call reports the fault


def refuse_at_the_end() -> None:
    """Refuse to begin a session when the program ends.

    Raises:
        SystemExit: in a daemon thread, which would otherwise report the end as an error.  Python ends these threads in
            silence a moment later; endless sleep is no choice, since the program may join them.
        RuntimeError: the interpreter is being taken apart.
    """
    if sys.is_finalizing():
        raise RuntimeError(
            "The interpreter is ending, and this program has left its session: zray cannot be used any more."
        )
    if not threading.main_thread().is_alive() and threading.current_thread().daemon:
        raise SystemExit


class StartLock:
    """A lock held while a session starts.  The holding thread and zray's own processes cannot start another one
    meanwhile.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder = 0  # a thread

    def __enter__(self) -> None:
        # A program named random.py hides the module of that name: an import of that module, perhaps by zray, runs the
        # program again.
        if is_own or self.holder == threading.get_ident():
            raise RuntimeError(
                "init() was called while init() starts a session: an import of zray has run this program a second "
                f"time: {hidden_by_program()} (the traceback shows the import).  Rename that file."
            )
        self.lock.acquire()
        self.holder = threading.get_ident()

    def __exit__(self, *error: object) -> None:
        self.holder = 0
        self.lock.release()
