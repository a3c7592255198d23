"""`zray run`: a program of the user's, in the Python of this command."""

from __future__ import annotations

import os
import shutil
import sys

import click


def command_of(program: tuple[str, ...]) -> list[str]:
    """What to execute: a file or the arguments of Python by this Python, and any other name as a command.

    Raises:
        ClickException: there is neither a file nor a command of that name.
    """
    name = program[0]
    command = None if name.startswith("-") or name.endswith(".py") else shutil.which(name)
    if command is not None:
        return [command, *program[1:]]
    if not name.startswith("-") and not os.path.exists(name):
        raise click.ClickException(f"There is neither a file nor a command named {name!r}.")
    return [sys.executable, *program]


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--as-ray", is_flag=True, help="`import ray` means zray, also in workers and child processes.")
@click.argument("program", metavar="PROGRAM [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def run(as_ray: bool, program: tuple[str, ...]) -> None:
    """Run a program.  PROGRAM is a Python file, `-m MODULE`, or a command such as pytest."""
    from zray.ray_names.ray_imports import path_of_children

    command = command_of(program)
    if as_ray:
        os.environ["PYTHONPATH"] = path_of_children(os.environ.get("PYTHONPATH", ""))
    os.execv(command[0], command)
