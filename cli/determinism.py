"""`zray determinism`: a program runs several times, and its tasks are compared."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from .tables import literal, show

if TYPE_CHECKING:
    from zray.testing.determinism.runs import Verdict

WORKERS_MAX, RUNS_MAX, KILLS_MAX = 1_000, 20, 1_000


class Numbers(click.ParamType):
    """Numbers with commas between them."""

    name = "N,N..."

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of whole numbers, as 1,2,4.", parameter, context)
        if not all(1 <= number <= WORKERS_MAX for number in numbers) or len(numbers) > RUNS_MAX:
            self.fail(f"{value!r}: at most {RUNS_MAX} numbers from 1 to {WORKERS_MAX:,}.", parameter, context)
        return numbers


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--workers", type=Numbers(), default="1,2,4", show_default=True, metavar="N,N...", help="CPUs of each run."
)
@click.option(
    "--kills",
    type=click.IntRange(0, KILLS_MAX),
    default=3,
    show_default=True,
    metavar="N",
    help="Deaths of workers in a further run with 2 CPUs; 0: no such run.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the choice of deaths.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=600, show_default=True, metavar="S", help="Seconds of a run."
)
@click.option("--hash-seeds", is_flag=True, help="Each run has another order of sets of texts.")
@click.option("--ignore-output", is_flag=True, help="Compare the tasks alone, not what the program prints.")
@click.option("--as-ray", is_flag=True, help="`import ray` means zray in the program.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.argument("program", metavar="PROGRAM [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def determinism(program: tuple[str, ...], as_ray: bool, as_json: bool, ignore_output: bool, **options: Any) -> None:
    """Run a program with 1, 2 and 4 workers and with deaths of workers, and name the first task whose value differs.

    PROGRAM is a Python file.  The exit status is 0 if all runs are the same, and 1 if one differs.
    """
    from zray.ray_names.ray_imports import path_of_children
    from zray.testing.determinism.records import TooManyTasks
    from zray.testing.determinism.runs import Plan, Refused, run_all

    if not os.path.isfile(program[0]):
        raise click.UsageError(f"There is no file named {program[0]!r}.")
    if len(options["workers"]) + bool(options["kills"]) < 2:
        raise click.UsageError("One run alone compares with nothing: name several --workers, or --kills.")
    if as_ray:
        os.environ["PYTHONPATH"] = path_of_children(os.environ.get("PYTHONPATH", ""))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = Plan(program, ignores_output=ignore_output, **options)
    try:
        verdict = run_all(plan, lambda text: click.echo(text, err=True))
    except (Refused, TooManyTasks) as error:
        refusal = click.ClickException(str(error))
        refusal.exit_code = 2
        raise refusal from None
    if as_json:
        click.echo(json.dumps({**dataclasses.asdict(verdict), "is_same": verdict.is_same}, indent=2))
    else:
        _tell(verdict)
    sys.exit(0 if verdict.is_same else 1)


def _tell(verdict: Verdict) -> None:
    from rich.table import Table

    from zray.exceptions.printable import escaped
    from zray.testing.determinism.words import words_of

    table = Table("run", "workers", "kills", "tasks", "time", "result")
    for run in verdict.runs:
        kills = f"{len(run.happened)}" if run.kills else "-"
        cells = (run.number, run.workers, kills, f"{run.tasks:,}", f"{run.seconds:.1f} s", run.result)
        table.add_row(*map(literal, map(str, cells)))
    show(table)
    for run in verdict.runs:
        for each in run.happened:
            click.echo(escaped(f"killed in run {run.number}: the worker of {each}"))
    for note in verdict.notes:
        click.echo(escaped(f"Note: {note}"))
    for line in words_of(verdict):
        click.echo(escaped(line))
