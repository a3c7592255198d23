"""`zray drain`: a node leaves its cluster in order.  On the head's machine."""

from __future__ import annotations

import time

import click

POLL_SECONDS = 0.2
# The state may change with every look: a person can read a line a second.
LINE_SECONDS = 1.0
# After so long a line says what else can be done, as with a get() that waits.
LONG_SECONDS = 10.0


class Pace:
    """Filter of the states of a leaving node: at most one new state a second is printed."""

    def __init__(self) -> None:
        self.said: list[str] | None = None
        self.said_at = 0.0
        self.began_at: float | None = None
        self.was_long = False

    def is_due(self, state: list[str], now: float) -> bool:
        """Whether this state is to be printed now."""
        if state == self.said or (self.said is not None and now - self.said_at < LINE_SECONDS):
            return False
        self.said, self.said_at = state, now
        return True

    def is_long(self, now: float) -> bool:
        """Whether the wait has become long since the first call: True once."""
        self.began_at = now if self.began_at is None else self.began_at
        if self.was_long or now - self.began_at < LONG_SECONDS:
            return False
        self.was_long = True
        return True


@click.command()
@click.argument("node")
@click.option(
    "--timeout", type=float, metavar="S", help="Leave after S seconds at the latest, also with work in progress."
)
@click.option("--no-wait", is_flag=True, help="Return at once; do not wait until the node has left.")
@click.option("--session", metavar="NAME", help="Session of the head, where several heads run on this machine.")
def drain(node: str, timeout: float | None, no_wait: bool, session: str | None) -> None:
    """Have NODE finish its tasks, hand over its objects, and leave the cluster.

    NODE is the id of a node, or how that begins: `zray status` shows it.  No task is placed there any more; other nodes
    run the tasks that have not begun.  The exit code is 1 if the node was lost before it had finished.
    """
    from zray.exceptions.printable import printable
    from zray.host.client import control
    from zray.wire.drains import DrainReply, OrderDrain
    from zray.wire.limits import CHARACTERS_MAX

    if timeout is not None and not 0 < timeout < float("inf"):
        raise click.UsageError("--timeout must be a number of seconds above 0.")
    pace = Pace()
    with control.find_head(session) as head:
        while True:
            found: DrainReply = head.order(OrderDrain(1, node[:CHARACTERS_MAX], timeout or 0.0), DrainReply)
            if found.is_gone and found.reason:
                click.echo(f"Node {found.node} was removed: {printable(found.reason)}.")
                raise SystemExit(0 if timeout else 1)
            if found.is_gone:
                click.echo(f"Node {found.node} has left.")
                return
            node = found.node
            if no_wait:
                click.echo(f"Node {node} leaves as soon as it can.")
                return
            if pace.is_due(found.waits_for, time.monotonic()):
                click.echo(f"Node {node} waits for {', '.join(found.waits_for) or 'the others'} ...", err=True)
            if pace.is_long(time.monotonic()) and not timeout:
                text = (
                    f"The node leaves when these have ended.  `zray drain {node} --timeout S` ends it after S seconds."
                )
                click.echo(text, err=True)
            time.sleep(POLL_SECONDS)
