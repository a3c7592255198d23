"""Looks at a session: the options that name it, and what is said where none or several run on this machine."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

NONE_RUNS = (
    "No session of this user runs on this machine.  Of ended ones, `zray logs` and `zray replay` show what failed, and "
    "`zray report RECORD` the record of a run."
)


def looks_at(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --address and --session to a command, which gets `address`; None: the session of this machine."""

    @functools.wraps(function)
    def called(*args: Any, address: str | None, session: str | None, **options: Any) -> Any:
        from .cancel import address_of

        if address and session:
            raise click.UsageError("--address and --session each name a session: give one of the two.")
        return function(*args, address=address_of(session) if session else address, **options)

    called = click.option("--session", metavar="NAME", help="Session, where several run on this machine.")(called)
    return click.option(
        "--address", metavar="HOST:PORT", help="Cluster to look at.  Default: the session of this machine."
    )(called)


@contextmanager
def looked_at(address: str | None) -> Iterator[None]:
    """Join a session for questions.  Warnings are lines on standard error.

    Raises:
        click.ClickException: no session is named, and none runs here.
    """
    import zray

    place = address or _newest()
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: click.echo(f"Note: {message}", err=True)
        with zray.init(address=place, log_to_driver=False, record="", _only_looks=True):
            yield


def _newest() -> str:
    """The address of the session that is shown if none is named; others are named on standard error."""
    from zray.host.client import control

    found = [(its, info) for its, info in control.sessions() if not (info.cluster and info.is_embedded)]
    lasting = [each for each in found if not each[1].is_embedded]
    if not lasting and control.returning():
        return "auto"  # which says what it tries
    if not found:
        raise click.ClickException(NONE_RUNS)
    shown, info = (lasting or found)[0]
    others = [
        its.name for its, each in found if its is not shown and (not each.cluster or each.cluster != info.cluster)
    ]
    if others:
        click.echo(f"Note: session {shown.name} is shown; --session names another: {', '.join(others)}.", err=True)
    return str(shown.address)
