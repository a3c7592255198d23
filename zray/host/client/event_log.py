"""Event log of this process: runs of tasks, waits and spans, in the process's ring (store/event_ring.py).

ZRAY_EVENTS=0 switches the recording off.  A process whose ring cannot be made goes on without it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ...ids import PARENT_HASH_BYTES, SALT_BYTES, TASK_ID_BYTES, counter_of
from ...store.event_ring import (
    GROUPED,
    NAME_BYTES_MAX,
    PLACED,
    REQUEST_MARK,
    STREAMS,
    WHOLE,
    EventRing,
    Kind,
    Outcome,
    place_of,
)
from ...wire.task_spec import DEFAULT_OPTIONS, parse_options

if TYPE_CHECKING:
    from ...wire.task_spec import ActorOptions, TaskSpec
    from ...wire.where import Where

VARIABLE = "ZRAY_EVENTS"
# Numbers of names of functions and methods, by their ids and options; emptied if each call has new ones.
NAMES_MAX = 4_096
# Lanes of threads beside the main thread; calls of event loops have the last one.
LANES_MAX = 254
ASYNC_LANE = 255
# Ids of one parent, with numbers that follow each other, begin alike.
_ALIKE_BYTES = PARENT_HASH_BYTES + SALT_BYTES
# What ends a call that has not begun, code that runs, and a coroutine.
CANCELLATIONS = ("TaskCancelledError", "TaskInterrupt", "CancelledError")
# What the user gets for errors that end code.
_ERRORS = {"TimeLimitInterrupt": "TaskTimeoutError", "TaskInterrupt": "TaskCancelledError"}
_NAME_BITS = 0xFFFF  # in the constant part of a record


class EventLog:
    """The events of a process.

    Args:
        session: name of the session.
        label: of the process.
        name_of: returns the name of a task, for the user.
    """

    def __init__(self, session: str, label: str, name_of: Callable[[TaskSpec], str] | None = None) -> None:
        self.ring = EventRing(session, label)
        self.name_of = name_of
        self.add: Callable[..., None] = self.ring.add
        self.facts: dict[bytes, int] = {}  # constant parts of records, by function and options
        self.ran_well = self._recorder()
        self.main_thread = threading.get_ident()
        self.lanes: dict[int, int] = {}

    def close(self) -> None:
        """Record nothing more, and let go of the ring at once, not when garbage is collected."""
        self.ran_well, self.ran, self.add, self.name_of = _nothing, _nothing, _nothing, None  # type: ignore[method-assign]
        self.ring.close()

    def lane(self) -> int:
        """Return the lane of this thread; 0: the main thread."""
        thread = threading.get_ident()
        if thread == self.main_thread:
            return 0
        if len(self.lanes) >= LANES_MAX:
            self.lanes.clear()
        return self.lanes.setdefault(thread, len(self.lanes) + 1)

    def _recorder(self) -> Callable[[TaskSpec, float, float, float, float], None]:
        """Return the function that records runs without an error in the main thread.

        The function is a closure with few arguments, since each task waits for it.
        """
        ring, facts_of, pack_into = self.ring, self.facts, WHOLE.pack_into
        # The mapping itself is written to sooner than a view of it.
        memory, records, new_facts = ring.memory.obj, ring.records, self._facts_of

        def ran_well(spec: TaskSpec, begin: float, read: float, end: float, stored: float) -> None:
            """Record a run: when it began, had its arguments, had run, and had stored its results.

            Without arguments, `begin` and `read` are the same object.
            """
            key, options = spec.function_id, spec.options
            if options:
                key = key + options if key else options
            facts = facts_of.get(key) or new_facts(key, spec)
            serial, place = next(records)
            if serial < ring.limit or (place := ring.reserved(serial, place)):
                pack_into(memory, place, spec.task_id, begin, read, end, stored, facts, serial)
            if read is not begin:
                ring.add_dependencies(spec.deps)

        return ran_well

    def ran(
        self,
        kind: int,
        spec: TaskSpec,
        begin: float,
        read: float,
        end: float,
        stored: float,
        error: BaseException | None = None,
        lane: int = 0,
        actor: ActorOptions | None = None,
    ) -> None:
        """Record a run: when it began, had its arguments (0.0: never), had run, and had stored its results.

        actor: the options of an actor, with its constructor.
        """
        key = spec.function_id + spec.options
        if actor is None:
            name = (self.facts.get(key) or self._facts_of(key, spec)) & _NAME_BITS
        else:
            called = self.name_of(spec) if self.name_of is not None else ""
            name = self.ring.number_of(_with_request(called, actor.resources, _marks(actor.where)))
        failed, outcome = 0, Outcome.FINISHED
        if error is not None:
            kind_of_error = type(error).__name__
            failed, outcome = self.ring.number_of(_ERRORS.get(kind_of_error, kind_of_error)), _outcome_of(error)
        self.add(kind, spec.task_id, begin, read or end, end, stored, name, failed, outcome, lane=lane)
        if spec.deps:
            self.ring.add_dependencies(spec.deps)

    def _facts_of(self, key: bytes, spec: TaskSpec) -> int:
        """Return the constant part of the records of a function or method, as WHOLE has it."""
        kind = Kind.TASK if spec.function_id else Kind.CALL
        name = self.name_of(spec) if self.name_of is not None else ""
        options = parse_options(spec.options)
        marks = _marks(options.where, streams=options.is_generator)
        if kind == Kind.TASK and (marks or options.resources != DEFAULT_OPTIONS.resources):
            name = _with_request(name, options.resources, marks)
        elif marks:
            name = _with_request(name, None, marks)
        if len(self.facts) >= NAMES_MAX:
            self.facts.clear()
        facts = self.facts[key] = self.ring.number_of(name) | kind << 32
        return facts

    def span(self, kind: int, task_id: bytes, begin: float, name: str) -> None:
        """Record a span of a task or of the program, from `begin` until now."""
        end = perf_counter()
        self.add(kind, task_id, begin, begin, end, end, self.ring.number_of(name), lane=self.lane())

    def waits(self, since: float) -> None:
        """Say since when this thread waits, if it is the main thread: the record of the wait follows at its end."""
        if threading.get_ident() == self.main_thread:
            self.ring.waits(since)

    def waited(self, kind: int, task_id: bytes, begin: float, name: str, object_ids: list[bytes], wanted: int) -> None:
        """Record a wait of a task or of the program, from `begin` until now, and what it was for."""
        self.waits(0.0)
        self.span(kind, task_id, begin, name)
        if object_ids:
            self.ring.add_needs(object_ids, wanted)

    def wrote(self, object_id: bytes, size: int) -> None:
        """Record the size of a value that is in the store now."""
        now = perf_counter()
        self.add(Kind.SIZE, object_id[:TASK_ID_BYTES], now, float(size), float(place_of(object_id)), now, 0)

    def submitted(self, specs: Sequence[TaskSpec]) -> None:
        """Record the submission of tasks, which leave for the node now."""
        now = perf_counter()
        first = last = specs[0].task_id
        if specs[-1].task_id[:_ALIKE_BYTES] == first[:_ALIKE_BYTES]:
            self._submitted(first, specs[-1].task_id, now)
            return
        for spec in specs:  # of several tasks
            if spec.task_id[:_ALIKE_BYTES] != first[:_ALIKE_BYTES]:
                self._submitted(first, last, now)
                first = spec.task_id
            last = spec.task_id
        self._submitted(first, last, now)

    def _submitted(self, first: bytes, last: bytes, now: float) -> None:
        count = counter_of(last) - counter_of(first) + 1
        if count > 0:
            self.add(Kind.SUBMIT, first, now, float(count), now, now, 0)


def _marks(where: Where | None, *, streams: bool = False) -> list[str]:
    """Return the marks of runs with such options."""
    placed = [] if where is None else [GROUPED if where.group else PLACED]
    return [STREAMS, *placed] if streams else placed


def _with_request(name: str, request: Mapping[str, int] | None, marks: list[str]) -> str:
    """The name of a function with the resources that its runs request, and marks, in the length of a name."""
    amounts = [f"{key}:{amount}" for key, amount in sorted(request.items())] or ["CPU:0"] if request is not None else []
    words = REQUEST_MARK + ",".join([*amounts, *marks])
    room = NAME_BYTES_MAX - len(words.encode())
    return name.encode()[:room].decode("utf-8", "ignore") + words if room > 0 else name


def _nothing(*arguments: Any, **options: Any) -> None:
    """Record nothing: the session has ended."""


def _outcome_of(error: BaseException) -> Outcome:
    return Outcome.CANCELLED if type(error).__name__ in CANCELLATIONS else Outcome.FAILED


def event_log(session: str, label: str, name_of: Callable[[TaskSpec], str] | None = None) -> EventLog | None:
    """Return the event log of this process; None: it is off, or cannot be made."""
    if os.environ.get(VARIABLE, "") == "0":
        return None
    try:
        return EventLog(session, label, name_of)
    except OSError:
        return None
