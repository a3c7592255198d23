"""Runs of a program that never was, for tests of reports: short to write, with known answers."""

import hashlib

from zray.store.event_ring import Kind, Outcome
from zray.util.report.runs import PROGRAM, Row, Run, Runs, Wait

WORKERS = [Row(f"worker {number}", "node", False) for number in range(4)]
ROWS = [Row("driver program.py", "node", True), *WORKERS]


def task_id(label):
    return hashlib.blake2b(label.encode(), digest_size=16).digest()


def run(label, begin, end, submitted=0.0, needs=(), parent=None, row=1, kind=Kind.TASK, error="", name=None):
    """The run of a task; its function is the label up to a dash."""
    return Run(
        task_id(label),
        name or label.partition("-")[0],
        kind,
        row,
        submitted,
        begin,
        begin,
        end,
        end,
        PROGRAM if parent is None else task_id(parent),
        Outcome.FAILED if error else Outcome.FINISHED,
        error,
        tuple(task_id(each) for each in needs),
    )


def get(begin, end, owner=None, row=0):
    """A wait of the program, or of a task."""
    return Wait(PROGRAM if owner is None else task_id(owner), begin, end, row)


def record(runs, waits=(), end=None):
    return Runs(runs, waits, end, ROWS)
