"""`zray timeline`: what ran in a session, where and when, as a file for Perfetto."""

from __future__ import annotations

import click


@click.command()
@click.argument("file", default="timeline.json.gz", metavar="[FILE]")
@click.option("--address", metavar="HOST:PORT", help="Cluster to look at.  Default: the session of this machine.")
def timeline(file: str, address: str | None) -> None:
    """Write what ran in a session to FILE, for https://ui.perfetto.dev.  Default: timeline.json.gz.

    A name that ends in .gz has the file compressed; Perfetto opens both.
    """
    import zray

    with zray.init(address=address or "auto", log_to_driver=False):
        try:
            zray.timeline(file)
        except OSError as error:
            raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    click.echo(f"{file}: open it at https://ui.perfetto.dev, which reads it in the browser.")
