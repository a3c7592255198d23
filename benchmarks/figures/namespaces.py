"""Machines of an emulated network: each has a network namespace, processes and shared memory of its own.

Each has a link to a switch, which the kernel shapes on both sides (`tc tbf`).  Nothing joins them to the machine's own
network.  Each is held by a process that ends when its standard input does; with it the kernel ends all processes of
that machine, and takes its network and memory back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

SUBNET = "10.232.0"
# Packets of 1,514 bytes with 1,448 bytes of payload each.
PAYLOAD = 1448 / 1514
# The first process of a machine reaps what falls to it.
FIRST = "mount -t tmpfs tmpfs /dev/shm && trap '' CHLD && echo ready && exec cat >/dev/null"
COMMAND_SECONDS = 30.0
BUSY = 0.85  # share of the cores' time from which on they are the limit, and not the links


class Machine:
    """A machine, as far as the processes in it can tell."""

    def __init__(self) -> None:
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", FIRST]
        pipe = subprocess.PIPE
        self.holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.address = ""
        assert self.holder.stdout is not None and self.holder.stderr is not None
        if self.holder.stdout.readline() != "ready\n":
            why = self.holder.stderr.read().strip()
            self.close()
            raise NotImplementedError(f"no network namespace can be made here: {why}")
        self.net = f"--net=/proc/{self.holder.pid}/ns/net"

    def inside(self, *command: str) -> list[str]:
        """Return the command line that runs a command in there."""
        places = [f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--pid=/proc/{self.holder.pid}/ns/pid_for_children"]
        return ["nsenter", self.net, *places, "--", *command]

    def network(self, line: str) -> None:
        """Run a command in its network, but among our processes: some lines name one.

        Raises:
            NotImplementedError: the kernel cannot do that.
        """
        command = ["nsenter", self.net, *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        if done.returncode:
            raise NotImplementedError(f"no such network can be made here: {line}: {done.stderr.strip()}")

    def close(self) -> None:
        """End whatever runs in it."""
        for stream in (self.holder.stdin, self.holder.stdout, self.holder.stderr):
            if stream is not None:
                stream.close()
        self.holder.wait()


class Network:
    """A switch, and machines with links to it."""

    def __init__(self, switch: Machine, machines: list[Machine]) -> None:
        self.switch, self.machines = switch, machines
        self.mbit = 0.0
        switch.network("ip link add bridge type bridge forward_delay 0")
        switch.network("ip link set bridge up")
        for number, machine in enumerate(machines, 1):
            machine.address = f"{SUBNET}.{number}"
            machine.network("ip link set lo up")
            switch.network(f"ip link add to-{number} type veth peer name eth0")
            switch.network(f"ip link set eth0 netns {machine.holder.pid}")
            switch.network(f"ip link set to-{number} master bridge up")
            machine.network(f"ip addr add {machine.address}/24 dev eth0")
            machine.network("ip link set eth0 up")

    def shape(self, mbit: float) -> None:
        """Give all links this rate."""
        self.mbit = mbit
        # Some packets at once; what would wait for longer than a switch lets it is dropped.
        shape = f"root tbf rate {mbit:g}mbit burst 256kb latency 50ms"
        for number, machine in enumerate(self.machines, 1):
            machine.network(f"tc qdisc replace dev eth0 {shape}")
            self.switch.network(f"tc qdisc replace dev to-{number} {shape}")

    @property
    def bytes_per_second(self) -> float:
        """Payload of a link."""
        return self.mbit * 1e6 / 8 * PAYLOAD


@contextlib.contextmanager
def network(count: int, mbit: float) -> Iterator[Network]:
    """Make so many machines.

    Raises:
        NotImplementedError: they cannot be had here, and why.
    """
    missing = [tool for tool in ("unshare", "nsenter", "ip", "tc") if shutil.which(tool) is None]
    if missing:
        raise NotImplementedError(f"emulated links need {', '.join(missing)}, which this machine does not have")
    if os.geteuid():
        raise NotImplementedError("network namespaces with links between them need root")
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(contextlib.closing(Machine())) for _ in range(count + 1)]
        found = Network(made[0], made[1:])
        found.shape(mbit)
        yield found


@contextlib.contextmanager
def python_in(machine: Machine, module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a module in there, which ends with the block.  Its temporary files are its own."""
    with tempfile.TemporaryDirectory(prefix="zr") as folder:
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            machine.inside(sys.executable, "-m", module, *arguments),
            stdin=pipe,
            stdout=pipe,
            text=True,
            env={**variables, "TMPDIR": folder},
        )
        try:
            yield process
        finally:
            try:
                end(process)
            finally:
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()


def end(process: subprocess.Popen[str]) -> None:
    """Wait for the end of a process, whose input ends.  A second call does nothing."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.wait(COMMAND_SECONDS)


def line_of(stream: IO[str] | None) -> str:
    """Return what a process says next."""
    assert stream is not None
    said = stream.readline()
    if not said:
        raise RuntimeError("a process in a namespace has ended")
    return said.strip()


class BusyShare:
    """Share of the time of all cores of this machine that was not idle."""

    def __init__(self) -> None:
        self.before = self._look()
        self.started = time.perf_counter()

    @staticmethod
    def _look() -> tuple[int, int]:
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    def share(self) -> float:
        """Return it since the beginning."""
        total, idle = (now - then for now, then in zip(self._look(), self.before, strict=True))
        return 1 - idle / total if total else 0.0
