"""`zray tune`: experiments of zray.tune, listed, explained, drawn, run from a file, and simulated."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from zray.exceptions.printable import escaped, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zray.tune.recorded import Recorded

# Characters of the reasons in a narrow table.
WHY_MIN = 24
# A plot page with more trials is slow to scroll; the best ones are drawn.
DRAWN_TRIALS_MAX = 500
# Parameters of commands that are files and folders.
PATHS = frozenset(("file", "restore", "storage"))


class TuneGroup(click.Group):
    """Errors of an experiment or of its options end a command with one sentence."""

    def invoke(self, context: click.Context) -> Any:
        from zray.tune import TuneError
        from zray.tune.unknown import UnknownArgumentError
        from zray.tune.variants import RecursiveDependencyError

        try:
            return super().invoke(context)
        except (TuneError, ValueError, ImportError, RecursiveDependencyError, UnknownArgumentError) as error:
            raise click.ClickException(escaped(str(error))) from error


@click.group(cls=TuneGroup)
def tune() -> None:
    """Look at experiments of zray.tune, and run them.

    EXPERIMENT is a folder, or its name in the folder of experiments (TUNE_RESULT_DIR, or ~/ray_results).
    """


METRIC = click.option("--metric", metavar="KEY", help="Metric; by default that of the experiment.")
MODE = click.option("--mode", type=click.Choice(["min", "max"]), help="Direction; by default that of the experiment.")


def read(experiment: str, metric: str | None = None, mode: str | None = None) -> Recorded:
    """Return the experiment; unreadable parts are reported on standard error."""
    import warnings

    from zray.tune.recorded import folder_of, has_state, read_experiment

    with warnings.catch_warnings(record=True) as caught, modules_here(has_state(folder_of(experiment))):
        warnings.simplefilter("always")
        found = read_experiment(experiment, metric, mode)
    for note in [found.note, *(str(warning.message) for warning in caught)]:
        if note:
            click.echo(printable(note), err=True)
    return found


@contextlib.contextmanager
def modules_here(is_needed: bool) -> Iterator[None]:
    """Let a pickled state find the modules of its program in the working directory.

    They come last, and only meanwhile: no file beside results takes the place of a module of Python.
    """
    import os

    here = os.getcwd()
    if not is_needed or here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


@tune.command("ls")
@click.argument("experiment")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", help="How to print it.")
@click.option("--sort", metavar="KEY", help="Sort by a column; by default the best trial is the first one.")
@click.option("--descending", is_flag=True, help="Sort from the largest to the smallest value.")
@click.option("--limit", type=click.IntRange(0), default=0, metavar="N", help="Show N trials; 0: all.")
@click.option("--columns", metavar="A,B", help="Show these columns alone; all: each one.")
def list_trials(
    experiment: str, form: str, sort: str | None, descending: bool, limit: int, columns: str | None
) -> None:
    """Show the trials of EXPERIMENT: states, parameters, last results, and what waiting trials wait for."""
    from zray.tune.listing import listed, metric_columns, parameter_columns, usual_columns

    found = read(experiment)
    names = [name.strip() for name in columns.split(",")] if columns and columns != "all" else None
    rows = listed(found, sort=sort, descending=descending, limit=limit, columns=names)
    if form == "json":
        from zray.tune.records.files import plain, without_nan

        click.echo(json.dumps(without_nan(plain(rows)), indent=2))
        return
    headings = list(dict.fromkeys(name for row in rows for name in row))
    if form == "csv":
        import csv

        from zray.tune.numbers import is_beyond_float, shown

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([escaped(heading) for heading in headings])
        for row in rows:
            values = [row.get(heading, "") for heading in headings]
            values = [shown(value) if is_beyond_float(value) else value for value in values]
            writer.writerow([escaped(value) if isinstance(value, str) else value for value in values])
        return
    title = f"{found.path}: {len(rows)} of {found.total()} trials"
    how = found.interrupted()
    kept = headings if columns or sys.stdout.isatty() else usual_columns(found, headings)
    metrics, parameters = metric_columns(found, headings), parameter_columns(found)
    print_rows(title, kept, rows, is_picked=bool(columns), metrics=metrics, parameters=parameters)
    if len(kept) < len(headings):
        click.echo(f"{len(headings) - len(kept)} more columns: --columns all, or --format csv.")
    if how:
        click.echo(printable(f"The experiment is {how}."))


def fitting(
    headings: list[str],
    cells: dict[str, list[str]],
    width: int,
    metrics: Sequence[str] = (),
    parameters: Sequence[str] = (),
) -> list[str]:
    """Return the columns that fit into a terminal: the first ones, and the reasons, cut to fit.

    Args:
        cells: the texts of each column.
        width: characters of a line.
        metrics: columns for which the others, and the reasons, make room.
        parameters: columns that come before the others.
    """
    has_why, room = "why" in headings, width - 1
    kept: set[str] = set()
    reserved = WHY_MIN + 3 if has_why else 0
    before = [headings[0], *(name for name in (*metrics, "status") if metrics and name in headings)]
    for heading in before:
        needed = _width_of(heading, cells)
        if not kept or heading not in kept and needed <= room:
            kept.add(heading)
            room -= needed
    if metrics and room < reserved:
        has_why, reserved = False, 0
    room -= reserved
    for heading in dict.fromkeys((*parameters, *headings)):
        if heading == "why" or heading in kept or heading not in headings:
            continue
        room -= _width_of(heading, cells)
        if room < 0:
            break
        kept.add(heading)
    return [*(name for name in headings if name in kept), *(["why"] if has_why else [])]


def _width_of(heading: str, cells: dict[str, list[str]]) -> int:
    """The characters of a column and its border."""
    return 3 + max(map(len, (heading, *cells[heading])))


def short_names(names: list[str]) -> list[str]:
    """Return names of trials without their common beginning: the numbers stay."""
    import os

    start = os.path.commonprefix(names).rpartition("_")[0]
    return [name[len(start) + 1 :] for name in names] if len(names) > 1 and start else names


def print_rows(
    title: str,
    headings: list[str],
    rows: list[dict[str, Any]],
    *,
    is_picked: bool = False,
    metrics: Sequence[str] = (),
    parameters: Sequence[str] = (),
) -> None:
    """Print dicts as a table; on a terminal with the columns that fit.

    Args:
        metrics, parameters: columns that a narrow terminal shows before others.
        is_picked: the user has named the columns: all of them are shown.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from zray.tune.reporters.rows import cell

    from .tables import show

    cells = {heading: [cell(row.get(heading), 120) for row in rows] for heading in headings}
    width = Console().width
    if sys.stdout.isatty() and not is_picked and fitting(headings, cells, width) != headings:
        if "trial" in cells:
            cells["trial"] = short_names(cells["trial"])
        kept = fitting(headings, cells, width, metrics, parameters)
        left = width - 1 - sum(_width_of(each, cells) for each in kept if each != "why") - 3
        if "why" in kept:
            cells["why"] = [cell(text, max(WHY_MIN, left)) for text in cells["why"]]
        if len(kept) < len(headings):
            title = f"{title}  ({len(headings) - len(kept)} more columns: --columns all, --format csv)"
        headings = kept
    table = Table(title=Text(printable(title)), title_justify="left")
    for heading in headings:
        table.add_column(Text(cell(heading, 120)))
    texts = {heading: iter(cells[heading]) for heading in headings}
    for _ in rows:
        table.add_row(*(Text(next(texts[heading])) for heading in headings))
    show(table)


