"""Likely reasons of a difference, each with evidence in the two runs; without evidence there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .records import Ending
from .trees import Task, Tree

__all__ = ["TELLING", "hints_of_program", "hints_of_task"]

RNG = "zray.util.rng() has the same numbers in each run, with zray.init(seed=...)."
TIMES = frozenset(
    "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time now today utcnow".split()
)
CHANCE = frozenset(
    "uuid1 uuid4 urandom token_bytes token_hex token_urlsafe SystemRandom default_rng RandomState".split()
)
PLACES = frozenset("getpid get_ident gethostname get_node_id get_worker_id get_task_id".split())
ARRIVAL = frozenset("wait as_completed map_unordered imap_unordered get_next_unordered".split())
# Names in code whose values differ from run to run.
TELLING = TIMES | CHANCE | PLACES | ARRIVAL


def hints_of_task(here: Tree, a: Task, there: Tree, b: Task) -> list[str]:
    """Return the reasons for which a task with the same arguments may differ; those with weak evidence if alone."""
    endings = [*a.endings, *b.endings]
    found = [*_of_draws(sorted({name for ending in endings for name in ending.drew}), "The task")]
    if a.is_lost or b.is_lost:
        found.append(_of_death(a))
    elif a.actor:
        found += _of_actor(here, a, there, b)
    if not found and a.ending is not None and b.ending is not None:
        found += _of_values(a.ending, b.ending)
    return found or _of_names({name for ending in endings for name in ending.mentions}, "Its code")


def hints_of_program(here: Tree, there: Tree, mentions: Iterable[str]) -> list[str]:
    """Return the reasons for which the program itself may submit other tasks.

    Args:
        mentions: telling names in its code.
    """
    return [
        *_of_draws(sorted({*here.drew, *there.drew}), "The program"),
        *_of_names({name for name in mentions if name in ARRIVAL}, "The program"),
    ]


def _of_draws(names: list[str], who: str) -> list[str]:
    found = []
    if "zray.rng" in names:
        found.append(f"{who} draws from zray.util.rng(), and the session has no seed: zray.init(seed=...) gives one.")
    others = [name for name in names if name != "zray.rng"]
    if others:
        found.append(f"{who} draws from {' and '.join(others)}, whose state depends on the process.  {RNG}")
    return found


def _of_death(task: Task) -> str:
    if task.actor == "":
        return "The task has no retry left: max_retries= allows retries."
    return "The actor or its call is not tried again: max_restarts= and max_task_retries= allow that."


def _of_actor(here: Tree, a: Task, there: Tree, b: Task) -> list[str]:
    found = []
    if any(kill.actor == task.actor for tree, task in ((here, a), (there, b)) for kill in tree.kills):
        found.append("The actor's worker was killed.  checkpoint_interval= restores the state of an actor.")
    if max(len(tree.callers.get(task.actor, ())) for tree, task in ((here, a), (there, b))) > 1:
        found.append("Several tasks call the actor.  Calls of one caller are in order, those of several in any order.")
    return found


def _of_values(one: Ending, two: Ending) -> list[str]:
    if one.number is not None and two.number is not None and math.isclose(one.number, two.number, rel_tol=1e-9):
        return ["The values differ by rounding, as sums do in another order."]
    if one.unordered and one.unordered == two.unordered and one.values != two.values:
        return ["The values have the same elements in another order, as from a set or from zray.wait."]
    return []


def _of_names(names: set[str], who: str) -> list[str]:
    found = []
    if chosen := sorted(names & CHANCE):
        found.append(f"{who} mentions {', '.join(chosen)}.  {RNG}")
    if chosen := sorted(names & TIMES):
        found.append(f"{who} mentions {', '.join(chosen)}, which depends on time.")
    if chosen := sorted(names & PLACES):
        found.append(f"{who} mentions {', '.join(chosen)}, which depends on the process.")
    if chosen := sorted(names & ARRIVAL):
        found.append(f"{who} mentions {', '.join(chosen)}, whose order depends on timing.")
    return found
