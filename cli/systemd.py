"""`zray systemd`: units that keep a head or a node running, and start it again after a crash and a restart.

Units of the system run as a user of their own; with --user they belong to a person, and need no rights.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys

import click

HEADER = """\
# {name}: written by `zray systemd {kind}`.  Install it with
#   zray systemd {arguments} | {sudo}tee {folder}/{name} >/dev/null
#   {systemctl} daemon-reload && {systemctl} enable --now {name}
"""
UNIT = """
[Unit]
Description=zray {kind}
{order}\
# A crash leads to a new start as often as it happens: a limit would leave the machine out after a bad minute.
StartLimitIntervalSec=0

[Service]
# The command says when the {kind} can be used, and then three times a period that it answers.
Type=notify
NotifyAccess=main
WatchdogSec={watchdog}
{user}\
RuntimeDirectory=zray-{kind}
RuntimeDirectoryMode=0700
StateDirectory=zray
StateDirectoryMode=0700
WorkingDirectory=%S/zray
Environment=ZRAY_TMPDIR=%t/zray-{kind} ZRAY_LOG_DIR=%S/zray/logs
ExecStart={command}
# SIGTERM goes to the command alone, which ends the session in order.
KillMode=mixed
TimeoutStopSec={stop}
Restart=always
RestartSec={rest}
LimitNOFILE=65536
OOMPolicy=continue

{hardening}
[Install]
WantedBy={target}
"""
ORDER = "Wants=network-online.target\nAfter=network-online.target\n"
HARDENING = """\
# Tasks are programs of the cluster's users: they may write below %S/zray and to temporary files of their own.
# For further folders, add ReadWritePaths=.
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
CapabilityBoundingSet=
AmbientCapabilities=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
UMask=0077
# Left out: PrivateDevices (GPUs), MemoryDenyWriteExecute (compilers in torch and numba), ProtectProc and
# PrivateUsers (zray looks at its own processes), SystemCallFilter (nobody knows what tasks call).
"""
HARDENING_OF_A_PERSON = "NoNewPrivileges=yes\nUMask=0077\n"
WATCHDOG_SECONDS = 60
END_SECONDS = 15  # for the end in order, behind the drain
STATE = "%S/zray/state"  # %S: where a unit's lasting files are
REST_SECONDS = {"head": 2, "node": 10}


def own_command() -> str:
    """The path of the `zray` command that runs now."""
    path = os.path.abspath(sys.argv[0])
    return path if os.access(path, os.X_OK) else shutil.which("zray") or "/usr/local/bin/zray"


def quoted(words: list[str]) -> str:
    """Words as a unit's ExecStart has them (systemd.service(5))."""
    found = []
    for word in words:
        word = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
        found.append(f'"{word}"' if not word or any(letter in word for letter in " \t'\";") else word)
    return " ".join(found)


def written(kind: str, command: str, user: str, *, is_own: bool, drain: float = 0.0) -> str:
    """Return the unit.

    command: the line that starts the session.  user: whom the processes belong to.  is_own: a unit of the person who
    calls this.
    """
    if any(letter in command + user for letter in "\n\r\0"):
        raise click.UsageError("A unit's values are lines: no value may have a line break.")
    name = f"zray-{kind}.service"
    header = HEADER.format(
        kind=kind,
        name=name,
        arguments=shlex.join(sys.argv[2:]),
        sudo="" if is_own else "sudo ",
        folder="~/.config/systemd/user" if is_own else "/etc/systemd/system",
        systemctl="systemctl --user" if is_own else "sudo systemctl",
    )
    return header + UNIT.format(
        kind=kind,
        order="" if is_own else ORDER,
        watchdog=WATCHDOG_SECONDS,
        user="" if is_own else f"User={user}\n",
        command=command,
        stop=f"{drain + END_SECONDS:g}",
        rest=REST_SECONDS[kind],
        hardening=HARDENING_OF_A_PERSON if is_own else HARDENING,
        target="default.target" if is_own else "multi-user.target",
    )


@click.group()
def systemd() -> None:
    """Print a unit for systemd that keeps a head or a node running.

    OPTIONS behind `--` are those of `zray start`.  Nothing is installed: the first lines of the unit say how.
    """


of_a_person = click.option("--user", "is_own", is_flag=True, help="A unit of yours, without root.")
run_as = click.option("--run-as", default="zray", metavar="NAME", help="The user of a system unit. [zray]")
program = click.option("--command", metavar="PATH", help="The `zray` command on that machine. [this one]")


@systemd.command()
@click.option("--host", required=True, metavar="IP", help="The address of the head's machine, where others reach it.")
@of_a_person
@run_as
@program
@click.argument("options", nargs=-1)
def head(host: str, is_own: bool, run_as: str, command: str | None, options: tuple[str, ...]) -> None:
    """Print the unit of a head, which keeps the cluster's state over crashes and restarts."""
    line = quoted([command or own_command(), "start", "--head", "--host", host, "--block", *options])
    if not any(option.partition("=")[0] == "--state-dir" for option in options):
        line += f" --state-dir {STATE}"
    click.echo(written("head", line, run_as, is_own=is_own), nl=False)


@systemd.command()
@click.option("--address", required=True, metavar="HOST:PORT", help="The head of the cluster.")
@click.option("--token-file", metavar="PATH", help="File of the join token, mode 0600. [/etc/zray/token]")
@click.option("--drain", type=click.FloatRange(min=0.0), default=60.0, metavar="S", help="Time to leave in. [60]")
@of_a_person
@run_as
@program
@click.argument("options", nargs=-1)
def node(
    address: str,
    token_file: str | None,
    drain: float,
    is_own: bool,
    run_as: str,
    command: str | None,
    options: tuple[str, ...],
) -> None:
    """Print the unit of a node.

    Its token lies in /etc/zray/token, or with --user in ~/.config/zray/token.  On the head's machine,
    `zray keys token --hours 8760 --uses 10000` draws one that is valid for a year.
    """
    place = token_file or (os.path.expanduser("~/.config/zray/token") if is_own else "/etc/zray/token")
    words = [command or own_command(), "start", "--address", address, "--token-file", place, "--block"]
    words += ["--drain", f"{drain:g}", *options] if drain else options
    click.echo(written("node", quoted(words), run_as, is_own=is_own, drain=drain), nl=False)
