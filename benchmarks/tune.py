"""Figures of Tune: overhead, exactness and quality.  Ratios are of runs in turns, since the machine may be shared.

python -m zray.benchmarks.tune                            all figures
python -m zray.benchmarks.tune reused_actors kills        some of them
python -m zray.benchmarks.tune --ray ENV/bin/python       Ray Tune beside, in an environment that has it
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import cloudpickle

import zray
from zray import tune

from . import tune_loads, tune_quality, tune_recorded
from .rows import Row
from .tune_restarts import kills

REPEATS = 3
# Ray's trials are slow: so few of them give its rate.
RAY_COUNTS = {"reused_actors": 40, "new_actors": 20, "optuna_search": 40, "reports": 2000}
KNOWN_TRIALS = 10_000
PAUSED_TRIALS = 100
MEMORY = "/dev/shm"


def beside_ray(python: str | None, load: str) -> str:
    """Ray's figure, measured now."""
    if python is None:
        return ""
    command = [python, tune_loads.__file__, "ray", load, str(RAY_COUNTS[load])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"measured"')]
    return f"; Ray: {json.loads(lines[-1])['measured']:.3g}" if lines else "; Ray: failed"


def actors_per_second(count: int) -> float:
    """Plain actors, two at a time: the baseline of trials with a process each."""

    class Same:
        @zray.method
        def same(self, value: int) -> int:
            return value

    Plain = zray.remote(num_cpus=1)(Same)

    start = time.perf_counter()
    live: dict[Any, Any] = {}
    for index in range(count):
        if len(live) == 2:
            (ready,), _ = zray.wait(list(live))
            del live[ready]
        actor = Plain.remote()  # type: ignore[attr-defined]
        live[actor.same.remote(index)] = actor
    zray.get(list(live))
    return count / (time.perf_counter() - start)


def reused_actors(python: str | None) -> list[Row]:
    """1,000 trials in two processes."""
    rows = []
    # A disk under load takes milliseconds for the files of a trial; memory shows what Tune itself takes.
    for name, place in (("the disk", None), ("memory", MEMORY)):
        if place is None or os.path.isdir(place):
            pairs = [
                (tune_loads.reused_actors(tune, 1000, place), tune_loads.files_alone(1000, place))
                for _ in range(REPEATS)
            ]
            rates = [rate for rate, _ in pairs]
            text = f"{statistics.median(rates):.0f} trials/s (best {max(rates):.0f}); "
            text += f"the files alone: {statistics.median(alone for _, alone in pairs):.0f}/s"
            text += beside_ray(python, "reused_actors") if place is None else ""
            is_reached = max(rates) >= 500 if place is not None else None
            rows.append(
                Row(f"1,000 trials of one report, reused actors, files on {name}", text, "500 trials/s", is_reached)
            )
    return rows


def new_actors(python: str | None) -> list[Row]:
    """Trials with a process each, beside plain actors."""
    rates, ratios = [], []
    for _ in range(REPEATS):
        plain = actors_per_second(100)
        rates.append(tune_loads.new_actors(tune, 200))
        ratios.append(rates[-1] / plain)
    text = f"{statistics.median(rates):.0f} trials/s (best {max(rates):.0f}), {statistics.median(ratios):.2f} of actors"
    text += beside_ray(python, "new_actors")
    return [Row("the same, a new actor each", text, "100 trials/s", max(rates) >= 100)]


def optuna_search(python: str | None) -> list[Row]:
    """100 trials with TPE, beside Optuna alone."""
    tune_loads.optuna_search(tune, 20), tune_loads.optuna_alone(20)
    pairs = [(tune_loads.optuna_search(tune, 100), tune_loads.optuna_alone(100)) for _ in range(REPEATS)]
    seconds = min(ours for ours, _ in pairs)
    ratio = statistics.median(ours / alone for ours, alone in pairs)
    text = f"{seconds:.2f} s, {ratio:.1f} x Optuna" + beside_ray(python, "optuna_search")
    return [Row("100 trials with Optuna's TPE", text, "1 s, 5 x Optuna", seconds <= 1 and ratio <= 5)]


def reports(python: str | None) -> list[Row]:
    """Results of one trial, all recorded."""
    rate = max(tune_loads.reports(tune, 20_000) for _ in range(REPEATS))
    text = f"{rate:,.0f} reports/s" + beside_ray(python, "reports")
    return [Row("reports of one trial, all recorded", text, "5,000 reports/s", rate >= 5000)]


def many_trials(python: str | None) -> list[Row]:
    """The program's time per report, with 10 trials and with 10,000."""
    rows = []
    for name in ("FIFO", "ASHA"):
        with tempfile.TemporaryDirectory(prefix="tune-") as folder:
            few = tune_quality.unmanned(os.path.join(folder, "few"), 10, name)
            many = tune_quality.unmanned(os.path.join(folder, "many"), KNOWN_TRIALS, name)
            pairs = [(few.seconds_per_report(300), many.seconds_per_report(300)) for _ in range(9)]
        ratio = statistics.median(slow / fast for fast, slow in pairs)
        text = f"{ratio:.2f} x ({statistics.median(fast for fast, _ in pairs) * 1e6:.0f} us with 10)"
        rows.append(Row(f"time per report with 10,000 trials against 10, {name}", text, "1.2 x", ratio <= 1.2))
    return rows


def optuna_sequence(python: str | None) -> list[Row]:
    """OptunaSearch's parameters beside those of a loop of ask and tell."""
    ours, alone = tune_quality.sequences(60)
    equal = sum(left == right for left, right in zip(ours, alone, strict=True))
    return [Row("OptunaSearch, one trial at a time", f"{equal} of {len(alone)} equal", "all", ours == alone)]


def asha_digits(python: str | None) -> list[Row]:
    """ASHA beside FIFO on handwritten digits: training steps and best scores."""
    if importlib.util.find_spec("sklearn") is None:
        return []
    fifo, asha = (tune_quality.digits(name) for name in ("fifo", "asha"))
    share, gap = asha.steps / fifo.steps, fifo.best - asha.best
    text = f"{share:.2f} of the training; best {asha.best:.4f} against {fifo.best:.4f}"
    return [Row("ASHA against FIFO on digits", text, "a third, within 1 %", share <= 1 / 3 and gap <= 0.01)]


def pbt_toy(python: str | None) -> list[Row]:
    """PBT's quadratic toy: two workers of which neither can win alone."""
    alone, pbt = tune_quality.toy(exploits=False), tune_quality.toy(exploits=True)
    text = f"Q = {pbt:.3f} against {alone:.3f} without exploits"
    return [Row("PBT on its paper's toy", text, "1.2 against 0.4", pbt > 1.15 and alone < 0.5)]


def pbt_turns(python: str | None) -> list[Row]:
    """PBT's toy with more workers than CPUs: the population advances by turns."""
    (alone, _), (found, exploits) = (tune_quality.toy_population(exploits=each) for each in (False, True))
    text = f"worst Q = {min(found):.2f} with {exploits} exploits, {min(alone):.2f} without"
    is_reached = len(found) == 8 and min(found) > min(alone) and exploits > 0
    return [Row("PBT on its toy, 8 trials on 2 CPUs, 100 steps", text, "all exploit in turns", is_reached)]


def hyperband_recorded(python: str | None) -> list[Row]:
    """HyperBand on recorded networks: the accuracy of random search at the same budget."""
    if not tune_recorded.TABLE.exists():  # it is no part of an installed package
        return []
    share, ours, others = tune_recorded.recorded()
    text = f"best {ours:.4f}; random search of equal budget {others:.4f}; the whole table costs {1 / share:.0f} x"
    return [Row("HyperBand on recorded curves", text, "not below random search", ours >= others)]


def twenty_kills(python: str | None) -> list[Row]:
    """Kills of the program at random moments."""
    found = kills(20, random.Random(1))
    text = f"{found.kills} kills: {found.equal} tables and decisions equal, {found.run_twice} trials run twice"
    is_exact = found.equal == found.experiments and not found.run_twice
    return [Row("kills of the program, restored", text, "all equal, 0 twice", is_exact)]


def pause_resume(python: str | None) -> list[Row]:
    """A pause and a resume with a checkpoint of 10 MB, beside those without a state."""
    places = {"disk": None, "memory": MEMORY} if os.path.isdir(MEMORY) else {"disk": None}
    parts = []
    for name, place in places.items():
        pairs = [(tune_quality.pause_and_resume(10, place), tune_quality.pause_and_resume(0, place)) for _ in range(5)]
        large, empty = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
        parts.append(f"files on {name}: {large:.0f} ms, {empty:.0f} ms with 0 MB")
    return [Row("a pause and a resume with a checkpoint of 10 MB", "; ".join(parts))]


def paused_trials(python: str | None) -> list[Row]:
    """100 paused trials beside one that sleeps: CPU of all processes, memory of the program."""
    found = tune_quality.paused(PAUSED_TRIALS)
    text = f"{found.cpu_percent:.2f} % CPU, {found.megabytes_per_trial:.2f} MB a trial"
    is_reached = found.cpu_percent <= 0.5 and found.megabytes_per_trial <= 5
    return [Row(f"an idle experiment of {PAUSED_TRIALS} paused trials", text, "0.5 % CPU, 5 MB a trial", is_reached)]


FIGURES: dict[str, Callable[[str | None], list[Row]]] = {
    figure.__name__: figure
    for figure in (
        reused_actors,
        new_actors,
        optuna_search,
        reports,
        many_trials,
        optuna_sequence,
        asha_digits,
        pbt_toy,
        pbt_turns,
        hyperband_recorded,
        twenty_kills,
        pause_resume,
        paused_trials,
    )
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--ray", metavar="PYTHON", help="an interpreter that has ray[tune]")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.figures if name not in FIGURES]
    if unknown:
        parser.error(f"no such figure: {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    rows: list[Row] = []
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print("| figure | measured | needed | reached |\n|---|---|---|---|", flush=True)
    # As on the side of Ray, where they are functions of the program itself: no process imports their module.
    cloudpickle.register_pickle_by_value(tune_loads)
    with zray.init(num_cpus=2, log_to_driver=False):
        tune_loads.fit(tune, tune_loads.one_report, 4, reuses=False)
        for name in arguments.figures or FIGURES:
            for row in FIGURES[name](arguments.ray):
                rows.append(row)
                reached = {True: "yes", False: "NO", None: ""}[row.is_reached]
                print(f"| {row.figure} | {row.measured} | {row.needed} | {reached} |", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump([row._asdict() for row in rows], file, indent=1)
    sys.exit(any(row.is_reached is False for row in rows))


if __name__ == "__main__":
    main()
