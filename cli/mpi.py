"""`zray mpi`: a program on a cluster of the machines of a run of an MPI; no library of the MPI is needed."""

from __future__ import annotations

from typing import Any

import click

from .launch import together


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@together.options()
def mpi(command: tuple[str, ...], **settings: Any) -> None:
    """Run COMMAND on a cluster of the machines of a run: `mpirun --map-by node zray mpi -- python program.py`.

    Rank 0 is the head and runs the program, which joins by `zray.init()`; the others are nodes until it ends.  OpenMPI
    and MPICH are known by their variables.  The exit code of rank 0 is the program's.
    """
    from .launch.allocation import of_mpi

    raise SystemExit(together.run(of_mpi, command, settings))
