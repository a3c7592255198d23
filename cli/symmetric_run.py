"""`zray symmetric-run`: one line on all machines of a cluster, as under Ray; the one with the address is the head."""

from __future__ import annotations

from typing import Any

import click

from .launch import together


@click.command("symmetric-run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--address", required=True, metavar="HOST:PORT", help="The head: its machine runs COMMAND.")
@together.options(
    click.option(
        "--min-nodes",
        "--wait-for-nnodes",
        type=click.IntRange(1),
        metavar="N",
        default=1,
        help="The program starts with N nodes, the head included. [1]",
    )
)
def symmetric_run(address: str, command: tuple[str, ...], **settings: Any) -> None:
    """Run COMMAND on a cluster of machines that all get this same line, as by a parallel ssh.

    The machine that has HOST is the head, and runs COMMAND, which joins by `zray.init()`; the others are nodes until it
    ends.  They meet by a file in a folder that all machines see: --meet.  The exit code on the head is that of COMMAND.
    """
    from .launch.allocation import of_address

    nodes = settings["min_nodes"]
    raise SystemExit(together.run(lambda env: of_address(address, nodes, together.own_addresses()), command, settings))
