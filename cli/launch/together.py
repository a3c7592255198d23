"""Command on all machines of a run: the first is the head and runs the program, the others are nodes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import click

from .. import foreground
from ..start import label_map, resource_map
from .allocation import STORE, WORK, Allocation, NoAllocation
from .meeting import Meeting

LOOK_SECONDS = 0.1
# A node that gets a signal finishes its tasks within so long; Slurm kills 30 s after it (KillWait).
GRACE_SECONDS = 25.0


MIN_NODES = click.option(
    "--min-nodes", type=click.IntRange(1), metavar="N", help="The program starts with N nodes. [all]"
)
OPTIONS = (
    click.option(
        "--meet", metavar="DIR", help="Folder that all machines see, for the file by which they meet. [this one]"
    ),
    click.option(
        "--wait",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        metavar="S",
        help="Machines wait S seconds for each other. [60]",
    ),
    click.option("--host", metavar="IP", help="Address of this machine where the others reach it."),
    click.option("--num-cpus", type=float, metavar="N", help="CPUs of each machine; default: those of the run there."),
    click.option("--num-gpus", type=float, metavar="N", help="GPUs of each machine; default: those that are detected."),
    click.option("--memory", type=float, metavar="BYTES", help="Memory to hand out; default: 70 % of the run's."),
    click.option(
        "--object-store-memory", type=float, metavar="BYTES", help="Shared memory; default: 30 % of the run's."
    ),
    click.option("--resources", callback=resource_map, metavar="JSON", help='Further resources, like {"disk": 2}.'),
    click.option("--labels", callback=label_map, metavar="K=V,...", help="Labels of each machine."),
    click.argument("command", metavar="-- COMMAND", nargs=-1, required=True, type=click.UNPROCESSED),
)


def options(min_nodes: Callable[[Any], Any] = MIN_NODES) -> Callable[[Any], Any]:
    """Return a decorator that gives a command the options and the argument of such a run.

    min_nodes: the option that says how many nodes the program waits for.
    """

    def decorated(function: Any) -> Any:
        for option in reversed((OPTIONS[0], min_nodes, *OPTIONS[1:])):
            function = option(function)
        return function

    return decorated


def run(find: Callable[[Mapping[str, str]], Allocation], command: tuple[str, ...], settings: dict[str, Any]) -> int:
    """Run this process's part; return its exit code.

    Raises:
        click.ClickException: there is no run, or something failed.
    """
    try:
        part = find(os.environ)
    except NoAllocation as error:
        raise click.ClickException(f"Not in a run of several machines: {error}.") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    meeting = Meeting(os.path.abspath(settings.pop("meet") or os.getcwd()), part.name)
    nodes_min = settings.pop("min_nodes") or part.nodes
    try:
        together = Together(part, meeting, settings.pop("host") or "", settings, settings.pop("wait"))
        return together.run(command, nodes_min)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from error


class Together:
    """The part of this process."""

    def __init__(self, part: Allocation, meeting: Meeting, host: str, options: dict[str, Any], wait: float) -> None:
        from zray.host.client import control

        self.part, self.meeting, self.host, self.options, self.wait = part, meeting, host, options, wait
        self.signals = control.Interrupted()  # in place of death, from now on

    def run(self, command: tuple[str, ...], nodes_min: int) -> int:
        """Return the exit code of the program, or 0 of a node."""
        if self.part.local_rank:
            return 0  # the first process of this machine has all of it
        return self._head(command, nodes_min) if self.part.is_head else self._node()

    def _resources(self) -> tuple[dict[str, int], int | None]:
        """The part of this machine in the cluster: (resources, bytes of the store)."""
        from zray.host.process import machine_resources, node_processes

        cpus = self.options["num_cpus"] or (min(self.part.cpus, machine_resources.cpu_count()) or None)
        memory, store = self.options["memory"], self.options["object_store_memory"]
        given = min(self.part.memory, machine_resources.memory_bytes()) if self.part.memory else 0
        if given:
            memory = memory or int(given * WORK)
            store = store or min(int(given * STORE), machine_resources.store_bytes())
        total = node_processes.declared_resources(cpus, self.options["num_gpus"], self.options["resources"], memory)
        return total, store

    def _head(self, command: tuple[str, ...], nodes_min: int) -> int:
        from zray.host.client import control
        from zray.host.process import node_processes
        from zray.host.security.keyring import read_secret
        from zray.host.security.token_input import own_address

        total, store = self._resources()
        # A run of one process may still get nodes, but only this machine reaches it without an address.
        part = self.part
        host = self.host or part.host or (address_of_machine(part.near) if part.size > 1 else "")
        how = {"host": own_address(host) if host else "", "port": part.port, "labels": self.options["labels"]}
        session, pid = node_processes.start_head(total, store, **how, is_bound=True)
        try:
            info = session.read_info()
            if info is None:
                raise click.ClickException("The head has ended at once.")
            self.meeting.write(info.cluster, read_secret(session.token_path).decode())
            say(f"{part.what}: head at {info.cluster}, session {session.name}")
            if not self._wait_for_nodes(control.Control(session, pid), nodes_min):
                return 128 + signal.SIGTERM
            if nodes_min >= part.nodes and not part.is_open:
                self.meeting.remove()  # all are there: the token need not lie about
            return self._program(command, info.cluster)
        finally:
            self.meeting.remove()
            control.end(session, pid)

    def _wait_for_nodes(self, link: Any, nodes_min: int) -> bool:
        """Wait until so many nodes are members; return whether no signal came.

        Raises:
            click.ClickException: too few came in time.
        """
        deadline = time.monotonic() + self.wait
        with link:
            while (there := len(link.nodes())) < nodes_min:
                if time.monotonic() > deadline:
                    raise click.ClickException(
                        f"{there} of {nodes_min} nodes came within {self.wait:g} s.  The machines must see "
                        f"{self.meeting.path} and reach the head; --wait gives more time, --min-nodes asks for fewer."
                    )
                if self._is_told(LOOK_SECONDS):
                    return False
        return True

    def _is_told(self, seconds: float) -> bool:
        """Whether a signal comes within the time."""
        return bool(select.select([self.signals.reader], [], [], seconds)[0])

    def _program(self, command: tuple[str, ...], address: str) -> int:
        """Run the program; signals are passed on to it."""
        variables = {**os.environ, "ZRAY_ADDRESS": address}
        try:
            program = subprocess.Popen(command, env=variables)
        except OSError as error:
            raise click.ClickException(f"{command[0]}: {error.strerror}.") from None
        descriptor = os.pidfd_open(program.pid)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self.signals.reader, select.POLLIN)
        while program.poll() is None:
            for ready, _ in poll.poll():
                if ready == self.signals.reader:
                    for number in os.read(self.signals.reader, 64):
                        with suppress(ProcessLookupError):
                            program.send_signal(number)
        os.close(descriptor)
        return program.returncode if program.returncode >= 0 else 128 - program.returncode

    def _node(self) -> int:
        from zray.host.client import control
        from zray.host.process import node_processes

        total, store = self._resources()
        if (found := self._joined(total, store)) is None:
            return 0
        session, pid = found
        log = foreground.open_log(session)
        if self.signals.wait(pid):
            foreground.leave(session, pid, self.signals, GRACE_SECONDS)
            control.end(session, pid)
            return 0
        node_processes.end_node(session, pid)
        why = foreground.why_it_ended(log)
        if not why.endswith(foreground.ORDERED):  # by the head, when the program has ended
            raise click.ClickException(f"The node has ended{f': {why}' if why else ''}.")
        return 0

    def _joined(self, total: dict[str, int], store: int | None) -> tuple[Any, int] | None:
        """Join the head as soon as it is told; None: a signal came first.

        Raises:
            click.ClickException: the head did not come in time, or refuses this node.
        """
        from zray.host.process import node_processes
        from zray.host.security.token_input import own_address

        deadline, error = time.monotonic() + self.wait, ""
        host = own_address(self.host) if self.host else ""
        while time.monotonic() < deadline:
            if (told := self.meeting.read()) is not None:
                try:
                    return node_processes.start_member(
                        total, store, *told, host=host, labels=self.options["labels"], is_bound=True
                    )
                except ConnectionError as refused:  # the file may be that of a former run
                    error = f"  The last attempt: {refused}"
            if self._is_told(LOOK_SECONDS):
                return None
        raise click.ClickException(
            f"No head came within {self.wait:g} s, by the file {self.meeting.path}.  All machines must see its folder: "
            f"--meet names another one.{error}"
        )


def say(text: str) -> None:
    """Print a line beside the output of the program."""
    click.echo(text, err=True)


def own_addresses() -> set[str]:
    """Return the addresses of this machine."""
    import psutil

    every = (address for addresses in psutil.net_if_addrs().values() for address in addresses)
    return {address.address for address in every if address.family == socket.AF_INET}


def address_of_machine(near: str = "") -> str:
    """Return the address of this machine for others.

    near: an address in their network.  Without it: the address of the machine's name, or that of its default route, or
    the first of its networks.

    Raises:
        click.ClickException: the machine has no network.
    """
    import psutil

    found = [_route(near)] if near else []
    with suppress(OSError):
        found.append(socket.gethostbyname(socket.gethostname()))
    found.append(_route("192.0.2.1"))
    for name, addresses in psutil.net_if_addrs().items():
        if name != "lo":
            found += [address.address for address in addresses if address.family == socket.AF_INET]
    for address in found:
        if address and not address.startswith("127."):
            return address
    raise click.ClickException("The address of this machine for the others is not known: give --host ADDRESS.")


def _route(address: str) -> str:
    """Return the own address on the way to another; "": there is no way."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # no packet is sent
        return str(probe.getsockname()[0])
    return ""