@tune.command()
@click.argument("experiment")
@click.argument("trial")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def why(experiment: str, trial: str, form: str) -> None:
    """Explain a TRIAL of EXPERIMENT: its state, what it waits for, and each decision with its reason.

    TRIAL is an id, a name, the number of a trial, or how its id begins or ends.
    """
    from zray.tune.listing import state_of
    from zray.tune.numbers import shown

    found = read(experiment)
    one = found.trial(trial)
    decisions = found.decisions(one.trial_id)
    state = state_of(found, one)
    if form == "json":
        facts = {"trial_id": one.trial_id, "name": str(one), "state": one.status, "why": state, "decisions": decisions}
        click.echo(json.dumps(facts, indent=2))
        return
    click.secho(printable(str(one)), bold=True)
    for name, value in one.parameters.items():
        click.echo(printable(f"  {name} = {shown(value)}"))
    click.echo(printable(state))
    if not decisions:
        after = ": it went on after each result" if one.iteration else ""
        click.echo(f"No decision with a reason was recorded{after}.")
    for record in decisions:
        iteration, action, reason = (str(record.get(key, "")) for key in ("iteration", "action", "reason"))
        click.echo(printable(f"  iteration {iteration:>4}  {action:<8}  {reason}"))


@tune.command()
@click.argument("experiment")
@click.option("--output", "-o", metavar="FILE", help="File to write; by default plots.html in the experiment's folder.")
@METRIC
@MODE
def plot(experiment: str, output: str | None, metric: str | None, mode: str | None) -> None:
    """Draw EXPERIMENT as one HTML file, without anything from the network.

    The page has the curves, parallel coordinates, the importances of the parameters as Optuna computes them, and a
    table.
    """
    import os

    from zray.tune.plots import page

    found = read(experiment, metric, mode)
    path = output or os.path.join(found.path, "plots.html")
    text = page(found, DRAWN_TRIALS_MAX)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    click.echo(printable(path))


