"""`zray cancel`: end tasks of programs, on all nodes.  On a machine of the session, as its user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from .tables import counted

# So many characters of an id name a task; fewer could be the name of a function.
ID_CHARACTERS_MIN = 6
NO_SESSION = "No session runs on this machine: run the command on a machine of the cluster."


@click.command()
@click.argument("target", metavar="TASK")
@click.option("--force", is_flag=True, help="End the workers of tasks that run, as for C code that does not return.")
@click.option("--no-recursive", is_flag=True, help="Let the children of tasks that run go on.")
@click.option("--session", metavar="NAME", help="Session, where several run on this machine.")
def cancel(target: str, force: bool, no_recursive: bool, session: str | None) -> None:
    """Cancel TASK: the id of a task or how that begins, the name of a function, or the id of a job.

    `zray.util.state.list_tasks()` shows them.  All tasks of the function or of the job are cancelled, on all nodes, and
    calls of actors too.  The exit code is 1 if there is no such task.
    """
    import zray

    address = address_of(session)
    zray.init(address=address, log_to_driver=False, record="")
    try:
        tasks, calls = cancel_all(target, force, not no_recursive)
    finally:
        zray.shutdown()
    counts = [counted(tasks, "task")] if tasks or not calls else []
    counts += [counted(calls, "call")] if calls else []
    click.echo(f"Cancelled {' and '.join(counts)}.")


def address_of(name: str | None) -> str:
    """Return the address of the session with this name, or of the only one.

    Raises:
        ClickException: there is no such session, or there are several.
    """
    from zray.host.client import control

    from .stop import named

    # A program outside of its cluster has a node of its own, which others cannot join.
    found = [(its, info) for its, info in control.sessions() if not (info.cluster and info.is_embedded)]
    if name is not None:
        names = named({its.name: info.called for its, info in found}, name)
        found = [(its, info) for its, info in found if its.name in names]
        if not found:
            raise click.ClickException(f"No session on this machine has the name {name!r}; `zray status` shows them.")
    if not found:
        raise click.ClickException(NO_SESSION)
    if len({info.cluster or its.name for its, info in found}) > 1:
        names = [its.name for its, _ in found]
        raise click.ClickException(
            f"Several sessions run on this machine; name one with --session: {', '.join(names)}."
        )
    return str(found[0][0].address)


def cancel_all(target: str, force: bool, is_recursive: bool) -> tuple[int, int]:
    """Cancel all tasks that the target names.  Returns how many tasks and how many calls these are.

    Raises:
        ClickException: there is none, or the target is the beginning of several ids.
    """
    from zray.api.sessions import require_runtime
    from zray.util.state import list_tasks
    from zray.wire.listing import TASKS_MAX
    from zray.wire.tasks import CancelTask

    runtime = require_runtime()
    seen: dict[str, bool] = {}  # by id: whether the row is a call
    while True:
        rows = list_tasks(limit=TASKS_MAX)
        found = [row for row in chosen(rows, target) if row.task_id not in seen]
        for row in found:
            is_call = row.actor_id is not None
            seen[row.task_id] = is_call
            task_id, by_force = bytes.fromhex(row.task_id), force and not is_call
            runtime.say(CancelTask(task_id, by_force, is_recursive))
        # The list is cut where there are many, and the node reads the next question after what was said here.
        if not found:
            break
    if not seen:
        raise click.ClickException(why_none(rows, target))
    if force and all(seen.values()):
        click.echo("--force is for tasks: calls of actors were cancelled without it.", err=True)
    calls = sum(seen.values())
    return len(seen) - calls, calls


def chosen(rows: list[Any], target: str) -> Iterator[Any]:
    """Return the rows of unfinished tasks with this id, name or job.

    Raises:
        ClickException: several tasks have ids that begin so.
    """
    from zray.wire.listing import TASK_ENDED

    rows = [row for row in rows if row.state not in TASK_ENDED]
    exact = [row for row in rows if target in (row.task_id, row.name, row.job_id)]
    if exact or len(target) < ID_CHARACTERS_MIN:
        return iter(exact)
    begun = [row for row in rows if row.task_id.startswith(target)]
    if len(begun) > 1:
        raise click.ClickException(f"{len(begun):,} tasks have ids that begin with {target}: give more of the id.")
    return iter(begun)


def why_none(rows: list[Any], target: str) -> str:
    """Return the reason for which nothing was cancelled."""
    from zray.wire.listing import TASK_ENDED

    ended = [row for row in rows if row.state in TASK_ENDED and target in (row.task_id, row.name, row.job_id)]
    if ended:
        return f"Nothing to cancel: what {target[:80]!r} names has ended."
    return f"Nothing to cancel: no unfinished task has this id, function or job: {target[:80]!r}."
