"""Questions of `zray top` to a session: nodes, tasks, actors, processes and objects, once a second at most.

The program joins the session as others do.  Each answer is bounded: the nodes send so many rows, and no more.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zray.wire.listing import ROWS_MAX, ActorFact, ObjectFact, TaskFact, WorkerFact

from .history import History

# Rows that a node is asked for, and more of them where so many tasks have not ended.
ROWS = 1_000
# A question for the metrics of nodes has room for one page of each of them, and for no pages of processes.
PAGE_BYTES = 4_096
ANSWER_SECONDS = 5.0
SESSIONS_SECONDS = 10.0
# The records of other machines come as a whole: rarely, and the less often the longer they take.
RECORDS_SECONDS, RECORDS_PACE = 5.0, 50.0


@dataclass
class Node:
    """A node of the session, as one answer has it.  Bytes are 0 where the node did not say."""

    id: str
    host: str = ""
    is_here: bool = False  # whether the node is on this machine
    state: str = "ok"  # "draining", "lost"
    reason: str = ""  # for which it was lost
    total: dict[str, float] = field(default_factory=dict)
    free: dict[str, float] = field(default_factory=dict)
    waiting: int = 0  # tasks that wait there for a worker or a resource
    counts: dict[str, float] = field(default_factory=dict)  # metrics by their names, of MEMORY and further ones


@dataclass
class Sample:
    """State of a session at one moment."""

    at: float  # seconds since 1970
    session: str
    nodes: list[Node]
    tasks: list[TaskFact]
    actors: list[ActorFact]
    workers: list[WorkerFact]
    objects: list[ObjectFact] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)  # nodes that have not answered
    is_cut: bool = False  # whether there may be further tasks that have not ended
    cost: float = 0.0  # seconds that the look took

    def programs(self) -> list[WorkerFact]:
        """The programs of the session, without this one."""
        return [each for each in self.workers if each.kind == "driver" and each.pid != os.getpid()]


def node_of(fact: Any) -> str:
    """The id of the node that a fact is about."""
    node: str = fact.node.partition("/")[0]
    return node


class Asker:
    """Looks at a session, and joins it again when it is back.

    Args:
        address: as of zray.init().
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.session = ""  # "": not joined
        self.rows = ROWS
        self.here: dict[str, str] = {}  # sessions of this machine by their nodes
        self.here_at = self.records_at = -1e9
        self.records_pace = RECORDS_SECONDS
        self.history = History()

    def join(self) -> None:
        """Join the session.

        Raises:
            ZrayError, OSError, ValueError: there is none, or it cannot be joined.
        """
        import zray

        facts = zray.init(address=self.address, log_to_driver=False, record="", _only_looks=True)
        if facts["session_name"] != self.session:
            self.history = History()
        self.session = facts["session_name"]
        self.here_at = self.records_at = -1e9

    def leave(self) -> None:
        """Leave the session, also one that has ended."""
        import zray

        zray.shutdown()

    def ask(self, question: Any) -> Any:
        """Ask the node of this program."""
        from zray.api.sessions import require_runtime

        return require_runtime().ask(question, ANSWER_SECONDS)

    def explain(self, task_id: str) -> list[str]:
        """Why a task waits."""
        from zray.ids import FIRST_RETURN
        from zray.wire.reasons import Explain

        object_id = bytes.fromhex(task_id) + FIRST_RETURN
        lines: list[str] = self.ask(lambda request: Explain(request, [object_id])).lines
        return lines

    def look(self, *, objects: bool = False, records: bool = True) -> Sample:
        """Return what the session has.

        Args:
            objects: whether objects are asked for too.
            records: whether new event records are read into `history`.

        Raises:
            ZrayError, OSError: the session is lost.
        """
        from zray.wire.hosts import GetNodes
        from zray.wire.listing import ListWork

        began = time.perf_counter()
        now = time.time()
        self._find_sessions(began)
        work = self.ask(lambda request: ListWork(request, self.rows))
        is_cut = len(work.tasks) >= self.rows and not work.tasks[-1].has_ended
        nodes = self._nodes(self.ask(lambda request: GetNodes(request, True)).nodes)
        values = self.ask(lambda request: ListWork(request, ROWS, True)).objects if objects else []
        if records:
            self._read_records(nodes, began)
            self.history.forget_processes({(node_of(each), each.pid) for each in work.workers}, now)
        self.rows = ROWS_MAX if is_cut or (self.rows > ROWS and _unfinished(work.tasks) >= ROWS) else ROWS
        return Sample(
            now,
            self.session,
            nodes,
            work.tasks,
            work.actors,
            work.workers,
            values,
            [name.partition("/")[0] for name in work.silent],
            is_cut,
            time.perf_counter() - began,
        )

    def _find_sessions(self, now: float) -> None:
        """Find out which nodes are on this machine."""
        from zray.api.sessions import require_runtime
        from zray.host.client import control

        if now - self.here_at > SESSIONS_SECONDS:
            self.here_at = now
            self.here = {info.node_id: session.name for session, info in control.sessions() if info.node_id}
            runtime = require_runtime()
            self.here[runtime.node_id.hex()] = runtime.session

    def _nodes(self, facts: Sequence[Any]) -> list[Node]:
        from zray.wire.events import ListEvents
        from zray.wire.task_spec import RESOURCE_UNIT

        living = sum(not fact.death for fact in facts)
        pages = self.ask(lambda request: ListEvents(request, PAGE_BYTES * max(living, 1), True))
        counts = counts_of(pages.rings)
        own = socket.gethostname()
        return [
            Node(
                node_of(fact),
                fact.hostname,
                fact.hostname == own and node_of(fact) in self.here,
                "lost" if fact.death else "draining" if fact.is_draining else "ok",
                fact.death,
                {name: amount / RESOURCE_UNIT for name, amount in fact.total.items()},
                {name: amount / RESOURCE_UNIT for name, amount in fact.free.items()},
                fact.queue_count,
                counts.get(node_of(fact), {}),
            )
            for fact in facts
            if fact.kind != "driver"
        ]

    def _read_records(self, nodes: Sequence[Node], now: float) -> None:
        """Read the new event records: those of this machine in shared memory, of others by a question."""
        from zray.wire.events import ListEvents

        living = {node.id for node in nodes if node.state != "lost"}
        for node in living & self.here.keys():
            self.history.read_here(node, self.here[node])
        others = living - self.here.keys()
        if others and now - self.records_at > self.records_pace:
            self.records_at = now
            for fact in self.ask(ListEvents).rings:
                if node_of(fact) in others:
                    self.history.read_bytes(node_of(fact), fact.data)
            self.records_pace = max(RECORDS_SECONDS, RECORDS_PACE * (time.perf_counter() - now))
        self.history.forget_old(time.time())


def counts_of(pages: Sequence[Any]) -> dict[str, dict[str, float]]:
    """The gauges that nodes have of themselves, by node; those of several places have the place behind the name."""
    from contextlib import suppress

    import msgspec

    from zray.store.metric_page import Facts, series_of

    nodes: dict[str, dict[str, float]] = {}
    for page in pages:
        for text, numbers in series_of(page.data):
            with suppress(msgspec.MsgspecError):
                facts = msgspec.json.decode(text, type=Facts)
                tags = dict(facts.tags)
                if facts.name.startswith("zray_") and "node" in tags:
                    place = f"_{tags['location']}" if "location" in tags else ""
                    nodes.setdefault(tags["node"], {})[facts.name.removeprefix("zray_") + place] = numbers[0]
    return nodes


def _unfinished(tasks: Sequence[TaskFact]) -> int:
    return sum(not task.has_ended for task in tasks)
