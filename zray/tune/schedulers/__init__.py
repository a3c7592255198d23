"""Trial schedulers."""

from typing import Any

from .trial_scheduler import FIFOScheduler, TrialScheduler

__all__ = ["FIFOScheduler", "TrialScheduler", "create_scheduler"]

_BY_NAME = {"fifo": FIFOScheduler}


def create_scheduler(scheduler: str, **options: Any) -> TrialScheduler:
    """A scheduler by its name, as "fifo" or "asha".

    Raises:
        ValueError: no scheduler has the name.
    """
    name = scheduler.lower()
    if name not in _BY_NAME:
        raise ValueError(f"No scheduler is called {scheduler!r}.  The names are: {', '.join(sorted(_BY_NAME))}.")
    return _BY_NAME[name](**options)
