"""Recording of a whole run: a thread of the driver appends new event records to a file, before rings replace them.

The rings of this machine are read where they lie, in shared memory.  The local scheduler is asked for those of other
nodes, and for copies of processes that ended between two looks (wire/events.py).  A record is known by its process
and its serial number, and is written once.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
import threading
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ..exceptions import ClusterLostError, GetTimeoutError
from ..host.client.event_log import VARIABLE as EVENTS_VARIABLE
from ..store.event_ring import (
    COUNT_MAX,
    HEADER,
    KIND_AT,
    MAGIC,
    NAMES_AT,
    RECORD,
    RECORDS_AT,
    SERIAL_AT,
    reserved_bytes,
)
from ..store.metric_page import Facts, series_of
from ..store.segment import SHARED_MEMORY_FOLDER, event_rings_of, read_start
from ..version import __version__
from ..wire.events import EventsListed, ListEvents
from ..wire.hosts import GetNodes
from ..wire.task_spec import RESOURCE_UNIT
from .record_file import FrameWriter

if TYPE_CHECKING:
    from ..host.client.runtime import Runtime

__all__: list[str] = []  # for sessions

VARIABLE = "ZRAY_RECORD"
# Seconds between two looks at the rings of this machine: fewer while one of them fills, so that it never is full.
LOOK_SECONDS = (0.05, 0.2)
FULL = 0.4  # of a ring, at the next look
# Seconds between two questions for the rings of other nodes, and of a session of one node.
ASK_SECONDS = (0.5, 5.0)
ASK_ALONE_SECONDS = 10.0
MEMORY_SECONDS = 2.0
NODES_SECONDS = 10.0
ANSWER_SECONDS = 6.0
LAST_ANSWER_SECONDS = 3.0
# Serial numbers behind a gap that are looked at again: the record of another thread may be on its way.
LATE_MAX = 64
MEMORY = {
    "zray_object_store_memory_bytes": "store",
    "zray_node_mem_used_bytes": "used",
    "zray_node_mem_total_bytes": "total",
    "zray_object_store_capacity_bytes": "capacity",
}
MARKS = np.dtype(
    {"names": ["kind", "serial"], "formats": ["u1", "<u8"], "offsets": [KIND_AT, SERIAL_AT], "itemsize": RECORD.size}
)

_decode = msgspec.json.Decoder(Facts).decode

_written: set[str] = set()  # by this process, as ZRAY_RECORD names them


class Progress:
    """The records of a ring that are written, and those names."""

    def __init__(self, number: int) -> None:
        self.number = number  # of the ring, in the file
        self.next = 0  # the serial number up to which all are written
        self.beyond: set[int] = set()  # serial numbers above that are written too
        self.names_end = NAMES_AT

    def take(self, data: bytes) -> tuple[bytes, bytes, int]:
        """Return the new names, the new records in order, and how many."""
        rows = np.frombuffer(data, np.uint8, offset=RECORDS_AT).reshape(-1, RECORD.size)
        marks = rows.reshape(-1).view(MARKS)
        serials = marks["serial"]
        chosen = np.flatnonzero((marks["kind"] > 0) & (serials >= self.next))
        if self.beyond:
            chosen = chosen[~np.isin(serials[chosen], [*self.beyond])]
        chosen = chosen[np.argsort(serials[chosen])]
        self._note(serials[chosen])
        names, end = data[self.names_end : RECORDS_AT], 0
        while end + 2 <= len(names) and (length := int.from_bytes(names[end : end + 2], "little")):
            end += 2 + length
        self.names_end += end
        return names[:end], rows[chosen].tobytes(), len(chosen)

    def _note(self, new: Any) -> None:
        """Note what is written.  The record of another thread may come later, in a gap near the end."""
        if not len(new):
            return
        self.beyond.update(new[-LATE_MAX:].tolist())
        self.next = max(self.next, int(new[-1]) + 1 - LATE_MAX)
        self.beyond = {serial for serial in self.beyond if serial >= self.next}
        while self.next in self.beyond:
            self.beyond.remove(self.next)
            self.next += 1


class Recorder:
    """Writes the record of a session to a file, from begin() to finish().

    Args:
        path: the file.
        source: what has named it, for errors.

    Raises:
        OSError: the file cannot be written.
        ValueError: event records are switched off.
    """

    def __init__(self, path: str, source: str) -> None:
        if os.environ.get(EVENTS_VARIABLE, "") == "0":
            raise ValueError(f"{source}={path!r} needs event records, and {EVENTS_VARIABLE}=0 switches them off.")
        self.path = path
        self.file = FrameWriter(path, source, __version__)
        self.runtime: Any = None
        self.rings: dict[tuple[str, int, float], Progress] = {}
        self.by_name: dict[str, tuple[int, float]] = {}  # pid and clock of the rings of this machine
        self.left_out = 0  # rings of other nodes that did not fit into an answer
        self.other_nodes = False
        self.fastest = 0.0  # records a second, of the ring that fills the fastest
        self.failure = ""
        self.is_over = threading.Event()
        self.lock = threading.Lock()  # of the file and the rings
        self.thread = threading.Thread(target=self._run, name="zray-record", daemon=True)

    def begin(self, runtime: Runtime) -> None:
        """Record a session from now on."""
        self.runtime = runtime
        self._write("header", _header(runtime))
        self.thread.start()

    def cancel(self) -> None:
        """Let go of the file: there is no session."""
        self.file.close()

    def _run(self) -> None:
        now = time.monotonic()
        looked = asked = sampled = listed = now - NODES_SECONDS
        wait = 0.0
        while not self.is_over.wait(wait) and not self.failure:
            now = time.monotonic()
            self.fastest = 0.0
            self._look(now - looked)
            looked = now
            with suppress(ClusterLostError, GetTimeoutError):
                if now - listed >= NODES_SECONDS:
                    listed = now
                    self._list_nodes()
                if now - sampled >= MEMORY_SECONDS:
                    sampled = now
                    self._sample_memory()
                if now - asked >= (self._pace(ASK_SECONDS) if self.other_nodes else ASK_ALONE_SECONDS):
                    self._ask(now - asked)
                    asked = now
            wait = self._pace(LOOK_SECONDS)

    def _pace(self, bounds: tuple[float, float]) -> float:
        """Seconds after which the fastest ring is as full as it may be."""
        return min(max(FULL * COUNT_MAX / max(self.fastest, 1.0), bounds[0]), bounds[1])

    def _look(self, passed: float) -> None:
        """Write what is new in the rings of this machine."""
        node = self.runtime.node_id.hex()
        names = event_rings_of(self.runtime.session)
        self.by_name = {name: self.by_name[name] for name in names if name in self.by_name}
        rings = []
        for name in names:
            data = None if self._is_quiet(name, node) else read_start(name, RECORDS_AT, reserved_bytes)
            if data is not None:
                rings.append((node, data))
                self.by_name[name] = HEADER.unpack_from(data)[1:3]
        self._take(rings, passed)

    def _is_quiet(self, name: str, node: str) -> bool:
        """Whether a ring has nothing new: the place of its next record has an older one."""
        known = self.by_name.get(name)
        progress = known and self.rings.get((node, *known))
        if not progress or progress.beyond:
            return False
        place = RECORDS_AT + progress.next % COUNT_MAX * RECORD.size
        try:
            with open(SHARED_MEMORY_FOLDER + name, "rb", buffering=0) as file:
                head = os.pread(file.fileno(), HEADER.size, 0)
                record = os.pread(file.fileno(), RECORD.size, place)
        except OSError:
            return True  # it has ended
        _, pid, offset, count, _ = HEADER.unpack(head)
        is_same = (pid, offset) == known and progress.next % COUNT_MAX < count
        serial = int.from_bytes(record[SERIAL_AT:], "little")
        return is_same and (not record[KIND_AT] or serial < progress.next)

    def _ask(self, passed: float, seconds: float = ANSWER_SECONDS) -> None:
        """Write what is new in the rings of all nodes, and of processes that have ended."""
        found: EventsListed = self.runtime.ask(ListEvents, seconds)
        if self.other_nodes:
            self.left_out = max(self.left_out, found.left_out + len(found.silent))
        self._take(((fact.node.partition("/")[0], fact.data) for fact in found.rings), passed)

    def _take(self, rings: Any, passed: float) -> None:
        rows = []
        for node, data in rings:
            if len(data) < RECORDS_AT or data[:8] != MAGIC:
                continue
            _, pid, offset, _, length = HEADER.unpack_from(data)
            with self.lock:
                key = (node, pid, offset)
                progress = self.rings.get(key)
                label = ""
                if progress is None:
                    progress = self.rings[key] = Progress(len(self.rings))
                    label = data[HEADER.size : HEADER.size + length].decode("utf-8", "replace")
                names, records, count = progress.take(data)
            if count or names or label:
                rows.append([progress.number, node, pid, offset, label, names, records])
            self.fastest = max(self.fastest, count / max(passed, 1e-3))
        if rows:
            self._write("rings", rows)

    def _list_nodes(self) -> None:
        nodes = self.runtime.ask(lambda request: GetNodes(request, True), ANSWER_SECONDS).nodes
        rows = [
            {
                "node": node.node.partition("/")[0],
                "host": node.hostname,
                "is_alive": not node.death,
                "resources": {name: amount / RESOURCE_UNIT for name, amount in node.total.items()},
            }
            for node in nodes
            if node.kind != "driver"
        ]
        self.other_nodes = any(node.node.partition("/")[0] != self.runtime.node_id.hex() for node in nodes)
        self._write("nodes", [time.time(), rows])

    def _sample_memory(self) -> None:
        found = self.runtime.ask(lambda request: ListEvents(request, are_metrics=True), ANSWER_SECONDS)
        self._write("memory", [time.time(), memory_of(found)])

    def _write(self, kind: str, content: Any) -> None:
        """Append a frame.  An error ends the recording, not the program."""
        with self.lock:
            if self.failure:
                return
            try:
                self.file.write(kind, content)
            except OSError as error:
                self.failure = error.strerror or str(error)
                text = f"zray: the record {self.path} ends here: {self.failure}.  What is written can be read."
                print(text, file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Write what is new, and how the program ended; let go of the file."""
        self.is_over.set()
        self.thread.join(ANSWER_SECONDS + 1.0)
        try:
            self._look(1.0)
            with suppress(ClusterLostError, GetTimeoutError):
                self._sample_memory()
                self._ask(1.0, LAST_ANSWER_SECONDS)
            self._write("end", {"time": time.time(), "error": _error_name(), "processes_left_out": self.left_out})
        finally:
            self.file.close()


