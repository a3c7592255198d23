"""`zray stack`: what the processes of this machine's sessions run, and where their threads stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from .tables import counted

if TYPE_CHECKING:
    from .processes import Process
    from .stacks import Thread


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Nodes too, and idle workers with their stacks.")
@click.option("--verbose", "-v", is_flag=True, help="All frames and threads, also those of zray.")
@click.option("--json", "as_json", is_flag=True, help="A list of processes, as JSON.")
def stack(ids: tuple[str, ...], everything: bool, verbose: bool, as_json: bool) -> None:
    """Show what workers of this machine run, and the Python stacks of their threads, the outermost frame first.

    ID is that of a task or an actor, its beginning, the name of a function or of an actor, or a pid.  Without any, all
    workers and actors are shown.  Processes on other machines are shown by the same command there.
    """
    from .processes import chosen, processes

    found = processes()
    shown = [*chosen(found, ids)] if ids else [each for each in found.processes if everything or each.kind == "worker"]
    idle = [] if ids or everything else [process for process in shown if process.is_idle]
    rows = [(process, *_threads(process)) for process in shown if process not in idle]
    if as_json:
        facts = [_facts(process, threads, problem) for process, threads, problem in rows]
        facts += [_facts(process, [], "") for process in idle]
        click.echo(json.dumps(facts, indent=2))
    else:
        for process, threads, problem in rows:
            click.echo(f"{title(process)}{f' {problem}' if problem else ''}")
            _print(threads, verbose)
        if idle:
            pids = ", ".join(str(process.pid) for process in idle)
            click.echo(f"{counted(len(idle), 'idle worker')}: pid {pids}")
        if not shown:
            click.echo("No worker runs on this machine.")
    for trouble in found.troubles:
        click.echo(trouble, err=True)


def _threads(process: Process) -> tuple[list[Thread], str]:
    """Return the threads of a process, or else why they cannot be read."""
    from .stacks import Unreadable, stacks

    try:
        return stacks(process.pid), ""
    except Unreadable as error:
        return [], str(error)


def title(process: Process) -> str:
    """The first line on a process."""
    text = f"{process.kind} {process.pid}"
    if process.actor:
        text = f"actor {process.actor} ({process.actor_id}), pid {process.pid}"
    elif process.hosted:
        text = f"worker {process.pid} of {counted(len(process.hosted), 'hosted actor')}"
    runs = [
        f"{run.name} ({run.task_id})" + (f" for {lasted(run.seconds)}" if run.seconds is not None else "")
        for run in process.runs
    ]
    if runs:
        return f"{text} runs {', '.join(runs)}"
    if process.kind != "worker":
        return f"{text} of session {process.session}"
    return f"{text}: {process.note}" if process.note else f"{text} is idle"


def lasted(seconds: float) -> str:
    """A time as text: "0.25 s", "62 s", "12 min 5 s"."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    return f"{seconds:.0f} s" if seconds < 600 else f"{int(seconds // 60):,} min {int(seconds % 60)} s"


def _print(threads: Sequence[Thread], verbose: bool) -> None:
    from zray.exceptions.printable import printable

    shown = [thread for thread in threads if verbose or not thread.is_own]
    for thread in shown:
        named = f" {printable(thread.name)}" if thread.name else ""
        click.echo("  main thread" if thread.is_main else f"  thread {thread.id}{named}")
        for line in lines_of(thread, verbose):
            click.echo(f"    {line}")
    if hidden := len(threads) - len(shown):
        click.echo(f"  {counted(hidden, 'thread')} of zray")


def lines_of(thread: Thread, verbose: bool) -> list[str]:
    """The frames of a thread as lines; frames of zray in a row are one line."""
    from zray.exceptions.printable import printable

    lines: list[str] = []
    folded = 0
    for frame in thread.frames:
        if frame.is_own and not verbose:
            folded += 1
            continue
        if folded:
            lines.append(f"... {counted(folded, 'frame')} of zray")
            folded = 0
        lines.append(printable(f"{frame.function}  {frame.file}:{frame.line}"))
    if folded:
        lines.append(f"... {counted(folded, 'frame')} of zray")
    return lines


def _facts(process: Process, threads: Sequence[Thread], problem: str) -> dict[str, Any]:
    return {
        "session": process.session,
        "node_id": process.node_id,
        "pid": process.pid,
        "kind": "actor" if process.actor else process.kind,
        "actor_id": process.actor_id or None,
        "actor": process.actor or None,
        "hosted_actors": process.hosted,
        "tasks": [{"task_id": run.task_id, "name": run.name, "seconds": run.seconds} for run in process.runs],
        "problem": problem or process.note,
        "threads": [
            {"id": thread.id, "name": thread.name, "is_main": thread.is_main, "frames": [*map(_frame, thread.frames)]}
            for thread in threads
        ],
    }


def _frame(frame: Any) -> dict[str, Any]:
    return {"function": frame.function, "file": frame.file, "line": frame.line, "is_of_zray": frame.is_own}
