"""Checks of `zray doctor` on the hosts of a file, over ssh: the login, the versions, the machine and its clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

from zray.version import __version__

from . import checks, records
from .checks import FAILED, OK, Finding
from .connection import Connection
from .hosts_file import Cluster, Host
from .plan import Found, check_versions
from .runner import Work
from .troubles import Trouble


async def examine(cluster: Cluster, record: records.Record) -> dict[str, list[Finding]]:
    """Return the findings on each host, by its label.  Nothing is changed there."""
    found: dict[str, list[Finding]] = {host.label: [] for host in cluster.hosts}
    looks: dict[str, Found] = {}

    def say(host: Host, is_well: bool, words: str) -> None:
        found[host.label].append(Finding(OK if is_well else FAILED, f"{words[:1].upper()}{words[1:]}."))

    work = Work(cluster, record, say, 0.0)

    async def one(host: Host) -> str:
        connection = await work.open(host)
        look = Found.from_reply(await work.ask(connection, "look", "it was looked at", zray=__version__))
        looks[host.label] = look
        found[host.label].extend(await _machine(work, connection, is_up=bool(look.sessions)))
        return ""

    try:
        await work.each(cluster.hosts, one)
    finally:
        await work.close()
    head = looks.get(cluster.head.label)
    for host in (host for host in cluster.hosts if host.label in looks):
        look = looks[host.label]
        try:
            check_versions(host, look, __version__, "" if host.is_head or head is None else head.python)
        except Trouble as trouble:
            say(host, False, str(trouble))
        else:
            say(host, True, f"ssh logs in; zray {look.zray} with Python {look.python} is there")
    return found


async def _machine(work: Work, connection: Connection, *, is_up: bool) -> list[Finding]:
    """Return the findings on a machine.  is_up: a session runs there, perhaps on the port."""
    host = connection.host
    port = host.options["port"] if host.is_head and not is_up else 0
    sent = time.time()
    try:
        facts = await work.ask(connection, "examine", "it was examined", port=port)
    except Trouble as trouble:
        return [Finding(FAILED, f"{trouble}.")]
    received = time.time()
    return [
        *_worth(checks.of_machine(facts, needs_port=True)),
        *checks.of_clock(sent, facts["time"], received),
    ]


def _worth(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Leave out what is well: a line a host says so."""
    return (finding for finding in findings if finding.level != OK)
