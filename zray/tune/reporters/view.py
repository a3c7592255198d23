"""The facts that all reporters show, computed from the controller when a report is due."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..objective import number_of
from ..trial import Trial, value_of
from .rows import cell, counts, counts_in_words, duration

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["View", "seconds_left", "usage_of_session", "view_of"]


class View(NamedTuple):
    """The state of an experiment.

    total: number of trials; 0: not known.  left_s: seconds to the end; None: not known.  usage: resources in words.
    """

    name: str
    counts: dict[str, int]
    total: int
    ended: int
    elapsed_s: float
    left_s: float | None
    usage: str
    scheduler: str
    best: Trial | None
    metric: str | None
    end: str
    best_ever: Trial | None = None

    def heading(self) -> str:
        """A line on trials and time."""
        of = f" of {self.total}" if self.total else ""
        words = f"{self.ended}{of} trials ended ({counts_in_words(self.counts)}), {duration(self.elapsed_s)}"
        return words if self.left_s is None else f"{words}, about {duration(self.left_s)} left"

    def best_in_words(self) -> str:
        """The best trial; empty: there is none."""
        if self.best is None:
            return ""
        parameters = ", ".join(
            f"{name.rpartition('/')[2]}={cell(value)}" for name, value in self.best.parameters.items()
        )
        last = value_of(self.best.latest_result, self.metric or "")
        words = f"best {self.metric} = {cell(last)} of {self.best}"
        words += f" ({parameters})" if parameters else ""
        ever = self.best_ever
        if ever is None or ever.best == number_of(last):  # also where several trials have the same best value
            return words
        return f"{words}; best ever {cell(ever.best)}" + (f" of {ever}" if ever is not self.best else "")


def usage_of_session() -> str:
    """The resources in use, of the session or the cluster, as in 2018; empty: there is no session."""
    import zray

    if not zray.is_initialized():
        return ""
    with contextlib.suppress(Exception):
        total, free = zray.cluster_resources(), zray.available_resources()
        parts = [
            f"{total.get(name, 0) - free.get(name, 0):g}/{total.get(name, 0):g} {name}s" for name in ("CPU", "GPU")
        ]
        return f"Resources used: {', '.join(parts)}"
    return ""


def seconds_left(controller: Controller, ended: int, now: float) -> float | None:
    """An estimate of the time to the end: trials end as fast as before, and no later than the time budget.

    Returns:
        None: nothing is known.
    """
    in_budget = now - controller.began_at
    elapsed = controller.earlier_s + in_budget
    limits = []
    if controller.settings.time_budget_s:
        limits.append(controller.settings.time_budget_s - in_budget)
    total = controller.settings.num_samples
    if total > 0 and ended and elapsed > 0:
        limits.append(elapsed / ended * max(0, total - ended))
    return max(0.0, min(limits)) if limits else None


def view_of(controller: Controller, usage: str, now: float | None = None) -> View:
    """The state now.

    Args:
        usage: resources in words.
        now: seconds since the epoch; None: the clock's.
    """
    import os

    now = time.time() if now is None else now
    found = counts(controller.trials.values())
    ended = found.get("TERMINATED", 0) + found.get("ERROR", 0)
    began = controller.began_at or now
    settings: Any = controller.settings
    is_over = controller.is_done or bool(controller.is_ending)
    return View(
        os.path.basename(settings.path) or settings.trainable_name,
        found,
        max(0, settings.num_samples),
        ended,
        controller.earlier_s + max(0.0, now - began),
        None if is_over else seconds_left(controller, ended, now),
        usage,
        controller.scheduler.debug_string(),
        controller.best,
        settings.metric,
        controller.is_ending,
        controller.best_ever,
    )
