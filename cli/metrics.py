"""`zray metrics`: the metrics of a session for Prometheus, and a board for Grafana."""

from __future__ import annotations

import json
import os

import click

from .looks import looked_at, looks_at

PORT = 9464  # the usual one of exporters of OpenTelemetry


@click.command()
@click.argument("board", type=click.Choice(["grafana"]), required=False, metavar="[grafana]")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65_535), help="Port; 0: any.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--once", is_flag=True, help="Print the metrics and end.")
@looks_at
def metrics(board: str | None, port: int, host: str, once: bool, address: str | None) -> None:
    """Serve the metrics of a session at http://127.0.0.1:9464/metrics, for Prometheus, until Ctrl-C.

    A token in ZRAY_METRICS_TOKEN is asked of each request; another host than a loopback address needs one.
    `zray metrics grafana` prints a board as JSON, which Grafana imports.
    """
    if board is not None:
        from zray.util import grafana

        click.echo(json.dumps(grafana.board(), indent=2))
        return
    from zray.util.prometheus import TOKEN_VARIABLE, Endpoint, check_access, collected, library, text_of

    token = os.environ.get(TOKEN_VARIABLE) or None
    try:
        check_access(host, token)
    except ValueError as error:
        raise click.UsageError(f"{error}  The token is in {TOKEN_VARIABLE}.") from error
    try:
        library()  # before a session is joined
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    with looked_at(address):
        if once:
            click.echo(text_of(collected()).decode(), nl=False)
            return
        endpoint = Endpoint(port, host, token, lambda: text_of(collected()))
        click.echo(f"{endpoint.url}: metrics for Prometheus, until Ctrl-C.")
        try:
            endpoint.serve()
        except KeyboardInterrupt:
            return
        finally:
            endpoint.server.server_close()
        if endpoint.failure is not None:
            raise click.ClickException(f"The endpoint has ended: {endpoint.failure}")