@tune.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--scheduler", metavar="NAME", default="fifo", help="Trial scheduler, as asha or pbt.")
@click.option("--scheduler-config", metavar="JSON", default="{}", help="Options of the scheduler.")
@click.option("--num-cpus", type=int, metavar="N", help="CPUs of a session on this machine.")
@click.option("--num-gpus", type=int, metavar="N", help="GPUs of a session on this machine.")
@click.option("--address", metavar="HOST:PORT", help="Run on the cluster whose head is there.")
@click.option("--resume", is_flag=True, help="Go on with experiments of these names.")
@click.option("--verbose", type=click.IntRange(0, 3), default=1, metavar="0-3", help="How much is shown.")
def run(
    file: str,
    scheduler: str,
    scheduler_config: str,
    num_cpus: int | None,
    num_gpus: int | None,
    address: str | None,
    resume: bool,
    verbose: int,
) -> None:
    """Run the experiments of a YAML or JSON FILE: {name: {run: ..., stop: ..., config: ..., ...}}.

    `run` is a registered name, `module:function`, or `program.py:function` beside the file.  {"eval": "..."} and texts
    that begin with `lambda` are evaluated as Python: run files of your own alone.
    """
    from zray.tune import run_experiments
    from zray.tune.schedulers import create_scheduler
    from zray.tune.spec_file import check_metric, read_spec

    options = object_of("--scheduler-config", scheduler_config)
    experiments = read_spec(file)
    chosen = create_scheduler(scheduler, **options)
    check_metric(experiments, chosen, file)
    ray_args = {"num_cpus": num_cpus, "num_gpus": num_gpus, "address": address}
    with resumed_by("--resume"):
        run_experiments(
            experiments,
            scheduler=chosen,
            resume=resume,
            verbose=verbose,
            **{name: value for name, value in ray_args.items() if value is not None},
        )


@contextlib.contextmanager
def resumed_by(options: str) -> Iterator[None]:
    """Let an experiment that Ctrl-C ends name the options of the command that goes on with it."""
    from zray.tune.interrupts import command_to_resume, how_to_go_on

    token = how_to_go_on.set(lambda path: f"the same command and {options}")
    whole = command_to_resume.set(command_line(click.get_current_context(), "--resume"))
    try:
        yield
    finally:
        command_to_resume.reset(whole)
        how_to_go_on.reset(token)


