"""The runtime of this process: what the public API talks to.

The first that zray's own processes import, and before a node launches its fork server: no msgspec here (main.py).
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
is_own = False  # this is a process of zray's own, a node or a fork server
packages: tuple[str, ...] = ()  # folders of the packages of this process's environment
had_session = False  # this process was in another session: it may have refs and handles of that
is_forked = False  # this process was forked from one that was in a session, which it is not in itself


def set_runtime(new: Runtime | None) -> None:
    """This process has joined a session, or left it."""
    global runtime, is_forked, is_own, had_session
    had_session |= runtime is not None
    runtime, is_forked, is_own = new, False, False


def ref_of_ended_session(object_id: bytes) -> ObjectLostError:
    """For whoever uses it."""
    from ..exceptions import ObjectLostError

    return ObjectLostError(f"ObjectRef({object_id.hex()}) belongs to a session that has ended: its value is lost.")


def of_ended_session(ref: Any) -> Any:
    """The future of a ref, once the session is over.

    Raises:
        ObjectLostError: always.
    """
    raise ref_of_ended_session(ref.id)


def actor_of_ended_session(class_name: str) -> ActorDiedError:
    """For whoever uses a handle on it."""
    from ..exceptions import ActorDiedError

    return ActorDiedError(
        f"This handle of actor {class_name} belongs to a session that has ended, and the actor ended with it.  Create "
        "another actor; get_actor() finds a detached actor of a session that goes on."
    )


def refuse_strangers(ids: Iterable[bytes]) -> None:
    """What a call takes, or a value contains, must be of this session.

    Raises:
        ObjectLostError: a ref, or what an actor handle has of one, is of another one.
    """
    if had_session and runtime is not None:
        held = runtime.client.held
        for object_id in ids:
            if object_id not in held:
                raise ref_of_ended_session(object_id)


def refuse_without_session(using: Any) -> None:
    """This process has left its session: none is begun for a ref or a handle, or for a call that takes one.

    Raises:
        ObjectLostError, ActorDiedError: `using` is one, or has one in it.
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
    """The refs inside a value; also those of handles."""
    from ..store.values import serialize

    try:
        return serialize(value).contained
    except Exception:
        return ()  # the call that it is for says what is wrong with it


def refuse_at_the_end() -> None:
    """The program ends, and has left its session: no other is begun.

    Raises:
        SystemExit: in a daemon thread, which would otherwise tell of the end as if it were an error.  Python ends
            these threads without a word, a moment later; not for ever asleep, since whoever ends may join them.
        RuntimeError: the interpreter is being taken apart.
    """
    if sys.is_finalizing():
        raise RuntimeError(
            "The interpreter is ending, and this program has left its session: zray cannot be used any more."
        )
    if not threading.main_thread().is_alive() and threading.current_thread().daemon:
        raise SystemExit


class StartLock:
    """Held while a session starts.  Who holds it does not start another one meanwhile, nor do zray's own processes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder = 0  # a thread

    def __enter__(self) -> None:
        # A program that is called random.py hides the module of that name: whoever imports that begins the program
        # again, zray among them.
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
