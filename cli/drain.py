"""`zray drain`: a node leaves its cluster in order.  On the head's machine."""

from __future__ import annotations

import time

import click

POLL_SECONDS = 0.2


@click.command()
@click.argument("node")
@click.option("--timeout", type=float, metavar="S", help="After S seconds it leaves, whatever it still does.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it has left.")
@click.option("--session", metavar="NAME", help="Of that head, where several run on this machine.")
def drain(node: str, timeout: float | None, no_wait: bool, session: str | None) -> None:
    """Have NODE (its id, or how that begins: `zray status`) finish what it runs, hand over what it holds, and leave.

    Nothing is placed there any more.  What it has not begun, others run.
    """
    from zray.host import control
    from zray.wire.drains import DrainReply, OrderDrain

    if timeout is not None and not 0 < timeout < float("inf"):
        raise click.UsageError("--timeout must be a number of seconds above 0.")
    said = None
    with control.find_head(session) as head:
        while True:
            found: DrainReply = head.order(OrderDrain(1, node, timeout or 0.0), DrainReply)
            if found.is_gone:
                click.echo(f"Node {found.node} has left.")
                return
            node = found.node
            if no_wait:
                click.echo(f"Node {node} leaves as soon as it can.")
                return
            if found.waits_for != said:
                said = found.waits_for
                click.echo(f"Node {node} waits for {', '.join(said) or 'the others'} ...", err=True)
            time.sleep(POLL_SECONDS)