def memory_of(found: EventsListed) -> dict[str, dict[str, float]]:
    """Bytes of each node by what they hold, in the metrics of nodes."""
    nodes: dict[str, dict[str, float]] = {}
    for fact in found.rings:
        for text, numbers in series_of(fact.data):
            with suppress(msgspec.MsgspecError, IndexError):
                facts = _decode(text)
                tags = dict(facts.tags)
                name = "disk" if tags.get("location") == "disk" else MEMORY.get(facts.name)
                if name and facts.kind == "gauge" and facts.name in MEMORY:
                    nodes.setdefault(tags.get("node", ""), {})[name] = numbers[0]
    return nodes


def _header(runtime: Runtime) -> dict[str, Any]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "zray": __version__,
        "python": platform.python_version(),
        "program": os.path.basename(sys.argv[0]) or "python",
        "pid": os.getpid(),
        "session": runtime.session,
        "task_id": runtime.root.task_id,
        "host": socket.gethostname(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "memory": total,
        "start": time.time(),
        "clock": time.time() - time.perf_counter(),
    }


def _error_name() -> str:
    """The kind of the exception that ends the program; "" without one."""
    kind = sys.exc_info()[0]
    if kind is None and not hasattr(sys, "ps1"):
        kind = getattr(sys, "last_type", None)  # at the exit of the interpreter
    return "" if kind is None or kind in (SystemExit, GeneratorExit) else kind.__name__


