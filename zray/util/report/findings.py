"""Findings of a report: sentences that say why a program is slow, and what to do, the largest loss first.

A finding needs five percent of the run; below that, it is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ...api.task_waits import FETCH, WORDS
from ...store.event_ring import Kind
from .critical_path import PROGRAM_CODE, QUEUE, RUN, Path, Step
from .functions import Function
from .idle import Usage
from .runs import Run, Runs

__all__: list[str] = []  # for `zray report`

SHARE_MIN = 0.05
# Findings of one rule: the functions of a program may all have the same flaw.
OF_RULE_MAX = 3
# A run is a straggler if it takes so many times the median of its function.
STRAGGLER = 5.0
# A task of less work than this costs more than it does.
SMALL_SECONDS, SMALL_COUNT = 1e-3, 1_000
PAUSE_SECONDS = 0.01
# Cores are busy during a wait if so large a part of them ran tasks.
BUSY = 0.7
# Values only become more if so large a part of so many looks found more of them, and so many bytes.
GREW, SAMPLES_MIN, LEAK_BYTES = 0.8, 5, 64 << 20
# What tasks of the longest chain waited for, at most so many things.
STAGES_SHOWN = 2
# A program that waits after each submission does so at least so many times.
TURNS_MIN = 10


class Finding(NamedTuple):
    """A finding: its share of the run from 0 to 1, what happened, and what to do."""

    share: float
    text: str
    advice: str


class Facts(NamedTuple):
    """Facts from which findings are made."""

    runs: Runs
    usage: Usage
    path: Path
    functions: list[Function]
    memory: Sequence[dict[str, Any]] = ()  # of nodes: "times", and bytes by what they hold


def findings_of(facts: Facts) -> list[Finding]:
    """Return the findings on a run, the largest share first."""
    found = []
    for rule in RULES if facts.runs.end else ():  # 0: a record without tasks
        large = [finding for finding in rule(facts) if finding.share >= SHARE_MIN]
        found += sorted(large, key=lambda finding: -finding.share)[:OF_RULE_MAX]
    return sorted(found, key=lambda finding: -finding.share)


def headline(facts: Facts) -> str:
    """The answer in one sentence: how idle the cores were, and the main reason."""
    usage, seconds = facts.usage, facts.usage.seconds
    total = max(sum(seconds.values()), 1e-9)
    idle = 1 - seconds["busy"] / total
    if not facts.runs.runs:
        return "No task ran."
    if idle < SHARE_MIN:
        return f"The cores were busy {100 * (1 - idle):.0f} % of the time: only less work or more cores make it faster."
    reason = max((name for name in seconds if name != "busy"), key=lambda name: seconds[name])
    share = seconds[reason] / total
    cores = "The core was" if usage.cores == 1 else "The cores were"
    return f"{cores} idle {100 * idle:.0f} % of the time, {100 * share:.0f} % {WHY[reason]}."


WHY = {
    "ready": "while tasks that could run had not begun",
    "arguments": "while tasks waited for their arguments",
    "actors": "while calls waited behind others of their actor",
    "program": "while the program itself computed",
    "few": "because too few tasks ran at once",
}


def digits(number: float) -> str:
    """A number with three digits, or as many as it has before its point."""
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"


def text_of(seconds: float) -> str:
    """A duration with three digits: 51 ms, 1.20 s, 4m 02s, 2h 11m."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{digits(seconds * 1e3)} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f}m {seconds % 60:02.0f}s"
    return f"{seconds // 3600:.0f}h {seconds % 3600 // 60:02.0f}m"


