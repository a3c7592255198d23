"""`zray microbenchmark`: the figures of this machine, beside what they must reach."""

from __future__ import annotations

import click


@click.command()
@click.option("--json", metavar="PATH", help="Write the figures as JSON; - is standard output.")
@click.option("--only", multiple=True, metavar="NAME", help="A group or a workload; may be repeated.")
@click.option("--quick", is_flag=True, help="Few repeats, and not the slowest figures.")
def microbenchmark(json: str | None, only: tuple[str, ...], quick: bool) -> None:
    """Measure zray beside the floors of this machine."""
    from zray.benchmarks.microbenchmark import main

    try:
        main(json, list(only), quick)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
