"""`zray keys`: keys and tokens of a cluster, on the head's machine."""

from __future__ import annotations

from typing import Any

import click


def in_words(seconds: float | None) -> str:
    """The time that a key is valid for, in words."""
    if seconds is None:
        return "its life"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


SESSION = click.option(
    "--session", metavar="NAME", help="Session of the head, where several heads run on this machine."
)


def note_loopback(cluster: str) -> None:
    """Print a note on standard error where only the head's own machine reaches the head."""
    if cluster.startswith("127."):
        from .start import LOOPBACK_NOTE

        click.echo(LOOPBACK_NOTE, err=True)


@click.group()
def keys() -> None:
    """Show and change who may join a cluster."""


@keys.command("list")
@SESSION
@click.option("--all", "with_ended", is_flag=True, help="Show keys of nodes and drivers that have ended, too.")
def list_keys(session: str | None, with_ended: bool) -> None:
    """Show the keys: of nodes and drivers, and of the tokens that let others join."""
    from rich.table import Table
    from rich.text import Text

    from zray.host.client import control
    from zray.wire.hosts import WAS_LOST
    from zray.wire.orders import GetKeys, KeysReply

    from .tables import show

    with control.find_head(session) as head:
        found: list[Any] = head.order(GetKeys(1), KeysReply).keys
    table = Table(title="keys", title_justify="left")
    table.add_column("name", no_wrap=True, min_width=16)
    for name in ("kind", "state", "good for", "joins left", "from"):
        table.add_column(name)
    ended = 0
    for key in found:
        state = key.refusal.partition(" ")[0] or ("connected" if key.is_up else "let in")
        is_own = key.kind in ("replica", "scheduler")  # of the head's: their keys end with them
        if WAS_LOST in key.refusal or (is_own and state == "revoked"):
            state = "ended"  # nobody has revoked it
            ended += 1
            if not with_ended:
                continue
        uses = "" if key.uses_left < 0 else f"{key.uses_left:,}"
        kind = "token" if key.kind == "joiner" else key.kind
        table.add_row(key.name, kind, state, in_words(key.seconds_left), uses, Text(key.seen_at))
    show(table)
    if ended and not with_ended:
        click.echo(f"Left out: {ended:,} key{'s' * (ended != 1)} of the past (--all shows them).")


@keys.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@SESSION
def revoke(names: tuple[str, ...], session: str | None) -> None:
    """Revoke keys: NAME is the id of a node or driver, the name of a token, or how that begins.

    A node whose key is revoked is declared lost, and ends; its tasks run elsewhere.
    """
    from zray.host.client import control
    from zray.wire.limits import CHARACTERS_MAX
    from zray.wire.orders import RevokeKey

    with control.find_head(session) as head:
        for number, name in enumerate(names, start=1):
            for done in head.order(RevokeKey(number, name[:CHARACTERS_MAX])).done:
                click.echo(f"Revoked: {done}.")


@keys.command()
@click.option("--hours", type=float, default=24.0, metavar="H", help="Hours that the token is valid. [24]")
@click.option("--uses", type=int, default=1_000, metavar="N", help="Number of joins that the token allows. [1000]")
@SESSION
def token(hours: float, uses: int, session: str | None) -> None:
    """Draw a new token that lets nodes and programs join, and print it with the command of a node."""
    from zray.host.client import control
    from zray.wire.orders import DrawToken, TokenReply

    if not 0 < hours < float("inf") or uses < 1:
        raise click.UsageError("--hours and --uses must be above 0.")
    with control.find_head(session) as head:
        drawn = head.order(DrawToken(1, hours * 3600.0, uses), TokenReply)
    click.echo(f"ZRAY_TOKEN={drawn.token} zray start --address {drawn.cluster}")
    note_loopback(drawn.cluster)


@keys.command()
@click.option("--hours", type=float, default=24.0, metavar="H", help="Hours that the token is valid. [24]")
@SESSION
def reader(hours: float, session: str | None) -> None:
    """Draw a token that lets others look at the cluster and do nothing else, and print it with their command."""
    from zray.host.client import control
    from zray.wire.orders import DrawToken, TokenReply

    if not 0 < hours < float("inf"):
        raise click.UsageError("--hours must be above 0.")
    with control.find_head(session) as head:
        drawn = head.order(DrawToken(1, hours * 3600.0, 1, "reader"), TokenReply)
    click.echo(f"ZRAY_TOKEN={drawn.token} zray status --address {drawn.cluster}")
    note_loopback(drawn.cluster)
