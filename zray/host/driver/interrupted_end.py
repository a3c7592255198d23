"""The end of a program by Ctrl-C: its tasks are cancelled first, so that their `finally` and `with` blocks run.

Actors' calls are left to the end of their actors, which has a time of its own.  A second Ctrl-C ends the wait.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from ...exceptions import ClusterLostError, GetTimeoutError
from ...wire.listing import ListWork, TaskFact, WorkListed
from ...wire.tasks import CancelTask

if TYPE_CHECKING:
    from .driver import Driver

# Tasks that have not ended by then are killed with their workers.
PATIENCE_SECONDS = 1.0
LOOK_SECONDS = 0.02


def was_interrupted(*, is_exit: bool) -> bool:
    """Return whether the program ends by Ctrl-C.  is_exit: the interpreter ends, and has shown the last exception."""
    kinds = [sys.exc_info()[0], getattr(sys, "last_type", None) if is_exit else None]
    return any(kind is not None and issubclass(kind, KeyboardInterrupt) for kind in kinds)


def cancel_tasks(driver: Driver) -> None:
    """Cancel all tasks of the program, on all nodes, and wait until those that run have ended."""
    asked: set[bytes] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while unfinished := _unfinished(driver):
            for fact in unfinished:
                if fact.task_id not in asked:
                    asked.add(fact.task_id)
                    driver.say(CancelTask(fact.task_id))
            driver.flush()
            if time.monotonic() >= deadline:
                return
            time.sleep(LOOK_SECONDS)
    except (ClusterLostError, GetTimeoutError):
        return


def _unfinished(driver: Driver) -> list[TaskFact]:
    found: WorkListed = driver.ask(ListWork, PATIENCE_SECONDS)
    own = (fact for fact in found.tasks if fact.job_id == driver.job_id and not fact.actor_id)
    return [fact for fact in own if not fact.has_ended]