def recorder_for(record: str | os.PathLike[str] | None, *, is_local: bool) -> Recorder | None:
    """Return the recorder that init() asks for, or ZRAY_RECORD; None: nothing is recorded.

    Raises:
        OSError, TypeError, ValueError, NotImplementedError: `record` cannot be done.  A file of ZRAY_RECORD that is
            written by another program is a warning only: children of a program have its environment.
    """
    source = "record" if record is not None else VARIABLE
    path = os.environ.get(VARIABLE, "") if record is None else record
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"record must be the path of a file, not {type(record).__name__}.")
    path = os.fsdecode(path)
    if not path:
        return None
    if is_local:
        raise NotImplementedError(f"{source}={path!r} needs the records of processes: leave out local_mode=True.")
    path = os.path.abspath(path.replace("%p", str(os.getpid())))
    if record is None:
        path = _unwritten(path)
    try:
        return Recorder(path, source)
    except BlockingIOError as error:
        if record is not None:
            raise
        warnings.warn(f"Nothing is recorded.  {error}", RuntimeWarning, stacklevel=4)
        return None


def _unwritten(path: str) -> str:
    """A path that no former session of this process has written: run.zrec, run-2.zrec..."""
    base, end = os.path.splitext(path)
    number, found = 1, path
    while found in _written:
        number += 1
        found = f"{base}-{number}{end}"
    _written.add(found)
    return found
