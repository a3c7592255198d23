"""Runs groups of workloads on a module with Ray's API; needs numpy and that module, nothing else.

python -m benchmarks.runner MODULE [--only tasks] [--quick]      one JSON line: values and errors by name
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from dataclasses import dataclass, field
from types import ModuleType

from .table import SLOW, Group, Workload, chosen_groups
from .timing import FULL, QUICK, Effort, deadline

WORKLOAD_SECONDS = 900.0  # after this long a workload is taken to hang
QUICK_WORKLOAD_SECONDS = 240.0


@dataclass
class Outcome:
    """What was measured, by figure, and what went wrong, by workload."""

    values: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def attempt(ray: ModuleType, workload: Workload, effort: Effort, outcome: Outcome) -> bool:
    """Run one workload; whatever goes wrong is noted. True if all went well."""
    print(f"  {workload.__name__} ...", file=sys.stderr, flush=True)
    try:
        with deadline(QUICK_WORKLOAD_SECONDS if effort.quick else WORKLOAD_SECONDS, workload.__name__):
            outcome.values |= workload(ray, effort)
    except Exception as error:  # a figure that cannot be had is a row of the table, not the end of the run
        outcome.errors[workload.__name__] = f"{type(error).__name__}: {error}"
        return False
    return True


def run_shared(ray: ModuleType, group: Group, effort: Effort, outcome: Outcome) -> None:
    """The workloads that share a session; after one that failed, the next gets a new session."""
    for workload in group.shared:
        try:
            if not ray.is_initialized():
                ray.init(num_cpus=2, **group.options)
        except Exception as error:
            outcome.errors[workload.__name__] = f"init: {type(error).__name__}: {error}"
            continue
        if not attempt(ray, workload, effort, outcome):
            end_session(ray, group, outcome)
    if group.shared:
        end_session(ray, group, outcome)


def end_session(ray: ModuleType, group: Group, outcome: Outcome) -> None:
    try:
        with deadline(QUICK_WORKLOAD_SECONDS, "shutdown"):
            ray.shutdown()
    except Exception as error:
        outcome.errors[f"shutdown after {group.name}"] = f"{type(error).__name__}: {error}"


def run_group(ray: ModuleType, group: Group, effort: Effort) -> Outcome:
    outcome = Outcome()
    run_shared(ray, group, effort, outcome)
    for workload in group.fresh:
        if not (effort.quick and workload.__name__ in SLOW):
            attempt(ray, workload, effort, outcome)
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("--only", action="append", default=[], help="a group or a workload; repeatable")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    ray = importlib.import_module(options.module)
    total = Outcome()
    for group in chosen_groups(options.only):
        outcome = run_group(ray, group, QUICK if options.quick else FULL)
        total.values |= outcome.values
        total.errors |= outcome.errors
    print(json.dumps({"values": total.values, "errors": total.errors}))


if __name__ == "__main__":
    main()
