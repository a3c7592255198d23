"""HyperBand, ASHA and random search on recorded curves, and PBT on its toy: figures, and the pictures of the guide.

python -m zray.benchmarks.tune_recorded record      train the networks of the table anew (some minutes)
python -m zray.benchmarks.tune_recorded draw        draw docs/tune/*.svg

The table tune_digits.csv has a row for each of 143 networks that learn to read digits: rate, units, alpha, seed, then
the test images of 450 that are read correctly after each of 81 epochs.
"""

from __future__ import annotations

import csv
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import zray
from zray import tune
from zray.tune.controller import Controller
from zray.tune.schedulers import ASHAScheduler, FIFOScheduler, HyperBandScheduler, TrialScheduler
from zray.tune.search.basic_variant import BasicVariantGenerator
from zray.tune.settings import Settings
from zray.tune.simulation import Point, VirtualRun

from .figures.results import MEASURED, SIMULATED, Plot, Series
from .figures.svg import draw
from .tune_quality import STEPS, digits_trainable, toy_curves

TABLE = Path(__file__).with_name("tune_digits.csv")
PICTURES = Path(__file__).parents[1] / "docs" / "tune"
KEYS = ("rate", "units", "alpha", "seed")
TRIALS = 143  # of HyperBand with R = 81 and eta = 3
TEST_IMAGES = 450
ORDERS = 20  # in which the networks come; the figures are means over them
STYLE = (
    "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.tick-y{text-anchor:end}.tick-x,.label"
    "{text-anchor:middle}.legend-kind{font-size:10px;fill:#777}.grid{stroke:#ddd}.axis{stroke:#333}"
)


class Search(NamedTuple):
    """A search in one order of the networks.

    spent: epochs until each result.  best: the accuracy of the best network so far.
    """

    spent: list[int]
    best: list[float]


def record() -> None:
    """Train the networks, and write the table."""
    space = {
        "rate": tune.loguniform(1e-5, 1),
        "units": tune.choice([4, 8, 16, 32]),
        "alpha": tune.loguniform(1e-5, 10),
        "seed": tune.randint(0, 1000),
        "steps": STEPS,
    }
    with tempfile.TemporaryDirectory(prefix="tune-") as folder, zray.init(num_cpus=2, log_to_driver=False):
        results = tune.Tuner(
            digits_trainable,
            param_space=space,
            tune_config=tune.TuneConfig(metric="accuracy", mode="max", num_samples=TRIALS, seed=1, reuse_actors=True),
            run_config=tune.RunConfig(name="table", storage_path=folder, verbose=1),
        ).fit()
        rows = [
            [*(result.config[key] for key in KEYS), *(round(row["accuracy"] * TEST_IMAGES) for row in result.rows())]
            for result in results
        ]
    with open(TABLE, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEYS, *range(1, STEPS + 1)])
        writer.writerows(rows)


def curves() -> list[list[float]]:
    """The accuracy of each network after each epoch."""
    with open(TABLE, newline="") as file:
        _, *rows = csv.reader(file)
    return [[int(cell) / TEST_IMAGES for cell in row[len(KEYS) :]] for row in rows]


def search(scheduler: TrialScheduler, table: list[list[float]], order: list[int]) -> Search:
    """Search the table in virtual time, eight trials at once."""
    searcher = BasicVariantGenerator(random_state=0)
    searcher.set_search_properties("score", "max", {"x": tune.uniform(0, 1)}, num_samples=len(order))
    scheduler.set_search_properties("score", "max")
    controller = Controller(Settings(metric="score", mode="max", num_samples=len(order)), searcher, scheduler)
    run = VirtualRun(controller, lambda trial: [Point({"score": score}, 1.0) for score in table[order[trial.index]]], 8)
    run.run()
    scores = [result.result["score"] for result in run.results]
    return Search(list(range(1, len(scores) + 1)), np.maximum.accumulate(scores).tolist())


def searches(name: str) -> list[Search]:
    """Searches with one scheduler, in several orders of the networks."""
    table, rng = curves(), np.random.default_rng(5)
    makers = {
        "HyperBand": lambda: HyperBandScheduler(max_t=STEPS),
        "ASHA": lambda: ASHAScheduler(max_t=STEPS, reduction_factor=3),
        "random search": FIFOScheduler,
    }
    return [search(makers[name](), table, rng.permutation(len(table)).tolist()) for _ in range(ORDERS)]


def mean_best(found: list[Search], spent: int) -> float:
    """The mean of the best accuracies after so many epochs."""
    return statistics.mean(each.best[min(spent, len(each.best)) - 1] for each in found)


def recorded() -> tuple[float, float, float]:
    """HyperBand on the table.

    Returns:
        (its share of the cost of the whole table, its best accuracy, that of random search after the same epochs).
    """
    ours, others = searches("HyperBand"), searches("random search")
    cost = round(statistics.mean(len(each.best) for each in ours))
    return cost / (TRIALS * STEPS), mean_best(ours, cost), mean_best(others, cost)


def picture_of_searches() -> Plot:
    """The best accuracy so far, against the epochs that were trained."""
    best = max(map(max, curves()))
    series = []
    for name in ("HyperBand", "ASHA", "random search"):
        found = searches(name)
        last = round(statistics.mean(len(each.best) for each in found))
        places = sorted({round(float(place)) for place in np.geomspace(STEPS, last, 40)})
        series.append(Series(name, SIMULATED, [(place, best - mean_best(found, place)) for place in places]))
    title = f"Recorded networks for digits, mean of {ORDERS} orders"
    return Plot(title, "epochs trained, of all networks", "accuracy behind the best", series, log_x=True)


def picture_of_toy() -> Plot:
    """Q of the better worker, with and without exploits."""
    series = []
    for name, exploits in (("PBT", True), ("grid search", False)):
        rows = toy_curves(exploits=exploits)
        best = np.maximum.accumulate([max(step) for step in zip(*rows, strict=False)])
        series.append(Series(name, MEASURED, [(step, float(best[step - 1])) for step in range(8, len(best) + 1, 8)]))
    return Plot("PBT's toy: two workers with h = (1, 0) and (0, 1)", "steps", "best Q", series)


def main() -> None:
    """argv: record or draw."""
    if sys.argv[1] == "record":
        record()
        return
    PICTURES.mkdir(exist_ok=True)
    with zray.init(num_cpus=2, log_to_driver=False):
        for name, plot in (("hyperband", picture_of_searches()), ("pbt", picture_of_toy())):
            head, tag, rest = draw(plot).partition(">")
            (PICTURES / f"{name}.svg").write_text(f"{head}{tag}<style>{STYLE}</style>{rest}\n")


if __name__ == "__main__":
    main()
