"""`zray doctor`: what is wrong on the way to a cluster."""

from __future__ import annotations

import click


@click.command()
@click.option("--to", "target", required=True, metavar="HOST:PORT", help="Where the head of the cluster listens.")
@click.pass_context
def doctor(context: click.Context, target: str) -> None:
    """Try the way to a cluster step by step, with the token in ZRAY_TOKEN; say which step fails, and what to do.

    Exit code 1 where one does.  Nothing is changed there.
    """
    from zray.host.cluster.doctor import examine
    from zray.host.security.token_input import token_from_environment

    is_well = True
    try:
        for step in examine(target, token_from_environment()):
            click.echo(f"{'ok    ' if step.is_done else 'FAILED'} {step.text}")
            is_well = is_well and step.is_done
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    context.exit(0 if is_well else 1)
