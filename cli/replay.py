"""`zray replay`: a failed task, or a failed call of an actor, runs again in this process."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from .tables import literal, show

if TYPE_CHECKING:
    from zray.api.replays import Ending, Replay

ID_CHARACTERS_MIN = 4
SHOWN_MAX = 20


@click.command()
@click.argument("task", required=False, metavar="[TASK]")
@click.option("--pdb", "with_pdb", is_flag=True, help="Stop at the error, with pdb.")
@click.option("--trust", is_flag=True, help="Run a file that others may have written.")
def replay(task: str | None, with_pdb: bool, trust: bool) -> None:
    """Run a failed task again in this process, and say whether it ends the same.  Without TASK: list failed tasks.

    TASK is the id of a task or its beginning, or the path of a file; or the name of a function, or of a method as
    Counter.add, of whose failures the newest is taken.  The exit status is 0 if the task returns a value now, else 1.
    """
    if task is None:
        _list()
        return
    found = _find(task, trust)
    try:
        found.refuse_absent()
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    facts = found.facts
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts.time))
    _say(f"{facts.name}, {found.noun} {facts.task_id}, failed at {when} on {facts.host}: {_error(found)}")
    _say(f"File: {os.path.abspath(found.path)}")
    if facts.may_be_retried:
        click.echo("Note: this attempt asked for a retry, which may have succeeded.")
    for line in found.differences():
        _say(f"Note: {line}.")
    sys.stdout.flush()
    with found.surroundings():
        ending = found.run()
        for line in found.notes:
            _say(f"Note: {line}.")
        _tell(found, ending)
        if with_pdb:
            _debug(ending)
    sys.exit(0 if ending.error is None else 1)


def _find(task: str, trust: bool) -> Replay:
    """The file that the user names."""
    from zray.api.replays import Replay, replays

    if os.sep in task or task.endswith(".zray") or os.path.isfile(task):
        try:
            return Replay(task, trusted=trust)
        except ValueError as error:
            raise click.ClickException(str(error)) from None
    if trust:
        raise click.UsageError("--trust is for a file that is named by its path.")
    by_id: dict[str, str] = {}  # task -> its file
    for path in reversed(replays()):
        try:
            found = Replay(path)
        except (OSError, ValueError):
            continue
        found.close()
        facts = found.facts
        if task in (facts.name, facts.function, facts.function.rpartition(".")[2]):
            by_id = {facts.task_id: path}
        elif len(task) >= ID_CHARACTERS_MIN and (facts.task_id.startswith(task) or task.startswith(facts.task_id)):
            by_id[facts.task_id] = path
    if len(by_id) > 1:
        raise click.ClickException(f"Several failed tasks have an id that begins with {task}: {', '.join(by_id)}.")
    for path in by_id.values():
        return Replay(path)
    raise click.ClickException(
        f"No failed task {task!r} has left a file on this machine; `zray replay` lists those that have.  Tasks that "
        "were cancelled, or whose process died, leave none, nor do tasks with ZRAY_REPLAY=0.  Files of tasks on other "
        "machines lie there."
    )


def _error(found: Replay) -> str:
    facts = found.facts
    text = facts.error_text.partition("\n")[0][:200]
    name = facts.error_type.removeprefix("builtins.")
    return f"{name}: {text}" if text else name


def _say(text: str, *, is_error: bool = False) -> None:
    """Print a text that may have any characters."""
    from zray.exceptions.printable import escaped

    click.echo(escaped(text), err=is_error)


def _tell(found: Replay, ending: Ending) -> None:
    """Print the traceback, and the verdict."""
    before = f"It failed before: {_error(found)}"
    if ending.error is None:
        _say(f"The {found.noun} returns a value now: {ending.value}\n{before}")
        return
    from zray.store.errors import traceback_text

    _say(traceback_text(ending.error, 0).rstrip(), is_error=True)
    if ending.is_same:
        click.echo(f"The {found.noun} ends the same.")
    elif not ending.has_begun:
        _say(f"The {found.noun} cannot run here: {ending.error_text}")
    else:
        name = ending.error_type.removeprefix("builtins.")
        _say(f"The {found.noun} ends with another error: {name}: {ending.error_text}\n{before}")


def _debug(ending: Ending) -> None:
    """Let the user look at the frames of the error, of zray's own those between the user's."""
    import pdb

    from zray.store.folding import OWN_FOLDER

    trace = ending.error.__traceback__ if ending.error is not None else None
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
        trace = trace.tb_next
    if trace is None:
        click.echo("pdb has nothing to show: no code of the task has failed.")
        return
    pdb.post_mortem(trace)


def _list() -> None:
    from rich.table import Table

    from zray.api.replays import Replay, replays

    paths = replays()
    if not paths:
        click.echo("No failed task has left a file on this machine.")
        return
    table = Table("task", "name", "failed", "error")
    for path in paths[:SHOWN_MAX]:
        try:
            found = Replay(path)
        except (OSError, ValueError):
            continue
        facts = found.facts
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts.time))
        table.add_row(*map(literal, (facts.task_id, facts.name, when, _error(found))))
        found.close()
    show(table)
    if len(paths) > SHOWN_MAX:
        click.echo(f"{len(paths) - SHOWN_MAX} older ones are not shown.")
