"""Public functions on actors: find one by its name, and end one.  Names and meanings are Ray's."""

from __future__ import annotations

from typing import Any

from ..options.remote_options import check_flag, check_text
from ..wire.actors import KillActor
from .actor_handle import ActorHandle, ActorProxy, find_actor, why_not_found
from .sessions import require_runtime


def kill(actor: ActorHandle[Any] | ActorProxy[Any], *, no_restart: bool = True) -> None:
    """End an actor at once.  Calls that wait raise ActorDiedError.

    Args:
        actor: the actor's handle.
        no_restart: False allows a restart, as max_restarts says.  Default: True.

    Raises:
        ValueError: the argument is no actor handle.
        TypeError: no_restart is not a bool.
    """
    if not isinstance(actor, ActorHandle):
        raise ValueError(f"kill() takes an actor handle, not {type(actor).__name__}; for a task's ref see cancel().")
    check_flag("no_restart", no_restart)
    runtime = require_runtime(actor)
    actor._refuse_if_over(runtime)
    runtime.say(KillActor(actor._actor_id, no_restart, actor._found_at))
    runtime.flush()


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """Find a living actor by its name.

        Counter.options(name="hits", lifetime="detached").remote()
        counter = zray.get_actor("hits")

    The handle does not keep the actor: one that is not detached ends with the handles of the program or task that made
    it, and with those that were passed on.

    Args:
        name: the name that the actor was given in its options.
        namespace: the namespace of the name; default: this program's.

    Raises:
        ValueError: no living actor has the name, or the name is empty.
        TypeError: the namespace is not a str.
    """
    if not isinstance(name, str) or not name:
        raise ValueError("get_actor() needs a name that is not empty.")
    check_text("name", name)
    if namespace is not None:
        check_text("namespace", namespace)
    runtime = require_runtime()
    found = find_actor(runtime, name, namespace, is_weak=True)
    if found is None:
        raise ValueError(why_not_found(runtime, name, namespace or runtime.namespace))
    return found
