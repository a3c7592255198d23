"""`zray report`: why a run took its time, as one page of HTML."""

from __future__ import annotations

import json

import click

from .looks import looked_at, looks_at
from .timeline import run_of


@click.command()
@click.argument("record", required=False, metavar="[RECORD]")
@click.option("--output", "-o", default="report.html", show_default=True, metavar="FILE", help="File to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the sums as JSON in place of a page.")
@looks_at
def report(record: str | None, output: str, as_json: bool, address: str | None) -> None:
    """Write why a run took its time to FILE: a page for a browser, which needs no network.

    RECORD is a file that ZRAY_RECORD=FILE or zray.init(record=FILE) has made.  Without it, the latest records of a
    session that runs are shown.
    """
    from zray.api.run_records import is_record, present_run
    from zray.util.report.content import content_of
    from zray.util.report.page import page_of

    if record is not None:
        run = run_of(record)
    else:
        with looked_at(address):
            run = present_run("zray report")
    content = content_of(run)
    if record is not None and not content["duration"]:
        raise click.ClickException(f"{record} has no records of tasks: its program ended before the first ones.")
    if as_json:
        keys = ("program", "headline", "findings", "facts", "notes", "start", "duration", "cores", "usage", "functions")
        shown = {key: content[key] for key in keys} | {"path": content["path"]["rows"], "memory": content["memory"]}
        click.echo(json.dumps(shown, indent=2))
        return
    if is_record(output):
        raise click.UsageError(f"{output} is a record: give another name for the page.")
    try:
        with open(output, "w", encoding="utf-8") as file:
            file.write(page_of(content))
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from None
    click.echo(f"{content['headline']}\n{output}: open it in a browser.")
