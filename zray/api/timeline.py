"""Timeline of a session: what ran, where and when, as a Chrome trace; and spans that programs add to it."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
import warnings
from contextlib import ContextDecorator
from typing import Any

from ..host import context
from ..host.client.event_log import Kind
from ..store.event_ring import RingContent, read_ring
from ..wire.events import EventsListed, ListEvents
from ..wire.listing import ListWork
from .chrome_trace import trace_of
from .sessions import require_runtime
from .task_waits import number_attempts
from .unfinished import add_unfinished

# A character beyond the first 65,536, as JSON has it.  Backslashes before it, in pairs, are some of the text itself.
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")

__all__ = ["asked_rings", "profile", "recorded_rings", "timeline", "write_trace"]


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Return the timeline of the session as a Chrome trace, or write it to a file for https://ui.perfetto.dev.

    Each process keeps the latest 16,384 records; each node keeps those of processes that have ended, up to 16 MiB.
    Runs that have not ended are shown up to now.  ZRAY_EVENTS=0 in the environment switches the recording off.

    Args:
        filename: a file to write; one that ends in ".gz" is compressed.

    Returns:
        The events of the trace; None: they are in the file.

    Raises:
        OSError: the file cannot be written.
        NotImplementedError: in local mode.

    Example:
        zray.get([train.remote(part) for part in parts])
        zray.timeline("timeline.json")

    Source: Trace Event Format (Google, 2016).
    """
    work, asked = require_runtime().ask(ListWork), time.time()
    rings, left_out = recorded_rings("zray.timeline()")
    add_unfinished(rings, work, asked, time.time())
    trace = trace_of(rings, left_out)
    if filename is None:
        return trace
    write_trace(trace, filename)
    return None


def write_trace(trace: list[dict[str, Any]], filename: str | os.PathLike[str]) -> None:
    """Write the events of a trace to a file; one that ends in ".gz" is compressed."""
    text = trace_text(trace)
    if str(filename).endswith(".gz"):
        with gzip.open(filename, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with open(filename, "w", encoding="utf-8") as file:
            file.write(text)


def trace_text(trace: list[dict[str, Any]]) -> str:
    """Return the events of a trace as JSON for Perfetto, whose parser takes none but the first 65,536 characters."""
    text = json.dumps(trace, separators=(",", ":"))
    return _PAIR.sub(r"\1\\ufffd", text) if "\\ud" in text else text


def recorded_rings(asker: str) -> tuple[dict[str, list[RingContent]], int]:
    """The event records of the session's processes.

    Args:
        asker: the function that needs them, for errors.

    Returns:
        (rings by node, the number of those that did not fit into the answer).

    Raises:
        NotImplementedError: in local mode.
    """
    found = asked_rings(asker)
    nodes: dict[str, list[RingContent]] = {}
    for fact in found.rings:
        ring = read_ring(fact.data)
        if ring is not None:
            nodes.setdefault(fact.node.partition("/")[0], []).append(ring)
    number_attempts(nodes)
    return nodes, found.left_out


def asked_rings(asker: str) -> EventsListed:
    """The rings of the session's processes, as bytes.  Arguments and errors are those of recorded_rings."""
    runtime = require_runtime()
    if not hasattr(runtime, "note_span"):
        raise NotImplementedError(f"{asker} needs the records of processes: leave out local_mode=True.")
    found: EventsListed = runtime.ask(ListEvents)
    if found.silent:
        silent = ", ".join(node.partition("/")[0] for node in found.silent)
        warnings.warn(f"The records lack these nodes, which have not answered: {silent}.", stacklevel=4)
    return found


class profile(ContextDecorator):  # noqa: N801  as in Ray
    """A span of the timeline, around a block of code or a function of a program, a task or an actor.

    Args:
        name: of the span; at most 120 bytes of it are shown.

    Example:
        with zray.profile("read the table"):
            table = read(path)
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"The name of a span is a text that is not empty, not {name!r}.")
        self.name = name
        self._begins: list[float] = []

    def _recreate_cm(self) -> profile:
        return profile(self.name)

    def __enter__(self) -> profile:
        self._begins.append(time.perf_counter())
        return self

    def __exit__(self, *exception: object) -> None:
        note = getattr(context.runtime, "note_span", None)
        began = self._begins.pop()
        if note is not None:
            note(Kind.SPAN, began, self.name)
