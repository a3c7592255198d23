"""`zray whatif`: a recorded run on other machines, in the simulator."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

import click

from .tables import literal, show
from .timeline import run_of

if TYPE_CHECKING:
    from zray.util.whatif.prediction import Model, Prediction, Shape

POLICIES = ("bottom_up", "central", "random", "no_locality")
RATE, DELAY = "10Gbit", "100us"  # of a network that nothing is known of
FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
ROWS_MAX = 100
PATH_ROWS = 12
STEPS = {
    "run": "{}",
    "program": "code of the program",
    "queue": "{}: waits to begin",
    "result": "{}: its result is on the way",
    "blocked": "{}: waits for something else",
}


class Numbers(click.ParamType):
    """Numbers with commas between them."""

    name = "numbers"

    def __init__(self, kind: type, most: int) -> None:
        self.kind, self.most = kind, most

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        try:
            found = [self.kind(part) for part in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is no list of numbers as 1,2,4.")
        if not all(0 <= number <= self.most for number in found) or (self.kind is int and 0 in found):
            self.fail(f"{value!r} has a number that is not between {int(self.kind is int)} and {self.most:,}.")
        return list(dict.fromkeys(found))


def bytes_per_second(text: str) -> float:
    """The bytes/s of a line, as 1Gbit, 10Gbps or 100MB.

    Raises:
        click.BadParameter: the text is no bandwidth.
    """
    found = re.fullmatch(r"([\d.]+)\s*([kmgt]?)(bits?|b|bps|bytes?)(/s)?", text.strip(), re.IGNORECASE)
    try:
        if found is None:
            raise ValueError
        number = float(found[1]) * FACTORS[found[2].lower()]
    except ValueError:
        number = 0.0
    if number <= 0 or found is None:
        raise click.BadParameter(f"{text!r} is no bandwidth: write it as 1Gbit, 10Gbit or 100MB.")
    is_bytes = found[3] == "B" or found[3].lower().startswith("byte")
    return number if is_bytes else number / 8


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([\d.]+)\s*(us|ms|s)", text.strip())
    try:
        if found is None:
            raise ValueError
        return float(found[1]) * SECONDS[found[2]]
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time: write it as 100us, 0.5ms or 1s.") from None


@click.command()
@click.argument("record", metavar="RECORD")
@click.option("--nodes", type=Numbers(int, 256), metavar="N,...", help="Numbers of nodes.  Default: as recorded.")
@click.option("--cpus", type=Numbers(float, 4_096), metavar="N,...", help="CPUs of each node.  Default: as recorded.")
@click.option("--gpus", type=Numbers(float, 64), metavar="N,...", help="GPUs of each node.  Default: as recorded.")
@click.option(
    "--bandwidth", default=RATE, show_default=True, metavar="RATE,...", help="Of a node's line: 1Gbit, 100MB."
)
@click.option("--latency", default=DELAY, show_default=True, metavar="TIME", help="From node to node.")
@click.option("--policy", type=click.Choice(POLICIES), default=POLICIES[0], show_default=True, help="Of placement.")
@click.option("--json", "as_json", is_flag=True, help="Print predictions as JSON.")
def whatif(
    record: str,
    nodes: list[int] | None,
    cpus: list[float] | None,
    gpus: list[float] | None,
    bandwidth: str,
    latency: str,
    policy: str,
    as_json: bool,
) -> None:
    """Predict a recorded run on other machines: how long it takes, what it waits for, and which resource to buy.

    RECORD is a file that ZRAY_RECORD=FILE or zray.init(record=FILE) has made.  The schedulers of zray place its tasks
    on the simulated nodes.  Without options, the recorded machine is predicted: a check of the prediction.
    """
    from zray.util.whatif.prediction import Model, Shape

    rates = [bytes_per_second(part) for part in bandwidth.split(",")]
    delay = _seconds(latency)
    columns = [nodes or [None], cpus or [None], gpus or [None], rates]
    shapes = [Shape(*row, latency=delay, policy=policy) for row in itertools.product(*columns)]
    if len(shapes) > ROWS_MAX:
        raise click.UsageError(f"{len(shapes):,} combinations are too many: give {ROWS_MAX} at most.")
    try:
        model = Model(run_of(record))
        is_check = not (nodes or cpus or gpus) and (bandwidth, latency, policy) == (RATE, DELAY, POLICIES[0])
        rows, refusals = _predictions(model, [] if is_check else shapes)
        advice = model.advice(rows[-1] if rows else model.calibration)
    except ValueError as error:
        raise click.ClickException(f"{record}: {error}") from None
    if as_json:
        click.echo(json.dumps(_as_json(model, rows, refusals, advice), indent=2))
    else:
        _print(model, rows, refusals, advice)


def _predictions(model: Model, shapes: list[Shape]) -> tuple[list[Prediction], list[str]]:
    """Return predictions, and why the program does not run on some of the machines.

    Raises:
        ValueError: it runs on none.
    """
    rows, refusals = [], []
    for shape in shapes:
        try:
            rows.append(model.predict(shape))
        except ValueError as error:
            refusals.append(str(error))
    if refusals and not rows:
        raise ValueError(refusals[-1])
    return rows, refusals


def _as_json(model: Model, rows: list[Prediction], refusals: list[str], advice: str) -> dict[str, Any]:
    from zray.util.whatif.prediction import facts_of

    shown = (rows or [model.calibration])[-1]
    return {
        "recorded": facts_of(model),
        "calibration": _row(model, model.calibration),
        "predictions": [_row(model, each) for each in rows],
        "path": [list(row) for row in shown.path.rows()],
        "advice": advice,
        "notes": [*model.notes(), *refusals],
    }


def _row(model: Model, found: Prediction) -> dict[str, Any]:
    shape: Shape = found.shape
    return {
        "nodes": found.nodes,
        "cpus": found.cpus,
        "gpus": shape.gpus,
        "bandwidth": shape.bandwidth,
        "latency": shape.latency,
        "policy": shape.policy,
        "makespan": found.makespan,
        "speedup": model.calibration.makespan / max(found.makespan, 1e-9),
        "utilisation": found.utilisation,
        "bytes_moved": found.bytes_moved,
    }


def _print(model: Model, rows: list[Prediction], refusals: list[str], advice: str) -> None:
    """Print the check, the table, the critical path of the last row, and the advice."""
    from rich.table import Table

    from zray.util.report.findings import bytes_of, text_of

    recorded, check = model.recorded.end, model.calibration
    error = 100 * (check.makespan / max(recorded, 1e-9) - 1)
    click.echo(
        f"The run took {text_of(recorded)} on {_machine(model, check)}.  Predicted for the same: "
        f"{text_of(check.makespan)}, {error:+.1f} %."
    )
    for note in [*model.notes(), *refusals]:
        click.echo(f"Note: {note}")
    has_gpus = any(row.shape.gpus is not None for row in rows)
    rates = len({row.shape.bandwidth for row in rows}) > 1
    columns = ["nodes", "CPUs in all", *["GPUs of each"] * has_gpus, *["line"] * rates]
    table = Table(*columns, "makespan", "speed-up", "CPUs busy", "moved", box=None)
    for name, row in [("recorded", check), *((str(row.nodes), row) for row in rows)]:
        gpus = ["" if row.shape.gpus is None else f"{row.shape.gpus:g}"] * has_gpus
        line = [f"{8e-9 * row.shape.bandwidth:g} Gbit"] * rates
        speedup = f"{check.makespan / max(row.makespan, 1e-9):.2f}"
        busy = f"{100 * row.utilisation:.0f} %"
        texts = [name, f"{row.cpus:g}", *gpus, *line, text_of(row.makespan), speedup, busy]
        table.add_row(*texts, bytes_of(row.bytes_moved))
    show(table)
    last = (rows or [check])[-1]
    click.echo(f"\nCritical path on {_machine(model, last)}:")
    path = Table(box=None, show_header=False)
    for kind, name, count, seconds in last.path.rows()[:PATH_ROWS]:
        share = f"{100 * seconds / max(last.makespan, 1e-9):.0f} %"
        path.add_row(
            share,
            text_of(seconds),
            literal(STEPS[kind].format(name or "the program")),
            f"{count:,} times" * (count > 1),
        )
    show(path)
    click.echo(advice)


def _machine(model: Model, found: Prediction) -> str:
    nodes = "1 node" if found.nodes == 1 else f"{found.nodes} nodes"
    return f"{nodes} with {found.cpus:g} CPU{'s' * (found.cpus != 1)}{' in all' * (found.nodes > 1)}"
