"""`zray timeline`: what ran in a session, where and when, as a file for Perfetto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .looks import looked_at, looks_at

if TYPE_CHECKING:
    from zray.api.run_records import RunRecord


@click.command()
@click.argument("file", default="timeline.json.gz", metavar="[FILE]")
@click.option("--record", metavar="RECORD", help="Record of a run, as ZRAY_RECORD makes it, in place of a session.")
@looks_at
def timeline(file: str, record: str | None, address: str | None) -> None:
    """Write what ran in a session to FILE, for https://ui.perfetto.dev.  Default: timeline.json.gz.

    A name that ends in .gz has the file compressed; Perfetto opens both.
    """
    import zray
    from zray.api.chrome_trace import trace_of
    from zray.api.run_records import is_record
    from zray.api.timeline import write_trace

    if is_record(file):
        raise click.UsageError(f"{file} is a record: `zray timeline --record {file}` makes a trace of it.")
    if record is not None:
        run = run_of(record)
        trace = trace_of(run.rings, run.left_out)
    else:
        with looked_at(address):
            trace = zray.timeline() or []
    try:
        write_trace(trace, file)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    click.echo(f"{file}: open it at https://ui.perfetto.dev, which reads it in the browser.")


def run_of(record: str) -> RunRecord:
    """Return the run in a record.

    Raises:
        click.ClickException: the file cannot be read, or is no record.
    """
    from zray.api.run_records import read_run

    try:
        return read_run(record)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{record} cannot be read: {error.strerror}.") from None
