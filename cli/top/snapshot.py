"""State of a session as text, by `zray top`: for a pipe, a file or a dumb terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator

from . import views
from .asking import Sample
from .history import History
from .stream import as_text, axis, stream
from .summary import Waits, finding, header
from .tables import padded, plain

WIDTH, ROWS = 100, 20
STREAM_SECONDS, STREAM_ROWS, LABEL = 60.0, 40, 15


def snapshot(sample: Sample, history: History, waits: Waits, width: int = WIDTH) -> Iterator[str]:
    """Yield the lines of a snapshot."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(sample.at))
    yield "  ".join(header(sample, history, at))
    yield f"! {finding(sample, history, waits)[0]}"
    for title, table in (
        ("NODES", views.nodes(sample)),
        ("TASKS BY FUNCTION", views.functions(sample, history)),
        ("TASKS", views.tasks(sample)),
        ("ACTORS", views.actors(sample)),
        ("OBJECTS BY PLACE", views.objects(sample)),
        ("PROCESSES", views.workers(sample)),
    ):
        yield ""
        yield title
        yield from plain(table, ROWS)
        if title == "TASKS BY FUNCTION":
            yield from stream_lines(sample, history, width)


def stream_lines(sample: Sample, history: History, width: int) -> Iterator[str]:
    """Yield the task stream as signs."""
    rows = stream(history, sample, sample.at, STREAM_SECONDS, width - LABEL - 1, STREAM_ROWS)
    if rows:
        yield ""
        yield f"TASK STREAM, the last {STREAM_SECONDS:.0f} s: # runs, + runs shortly, = in get(), . idle, X failed"
        for row in rows:
            yield f"{padded(row.label, LABEL)} {as_text(row)}"
        yield f"{' ' * LABEL} {axis(STREAM_SECONDS, width - LABEL - 1)}"