def command_line(context: click.Context, flag: str) -> str:
    """Return the line of a command that runs, with a flag.  Paths are absolute: the folder may be another one then."""
    import os
    import shlex

    group = context.parent.command.name if context.parent is not None else ""
    words = ["zray", str(group), str(context.command.name)]
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        source = context.get_parameter_source(str(parameter.name))
        if source is not click.core.ParameterSource.COMMANDLINE or flag in parameter.opts:
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            text = os.path.abspath(each) if parameter.name in PATHS else str(each)
            if isinstance(parameter, click.Argument):
                words.append(text)
            elif getattr(parameter, "is_flag", False):
                words += [parameter.opts[0]] * bool(each)
            else:
                words += [parameter.opts[0], text]
    return shlex.join([*words, flag])


def object_of(option: str, text: str, example: str = '{"max_t": 100}') -> dict[str, Any]:
    """The dict in an option's JSON."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise click.UsageError(f"{option} is a JSON object, as {example}, not {text}.")
    return value


def key_values(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """Options as `max_t=100`; values are JSON, or else text."""
    found: dict[str, Any] = {}
    for each in given:
        name, separator, text = each.partition("=")
        if not separator or not name.isidentifier():
            raise click.BadParameter(f"{each!r} is not NAME=VALUE.")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def simulate_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of `simulate`."""
    for option in reversed(
        [
            click.option("--scheduler", metavar="NAME", help="Trial scheduler; by default that of the experiment."),
            click.option(
                "--option",
                "options",
                multiple=True,
                metavar="K=V",
                callback=key_values,
                help="Option of the scheduler.",
            ),
            click.option("--cpus", type=click.FloatRange(0), metavar="N", help="CPUs of the machine."),
            click.option("--gpus", type=click.FloatRange(0), metavar="N", help="GPUs of the machine."),
            click.option("--concurrent", type=click.IntRange(1), metavar="N", help="Trials at once."),
            click.option("--samples", type=click.IntRange(1), metavar="N", help="The first N trials alone."),
            click.option("--time-budget", type=click.FloatRange(0), metavar="S", help="End after S seconds."),
            METRIC,
            MODE,
            click.option(
                "--format", "form", type=click.Choice(["table", "json"]), default="table", help="How to print it."
            ),
        ]
    ):
        command = option(command)
    return command


@tune.command()
@click.argument("experiment")
@simulate_options
def simulate(
    experiment: str, metric: str | None, mode: str | None, form: str, time_budget: float | None, **given: Any
) -> None:
    """Run EXPERIMENT again in virtual time, under another scheduler, budget or machine.

    The recorded results and times of its trials are used; no trial is run.  A trial that was stopped early has a short
    curve: where the simulation goes beyond its end, the trial ends there, and is counted.
    """
    from zray.tune.dry_run import compared, facts_of, simulate

    if given["options"] and given["scheduler"] is None:
        raise click.UsageError("--option belongs to --scheduler: name the scheduler too.")
    found = read(experiment, metric, mode)
    facts = facts_of(found)
    outcome = simulate(found, time_budget_s=time_budget, facts=facts, **given)
    rows, notes = compared(found, facts, outcome)
    if form == "json":
        names = {"recorded": 0, "simulated": 1}
        sides = {side: {key: values[place] for key, values in rows.items()} for side, place in names.items()}
        click.echo(json.dumps({**sides, "beyond": outcome.beyond, "notes": notes}, indent=2))
        return
    shown = [{"": key, "recorded": values[0], "simulated": values[1]} for key, values in rows.items()]
    print_rows(found.path, ["", "recorded", "simulated"], shown)
    for note in notes:
        click.echo(printable(note))
