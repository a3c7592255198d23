"""Groups of this process, by the actor or task that is a member, and their making."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from ...api.runtime_context import get_runtime_context
from ...api.sessions import is_initialized
from .exchange import Exchange
from .group import Group
from .meeting import Join, meet
from .mesh import Mesh

# Ray's default of gloo_timeout, in milliseconds.
TIMEOUT_MS = 30_000


class Declaration:
    """Group that `create_collective_group` has named for this member: made at its first call."""

    def __init__(self, world_size: int, rank: int, timeout_ms: int) -> None:
        self.world_size = world_size
        self.rank = rank
        self.timeout_ms = timeout_ms


_lock = threading.Lock()
# By the id of the actor or task, and the name of the group.
_groups: dict[tuple[str, str], Group] = {}
_declared: dict[tuple[str, str], Declaration] = {}


def member_id() -> str:
    """Return the id of the actor that runs here, or of the task.

    Raises:
        RuntimeError: the code runs in a program.
    """
    if is_initialized():
        context = get_runtime_context()
        own = context.get_actor_id() or context.get_task_id()
        if own is not None:
            return own
    raise RuntimeError("The collective APIs shall be only used inside a Ray actor or task.")


def is_member(name: str) -> bool:
    """Whether this actor or task has the group, and the group goes on."""
    group = _groups.get((member_id(), name))
    return group is not None and group.look()


def known(name: str) -> Group | None:
    """Return the group of this actor or task, if it has been made and was not over when last used."""
    group = _groups.get((member_id(), name))
    return group if group is not None and not group.is_over else None


def found(name: str) -> Group:
    """Return the group of this actor or task, and make it if it was declared.

    Raises:
        RuntimeError: there is no group of that name here.
    """
    key = (member_id(), name)
    declaration = _declared.get(key)
    group = _groups.get(key)
    if declaration is not None and (group is None or group.is_over):
        group = _make(key, declaration)
        _declared.pop(key, None)
    if group is None:
        raise RuntimeError(
            f"The collective group '{name}' is not initialized in the process.  Call init_collective_group in all "
            "members, or create_collective_group in the program."
        )
    return group


def init(name: str, world_size: int, rank: int, timeout_ms: int) -> None:
    """Make a group with all its other members, which call the same.

    Raises:
        RuntimeError: this actor or task has a group of that name.
        CollectiveGroupError: ranks are missing after the timeout.
    """
    key = (member_id(), name)
    if is_member(name):
        raise RuntimeError(f"Trying to initialize a group twice: {name!r} is a group of this member already.")
    _declared.pop(key, None)
    _make(key, Declaration(world_size, rank, timeout_ms))


def declare(name: str, world_size: int, rank: int, timeout_ms: int) -> None:
    """Note a group for this actor.

    Raises:
        RuntimeError: the actor has a group of that name.
    """
    key = (member_id(), name)
    if key in _declared or is_member(name):
        raise RuntimeError(f"Trying to initialize a group twice: {name!r} is a group of this actor already.")
    _declared[key] = Declaration(world_size, rank, timeout_ms)


def destroy(name: str) -> None:
    """Leave a group, if there is one of that name."""
    key = (member_id(), name)
    _declared.pop(key, None)
    group = _groups.pop(key, None)
    if group is not None:
        group.destroy_group()


def _make(key: tuple[str, str], declared: Declaration) -> Group:
    """Meet the other members, and return the group."""
    _, name = key
    rank, size = declared.rank, declared.world_size
    group = Group(name, rank, *_transport(name, size, rank, declared.timeout_ms / 1_000))
    with _lock:
        _groups[key] = group
    _leave_at_the_end(key, group)
    return group


def _transport(name: str, size: int, rank: int, timeout: float) -> Any:
    """Return texts on the members, and the way to them."""
    context = get_runtime_context()
    me = Join(rank, size, os.getpid(), describe(rank), context.get_node_id())
    if size == 1:
        return (me.name,), Exchange(Mesh(name, 0, (me.name,), {}, None))
    if not context.gcs_address:
        raise RuntimeError(f"Local mode has groups of one process, and group {name!r} wants {size}.")
    scope = f"{context.get_session_name()}/{me.node}/{context.get_job_id()}"
    if not context.gcs_address.startswith("ipc:"):
        from .remote import meet_in_cluster

        remote, scope = meet_in_cluster(name, scope, me, timeout)
        if remote is not None:
            return remote.names, remote
    mesh = meet(name, scope, me, timeout)
    return mesh.names, Exchange(mesh)


def describe(rank: int) -> str:
    """Return a text on this member, for errors of the others."""
    context = get_runtime_context()
    if (actor_id := context.get_actor_id()) is not None:
        kind = (context.get_task_function_name() or "").rpartition(".")[0]
        name = context.get_actor_name()
        what = f"actor {kind}{f' {name!r}' if name else ''} {actor_id}"
    else:
        what = f"task {context.get_task_name()} {context.get_task_id()}"
    return f"rank {rank} ({what}, process {os.getpid()})"


def _leave_at_the_end(key: tuple[str, str], group: Group) -> None:
    """Have the group left when its actor or task ends, whose process may go on."""
    context = get_runtime_context()
    weakref.finalize(context._own_actor() or context._call, _forget, key, group).atexit = False


def _forget(key: tuple[str, str], group: Group) -> None:
    if _groups.get(key) is group:
        del _groups[key]
    # In a thread: this may run anywhere, and a call in the background may be waiting.
    threading.Thread(target=group.destroy_group, name="zray-collective-end", daemon=True).start()