def bytes_of(count: float) -> str:
    """An amount of memory with three digits, as 1.2 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            break
        count, unit = count / 1024, "TiB"
    return f"{digits(count)} {unit}"


def _of_program(facts: Facts) -> Iterator[Finding]:
    seconds = facts.path.seconds_by_kind().get(PROGRAM_CODE, 0.0)
    runs = facts.runs
    # Ahead of the first task and behind the last one, nothing can be made parallel by tasks.
    first = min((run.submitted if run.submitted is not None else run.begin for run in runs.runs), default=runs.end)
    last = max((run.stored for run in runs.runs), default=runs.end)
    before, behind = first / runs.end, max(runs.end - last, 0.0) / runs.end
    middle = max(seconds / runs.end - before - behind, 0.0)
    yield Finding(
        before,
        f"The program took {text_of(first)} until its first task.",
        "Imports, reading and preparation come first there: start tasks earlier, or move the preparation into tasks.",
    )
    yield Finding(
        behind,
        f"The program went on for {text_of(runs.end - last)} after its last task.",
        "That code runs in the program alone: move it into tasks if it can be split.",
    )
    yield Finding(
        middle,
        f"Between tasks the program itself computed for {text_of(middle * runs.end)} while nothing else could go on.",
        "Move that work into tasks, or submit the next tasks ahead of it.",
    )


def _of_path(facts: Facts) -> Iterator[Finding]:
    totals = {(kind, name): (count, seconds) for kind, name, count, seconds in facts.path.rows()}
    for function in facts.functions:
        count, seconds = totals.get((RUN, function.name), (0, 0.0))
        share = seconds / facts.runs.end
        if share >= 0.2:
            runs = "one run" if count == 1 else f"{count:,} runs one after the other"
            yield Finding(
                share,
                f"{100 * share:.0f} % of the time hung on `{function.name}`: {runs}, {text_of(seconds)} in all.",
                f"Twice as fast a `{function.name}` saves up to {text_of(seconds / 2)}; so does a split into parts "
                "that run at once.",
            )


def _of_turn(facts: Facts) -> Iterator[Finding]:
    """Waits of the longest chain for a core, or for an actor."""
    kinds = {function.name: function.is_call for function in facts.functions}
    small = {function.name for function in facts.functions if _is_small(function)}  # they have a finding of their own
    waits = [step for step in facts.path.steps if step.kind == QUEUE and step.name not in small]
    of_calls = sum(step.seconds for step in waits if kinds[step.name])
    of_tasks = sum(step.seconds for step in waits if not kinds[step.name])
    bins = facts.usage.bins[0]
    scale = len(bins) / facts.runs.end
    busy = sum(
        step.seconds * float(bins[int(step.begin * scale) : int(step.end * scale) + 1].mean())
        for step in waits
        if not kinds[step.name]
    )
    if busy > BUSY * of_tasks:
        yield Finding(
            of_tasks / facts.runs.end,
            f"Tasks of the longest chain waited {text_of(of_tasks)} for a free core{_most(waits, kinds, False)}.",
            f"More cores or nodes save at most {text_of(of_tasks)}.",
        )
    else:
        yield Finding(
            of_tasks / facts.runs.end,
            f"Tasks of the longest chain waited {text_of(of_tasks)} to begin while cores were idle"
            f"{_most(waits, kinds, False)}.",
            _recorded(facts.runs, [step for step in waits if not kinds[step.name]])
            or "A worker had to start, or a resource other than cores was taken: `zray why` says which in time.",
        )
    yield Finding(
        of_calls / facts.runs.end,
        f"Calls of the longest chain waited {text_of(of_calls)} for their actor{_most(waits, kinds, True)}.",
        "An actor runs one call at a time: use several actors, max_concurrency, or tasks where no state is kept.",
    )


def _recorded(runs: Runs, steps: list[Step]) -> str:
    """What nodes have recorded of the waits in these steps, in words; "": nothing."""
    found: dict[str, float] = {}
    for step in steps:
        for wait in runs.waits_of(step.run) if step.run is not None else ():
            seconds = min(wait.end, step.end) - max(wait.begin, step.begin)
            if seconds > 0:
                found[wait.stage] = found.get(wait.stage, 0.0) + seconds
    if FETCH in found:
        found["arguments"] = max(found.get("arguments", 0.0) - found[FETCH], 0.0)
    longest = sorted(found, key=lambda stage: -found[stage])[:STAGES_SHOWN]
    told = [f"{text_of(found[stage])} for {WORDS[stage]}" for stage in longest if found[stage] > 0]
    return f"By the records, {' and '.join(told)}." if told else ""


def _most(waits: list[Step], kinds: dict[str, bool], are_calls: bool) -> str:
    """The function that waited longest, in words."""
    sums: dict[str, float] = {}
    for step in waits:
        if kinds[step.name] == are_calls:
            sums[step.name] = sums.get(step.name, 0.0) + step.seconds
    name = max(sums, key=lambda name: sums[name], default="")
    return f": {'' if len(sums) == 1 else 'mostly '}`{name}`" if name else ""


def _of_stragglers(facts: Facts) -> Iterator[Finding]:
    for function in facts.functions:
        if function.runs >= 5 and function.longest > STRAGGLER * max(function.p50, 1e-9):
            lost = function.longest - function.p50
            is_long = lost / facts.runs.end
            yield Finding(
                is_long,
                f"One run of `{function.name}` took {text_of(function.longest)}; half of them take less than "
                f"{text_of(function.p50)}.",
                "Split the largest part of the work, or submit it first, so that it does not run alone at the end.",
            )


def _of_small_tasks(facts: Facts) -> Iterator[Finding]:
    for function in facts.functions:
        if _is_small(function):
            span = _covered([run for run in facts.runs.runs if run.name == function.name])
            work = function.total / max(facts.usage.cores, 1)
            yield Finding(
                max(span - work, 0.0) / facts.runs.end,
                f"{function.runs:,} runs of `{function.name}` do {text_of(function.p50)} of work each, less than "
                "a task costs.",
                f"Give each task a batch of them, as zray.util.map(..., chunksize=) does: {text_of(work)} of work "
                "remain.",
            )


def _is_small(function: Function) -> bool:
    return function.runs >= SMALL_COUNT and function.p50 < SMALL_SECONDS


def _covered(runs: list[Run]) -> float:
    """The seconds in which runs went on, or paused for a moment only."""
    total, end = 0.0, 0.0
    for run in runs:  # in the order of their begins
        begin = run.begin if run.begin > end + PAUSE_SECONDS else end
        total += max(run.stored - begin, 0.0)
        end = max(end, run.stored)
    return total


def _of_turns(facts: Facts) -> Iterator[Finding]:
    """A program that gets each result before it submits the next task."""
    turns: dict[str, list[float]] = {}
    before = ""
    for step in facts.path.steps:
        if step.kind == RUN:
            if before == PROGRAM_CODE:
                turns.setdefault(step.name, []).append(step.seconds)
            before = RUN
        elif step.kind == PROGRAM_CODE:
            before = PROGRAM_CODE
    calls = {function.name for function in facts.functions if function.is_call}
    for name, seconds in turns.items():
        if len(seconds) >= TURNS_MIN and name not in calls and facts.usage.cores > 1:
            yield Finding(
                sum(seconds) * (1 - 1 / facts.usage.cores) / facts.runs.end,
                f"The program waited for a run of `{name}` {len(seconds):,} times before it submitted the next one.",
                "A get() in a loop keeps one core busy: submit all tasks first, then get their results at once.",
            )


def _of_arguments(facts: Facts) -> Iterator[Finding]:
    for function in facts.functions:
        share = function.reads / max(facts.usage.cores * facts.runs.end, 1e-9)
        if function.reads > 0.1 * function.total:
            yield Finding(
                share,
                f"`{function.name}` reads its arguments for {text_of(function.reads)} of {text_of(function.total)}.",
                "Pass numpy arrays or Arrow tables, which are read in place; put() what many tasks take once.",
            )


def _of_failures(facts: Facts) -> Iterator[Finding]:
    for function in facts.functions:
        if function.failed:
            runs = [run for run in facts.runs.runs if run.name == function.name and run.outcome == 1]
            lost = sum(run.seconds for run in runs) / max(facts.usage.cores * facts.runs.end, 1e-9)
            errors = ", ".join(function.errors)
            yield Finding(
                max(lost, SHARE_MIN),
                f"{function.failed:,} of {function.runs:,} runs of `{function.name}` failed: {errors}.",
                "`zray logs` has what they printed; retries hide failures from the program.",
            )


def _of_queues(facts: Facts) -> Iterator[Finding]:
    for function in facts.functions:
        is_long = function.waits_turn > 0.2 * facts.runs.end and function.is_call
        if is_long and any(run.kind == Kind.CALL and run.name == function.name for run in facts.runs.runs):
            yield Finding(
                function.waits_turn / facts.runs.end / 2,
                f"A call of `{function.name}` waits {text_of(function.waits_turn)} behind others, and takes "
                f"{text_of(function.mean)}.",
                "Use several actors, or max_concurrency where calls wait for something.",
            )


def _of_memory(facts: Facts) -> Iterator[Finding]:
    """Values that were spilled, or that only became more."""
    for node in facts.memory:
        store, disk = node["store"], node["disk"]
        spilled = sum(held > 0 for held in disk) / max(len(disk), 1)
        if spilled:
            yield Finding(
                max(spilled, SHARE_MIN),
                f"Up to {bytes_of(max(disk))} of values were spilled to disk on node {node['node']}.",
                "Its object store was full: drop refs that are no longer needed, or give it more with "
                "object_store_memory. `zray memory` says who holds what.",
            )
        grew = sum(after > before for before, after in pairwise(store)) / max(len(store) - 1, 1)
        if len(store) >= SAMPLES_MIN and grew > GREW and store[-1] > max(LEAK_BYTES, 0.9 * max(store)):
            yield Finding(
                max(store[-1] / max(node["capacity"], 1.0), SHARE_MIN),
                f"The object store of node {node['node']} only grew, to {bytes_of(store[-1])}: perhaps a leak.",
                "Somebody holds refs on values that are done with: `zray memory` says who, and where they were made.",
            )


RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _of_program,
    _of_path,
    _of_turn,
    _of_stragglers,
    _of_small_tasks,
    _of_turns,
    _of_arguments,
    _of_failures,
    _of_queues,
    _of_memory,
)
