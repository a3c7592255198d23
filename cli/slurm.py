"""`zray slurm`: a program on a cluster of the machines of a step of Slurm."""

from __future__ import annotations

from typing import Any

import click

from .launch import together


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@together.options()
def slurm(command: tuple[str, ...], **settings: Any) -> None:
    """Run COMMAND on a cluster of the machines of a step: `srun --ntasks-per-node 1 zray slurm -- python program.py`.

    The first task is the head and runs the program, which joins by `zray.init()`; the others are nodes until it ends.
    The exit code of the first task is the program's.
    """
    from .launch.allocation import of_slurm

    raise SystemExit(together.run(of_slurm, command, settings))
