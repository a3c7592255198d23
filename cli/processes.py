"""The processes of the sessions of this machine and user, with what they run: for `zray stack` and `zray profile`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click

# Ids have at least so many characters where they are taken for beginnings of ids.
ID_CHARACTERS_MIN = 4


@dataclass
class Run:
    """A task or call that runs."""

    task_id: str
    name: str
    seconds: float | None  # None: its beginning is not known


@dataclass
class Process:
    """A process of a session."""

    session: str
    node_id: str
    pid: int
    kind: str  # "worker", "node" or "fork server"
    actor_id: str = ""
    actor: str = ""  # its class, and its name if it has one
    hosted: dict[str, str] = field(default_factory=dict)  # the same of hosted actors, by id
    names: set[str] = field(default_factory=set)  # classes and names of its actors
    runs: list[Run] = field(default_factory=list)
    note: str = ""  # why nothing is known of what it runs

    @property
    def ids(self) -> list[str]:
        """The ids of what the process runs."""
        return [self.actor_id, *self.hosted, *(run.task_id for run in self.runs)]

    @property
    def is_idle(self) -> bool:
        """Whether the process is a worker without an actor and without a task."""
        return self.kind == "worker" and not self.actor and not self.hosted and not self.runs and not self.note


@dataclass
class Found:
    """The processes of all sessions, and what was seen besides."""

    processes: list[Process] = field(default_factory=list)
    elsewhere: dict[str, str] = field(default_factory=dict)  # node by task, actor, or name, on another machine
    waiting: dict[str, str] = field(default_factory=dict)  # state by task
    troubles: list[str] = field(default_factory=list)


def processes() -> Found:
    """Look at all sessions of this machine.

    Raises:
        click.ClickException: there is none.
    """
    from zray.host.client import control

    found = Found()
    sessions = control.sessions()
    if not sessions:
        raise click.ClickException("No session of this user runs on this machine.")
    for session, info in sessions:
        found.processes.append(Process(session.name, info.node_id, info.node_pid, "node"))
        _add_workers(found, session, info)
    here = {id for process in found.processes for id in process.ids}
    found.elsewhere = {id: node for id, node in found.elsewhere.items() if id not in here}
    return found


def _add_workers(found: Found, session: Any, info: Any) -> None:
    from zray.exceptions import ZrayError
    from zray.exceptions.printable import printable
    from zray.host.process.process_utils import children_of

    try:
        node_id, work = _asked(session, info)
    except (ZrayError, OSError) as error:
        note = "what it runs is not known, since its node did not say"
        found.troubles.append(f"session {session.name} does not say what runs: {printable(str(error))}")
        for pid in children_of(info.fork_server_pid):
            found.processes.append(Process(session.name, info.node_id, pid, "worker", note=note))
        return
    found.processes[-1].node_id = node_id
    _sort(found, session.name, node_id, work)


def _asked(session: Any, info: Any) -> tuple[str, Any]:
    """Return the id of a session's node, and its answer to ListWork.

    Raises:
        ZrayError, OSError: the node does not answer, or serves a program alone.
    """
    import zray
    from zray.api.sessions import require_runtime
    from zray.exceptions import ZrayError
    from zray.host.client.control import Control
    from zray.wire.listing import ListWork

    from .stacks import Unreadable, check_runs

    try:
        check_runs(info.node_pid)
    except Unreadable as error:
        raise ZrayError(f"its node {error}") from None
    with Control(session, info.node_pid):
        pass  # it answers: a program that joins would wait for longer
    with zray.init(address=session.address, log_to_driver=False, record="", _only_looks=True):
        return zray.get_runtime_context().get_node_id(), require_runtime().ask(ListWork)


def _sort(found: Found, session: str, node_id: str, work: Any) -> None:
    """Add the workers of a node with what they run."""
    from zray.exceptions.printable import printable

    by_pid: dict[int, Process] = {}
    for fact in work.workers:
        if fact.kind == "worker" and _node_of(fact) == node_id:
            by_pid[fact.pid] = Process(session, node_id, fact.pid, "worker", fact.actor_id.hex())
    for fact in work.actors:
        if fact.has_ended:
            continue
        actor_id = fact.actor_id.hex()
        if _node_of(fact) != node_id:
            found.elsewhere[actor_id] = _node_of(fact)
        elif (process := by_pid.get(fact.pid)) is not None:
            named = printable(fact.class_name) + (f" {printable(fact.name)!r}" if fact.name else "")
            if process.actor_id == actor_id:
                process.actor = named
            else:
                process.hosted[actor_id] = named
            process.names |= {fact.class_name, fact.name} - {""}
    for fact in work.tasks:
        task_id = fact.task_id.hex()
        if fact.state == "RUNNING" and _node_of(fact) == node_id and fact.pid in by_pid:
            seconds = fact.run_ms / 1e3 if fact.run_ms else None
            by_pid[fact.pid].runs.append(Run(task_id, printable(fact.name), seconds))
        elif fact.state == "RUNNING":
            found.elsewhere[task_id] = _node_of(fact)
        else:
            found.waiting[task_id] = fact.state
    found.processes += by_pid.values()


def _node_of(fact: Any) -> str:
    node: str = fact.node.partition("/")[0]
    return node


def chosen(found: Found, texts: Iterable[str]) -> Iterator[Process]:
    """Yield the processes that texts name, each once: pids, ids or their beginnings, names of functions or actors.

    Raises:
        click.ClickException: a text names nothing that runs here.
    """
    seen = set()
    for text in texts:
        named = [process for process in found.processes if text == str(process.pid)]
        named = named or [process for process in found.processes if _has_id(process, text)]
        named = named or [process for process in found.processes if _has_name(process, text)]
        if not named:
            raise click.ClickException(_why_none(found, text))
        for process in named:
            if process.pid not in seen:
                seen.add(process.pid)
                yield process


def _ids_begin(ids: Iterable[str], text: str) -> list[str]:
    """Return those of the ids that begin so; the id of an object names its task."""
    from zray.ids import OBJECT_ID_BYTES, TASK_ID_BYTES

    wanted = text.lower()
    if len(wanted) == 2 * OBJECT_ID_BYTES:
        wanted = wanted[: 2 * TASK_ID_BYTES]
    return [id for id in ids if len(wanted) >= ID_CHARACTERS_MIN and id.startswith(wanted)]


def _has_id(process: Process, text: str) -> bool:
    return bool(_ids_begin(process.ids, text))


def _has_name(process: Process, text: str) -> bool:
    return text in process.names or any(run.name == text for run in process.runs)


def _why_none(found: Found, text: str) -> str:
    if elsewhere := _ids_begin(found.elsewhere, text):
        node = found.elsewhere[elsewhere[0]]
        return f"{text!r} runs on node {node[:8]}, on another machine: run the command there."
    if waiting := _ids_begin(found.waiting, text):
        state = found.waiting[waiting[0]]
        return f"Task {waiting[0]} does not run: it is {state}.  `zray why {waiting[0]}` explains it."
    return (
        f"No process of this machine's sessions runs {text!r}: give a pid, the id or name of a running task, or of an "
        "actor.  `zray list tasks` shows tasks."
    )
