"""Metrics of a session: the page of this process, and the series of all processes."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import msgspec

from ..host import context
from ..store.metric_page import Facts, MetricPage, left_out_of, series_of
from ..wire.events import EventsListed, ListEvents
from .sessions import require_runtime

__all__ = ["Facts", "MetricPage", "Recorded", "metric_page", "recorded_metrics"]

_decode = msgspec.json.Decoder(Facts).decode


class Recorded(NamedTuple):
    """Series of all processes.

    series: facts and numbers, each process's apart.  left_out: updates that are in no series.  silent: nodes that have
    not answered.
    """

    series: list[tuple[Facts, tuple[float, ...]]]
    left_out: int
    silent: list[str]


def metric_page() -> MetricPage | None:
    """The page of this process, made at the first call.  None: no session, local mode, or no memory for it."""
    make = getattr(context.runtime, "metric_page", None)
    page: MetricPage | None = None if make is None else make()
    return page


def recorded_metrics() -> Recorded:
    """Return the series of all processes of the session, also of those that ended.

    Raises:
        NotImplementedError: in local mode.
    """
    runtime = require_runtime()
    if not hasattr(runtime, "metric_page"):
        raise NotImplementedError("Metrics of a session need its processes: leave out local_mode=True.")
    found: EventsListed = runtime.ask(lambda request: ListEvents(request, are_metrics=True))
    series, left_out = [], found.left_out
    for fact in found.rings:
        left_out += left_out_of(fact.data)
        for text, numbers in series_of(fact.data):
            try:
                facts = _decode(text)
            except msgspec.MsgspecError:
                left_out += 1
                continue
            if len(numbers) == facts.numbers:
                series.append((facts, numbers))
    silent = [node.partition("/")[0] for node in found.silent]
    if silent:
        warnings.warn(f"The metrics lack these nodes, which have not answered: {', '.join(silent)}.", stacklevel=2)
    return Recorded(series, left_out, silent)
