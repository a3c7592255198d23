"""The start of an environment's fork server: it installs the packages, then becomes the fork server in place (exec).

A virtual environment is made without the packages of this Python; a `.pth` file names their folders instead.  So they
are found behind the environment's own packages, even if this Python runs in a virtual environment itself.

From the node: argv of a fork server, and the request for packages behind REQUEST_DESCRIPTOR.  To the node:

    ["unfit", reason]     before the end after a failure; otherwise the messages of a fork server

Modules for installations are imported only then: mostly the environment exists.
"""

from __future__ import annotations

import importlib.util
import os
import select
import shutil
import signal
import site
import socket
import sys
import time
from hashlib import sha256

from msgspec import msgpack
from msgspec.structs import replace

from ...exceptions import RuntimeEnvSetupError
from ...options.package_passwords import installer_files, masked
from ...options.package_requests import PackageRequest, parse_request
from .. import context
from ..process.process_utils import adopt_orphans, end_children, end_with_parent, last_lines, wait_for_end
from ..process.spawn import with_packages
from ..session.session import CONNECTION_DESCRIPTOR, NODE_DESCRIPTOR, REQUEST_DESCRIPTOR
from .environment_cache import EnvironmentCache, cache_folder

# Limit of quoted lines of a failed command.
TOLD_LINES_MAX = 20
# The report of a failure has to fit into a packet.
TOLD_CHARACTERS_MAX = 12_000
_FORK_SERVER = (
    "import gc, sys; gc.disable(); sys.path[:] = {path!r}; from zray.host import context; context.is_own = True; \
context.packages = {packages!r}; from zray.host.process.fork_server import main; main()"
)


class NodeHasEnded(Exception):
    """Nobody needs the environment any more."""


class Installer:
    """The installation of an environment."""

    def __init__(self, request: PackageRequest) -> None:
        self.request = request
        # A negative number: no limit.
        self.deadline = time.monotonic() + request.seconds if request.seconds >= 0 else float("inf")
        self.environment = {**os.environ, **dict(request.variables), "PIP_USER": "0"}
        self.log = ""

    def name(self) -> str:
        """Equal for equal requests of equal Pythons."""
        request = replace(self.request, seconds=0.0)
        python = (sys.version, sys.executable, sys.prefix, *parent_folders())
        return sha256(msgpack.encode((request, python))).hexdigest()[:32]

    def look(self) -> None:
        """Raise an error if the wait has become pointless."""
        if wait_for_end(NODE_DESCRIPTOR, 0.0):
            raise NodeHasEnded
        if time.monotonic() > self.deadline:
            raise RuntimeEnvSetupError(f"another process installs the same packages for more than {self._limit()}")

    def make(self, folder: str) -> None:
        """Make the environment.

        Raises:
            RuntimeEnvSetupError: names the failed command, with its last lines.
        """
        self.log = f"{folder}/setup.log"
        import venv

        os.mkdir(folder, 0o700)
        venv.create(folder, symlinks=True)
        with open(os.path.join(packages_of(folder), "_zray_parent.pth"), "w", encoding="utf-8") as file:
            file.writelines(f"import site; site.addsitedir({place!r})\n" for place in parent_folders())
        with installer_files(folder, self.request.lines, self.environment) as requirements:
            install, check = self._commands(python_of(folder))
            tool = os.path.basename(install[0]) if install[0] != python_of(folder) else "pip"
            self.run(tool, [*install, "-r", requirements, *self.request.options])
            if self.request.is_checked:
                self.run(f"{tool} check", check)

    def _commands(self, python: str) -> tuple[list[str], list[str]]:
        """How packages are installed, and checked."""
        version = self.request.version
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        has_pip, uv = importlib.util.find_spec("pip") is not None, shutil.which("uv")
        if not has_pip and not (uv and not version):
            self.run("ensurepip", [python, "-m", "ensurepip"])
            has_pip = True
        if self.request.tool == "uv" and version:
            self.run("pip", [*pip, "install", f"uv{version}"])
            uv = os.path.join(os.path.dirname(python), "uv")
        elif version:
            self.run("pip", [*pip, "install", f"pip{version}"])
        if uv and (self.request.tool == "uv" or not has_pip):
            return (
                [uv, "pip", "install", "--compile-bytecode", "--python", python],
                [uv, "pip", "check", "--python", python],
            )
        return [*pip, "install"], [*pip, "check"]

    def run(self, name: str, command: list[str]) -> None:
        """Run a program to its end, or until the node has ended, or the time is over."""
        import subprocess

        with open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd="/",
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        pidfd = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            for descriptor in (pidfd, NODE_DESCRIPTOR):
                poll.register(descriptor, select.POLLIN)
            left = self.deadline - time.monotonic()
            ready = [found for found, _ in poll.poll(max(0.0, left) * 1000 if left < float("inf") else None)]
        finally:
            os.close(pidfd)
        if NODE_DESCRIPTOR in ready or not ready:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if NODE_DESCRIPTOR in ready:
            raise NodeHasEnded
        if not ready:
            raise RuntimeEnvSetupError(f"{name} has not ended within {self._limit()}{self._last_lines()}")
        if process.wait() != 0:
            raise RuntimeEnvSetupError(f"{name} exited with code {process.returncode}{self._last_lines()}")

    def _limit(self) -> str:
        return f"{self.request.seconds:g} s (`setup_timeout_seconds` of `config`)"

    def _last_lines(self) -> str:
        text = masked(last_lines(self.log, TOLD_LINES_MAX).strip())
        return f"; its last lines:\n{text}" if text else ""


def parent_folders() -> list[str]:
    """Return the folders of this Python's packages."""
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return [folder for folder in folders if os.path.isdir(folder)]


def python_of(folder: str) -> str:
    """The interpreter of an environment."""
    return os.path.join(folder, "bin", "python")


def packages_of(folder: str) -> str:
    """Where the packages of an environment are."""
    return os.path.join(folder, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")


def become_fork_server(folder: str, lock: int) -> None:
    """Go on as the environment's interpreter; the lock stays held."""
    packages = packages_of(folder)
    path = with_packages([entry for entry in sys.path if entry], [packages])
    program = _FORK_SERVER.format(path=path, packages=(packages,))
    binaries = os.path.dirname(python_of(folder))
    variables = {
        **os.environ,
        "VIRTUAL_ENV": folder,
        "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    os.set_inheritable(lock, True)
    sys.stdout.flush()
    os.execve(python_of(folder), [python_of(folder), "-c", program, *sys.argv[1:4], str(lock)], variables)


def read_request() -> PackageRequest:
    """Return the node's request."""
    with open(REQUEST_DESCRIPTOR, encoding="utf-8") as file:
        return parse_request(file.read())


def main() -> None:
    """Run an environment's fork server.  argv: session name, session root, seconds without a worker before a report."""
    context.is_own = True
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        try:
            installer = Installer(read_request())
            folder, lock = EnvironmentCache(cache_folder()).take(installer.name(), installer.make, installer.look)
        except NodeHasEnded:
            return
        except (OSError, RuntimeEnvSetupError) as error:
            reason = str(error)[-TOLD_CHARACTERS_MAX:]
            print(reason, file=sys.stderr, flush=True)
            connection = socket.socket(fileno=os.dup(CONNECTION_DESCRIPTOR))
            connection.send(msgpack.encode(("unfit", reason)))
            return
        become_fork_server(folder, lock)
    finally:
        end_children()
