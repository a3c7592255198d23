"""`zray dashboard`: a page that shows what a session does."""

from __future__ import annotations

import click

from .looks import looks_at


@click.command()
@click.option("--port", default=8265, show_default=True, type=click.IntRange(0, 65_535), help="Port; 0: any.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on, of this machine alone.")
@looks_at
@click.option("--results", metavar="FOLDER", help="Folder of experiments.  Default: TUNE_RESULT_DIR, or ~/ray_results.")
def dashboard(port: int, host: str, address: str | None, results: str | None) -> None:
    """Serve a page that shows nodes, tasks, actors, objects, logs and experiments, until Ctrl-C.

    The address that is printed holds a token; without it, nothing is shown.  On another machine,
    `ssh -L 8265:127.0.0.1:8265 HERE` brings the page there.
    """
    from zray.dashboard import server

    try:
        server.check_packages()
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    try:
        listener = server.listening(host, port)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    import zray
    from zray.dashboard.session import joined

    with listener:
        session = joined(address or "auto", results)
        try:
            token = server.new_token()
            click.echo(f"{server.address_of(listener, token)}  (until Ctrl-C)")
            reason = server.serve(session, listener, token)
        finally:
            zray.shutdown()
    if reason:
        raise click.ClickException(reason)
