"""`zray reproduce`: the paper's system figures, measured here, in one report."""

from __future__ import annotations

import click


@click.command()
@click.argument("figures", nargs=-1, metavar="[FIGURE ...]")
@click.option("--quick", is_flag=True, help="Few repeats and small sizes: some minutes.")
@click.option("--out", metavar="DIR", default="zray-report", show_default=True, help="Where the report goes.")
def reproduce(figures: tuple[str, ...], quick: bool, out: str) -> None:
    """Measure the paper's figures: E1 ... E11 of the system, E12 ... E18 of its applications.  The figure "cluster"
    holds the promises for clusters.  All are measured when none is named.  Writes a report.

    Each row says how it was had: measured on this machine, on emulated nodes, or in the simulator.
    """
    from zray.benchmarks.figures.reproduce import in_lines, main

    try:
        page, found = main(list(figures), out, quick)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    click.echo("\n".join([*in_lines(found), str(page)]))
