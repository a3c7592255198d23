"""Commands of `zray` that tests run to their end, forked from a process that has their modules.

A command needs 30 ms of CPU time for its interpreter and 100 to 200 ms for its imports; tests run hundreds.  The first
run of each command starts as a user's, so that a module with a missing import is found; `ZRAY_WARM=0` has all start so.
"""

import contextlib
import gc
import importlib
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile

from tests import warm_starts

# Modules that commands import when they run; those of optional parts are left out.
MODULES = (
    "zray.api.cluster_info",
    "zray.api.log_reader",
    "zray.api.timeline",
    "zray.host.client.control",
    "zray.util.state",
    "zray.util.state_logs",
    "zray.util.why",
)
# A program of the user runs in these, or a terminal is theirs.
COLD = "attach microbenchmark mpi replay reproduce rllib run slurm symmetric-run top tune".split()
# Variables that no module of a command reads when it is imported, beside those of sessions.
FREE = (*warm_starts.FREE, "PYTHONUNBUFFERED", "OMP_NUM_THREADS", "HOME", "PATH", "XDG_", "FAKE_HOSTS")


class WarmCommands:
    """Commands run by this process; the template of their processes starts with the second command."""

    def __init__(self):
        self.seen = set()
        self.socket = None

    def run(self, line, *, env, cwd, timeout, text=None):
        """Run `[python, "-m", "cli.main", command, ...]`, as subprocess.run with text in pipes.  text: its input."""
        name = line[3] if len(line) > 3 else ""
        is_warm = text is None and name in self.seen and name not in COLD and warm_starts.is_on()
        if is_warm and self.socket is None:
            self.start()
        if not is_warm or self.fixed(env) != self.began_with:
            self.seen.add(name)
            return subprocess.run(line, input=text, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            pid = self.fork([*map(os.fspath, line[3:])], env, os.fspath(cwd), out.fileno(), errors.fileno())
            status = _wait(pid, timeout, line)
            texts = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (out, errors)]
        return subprocess.CompletedProcess(line, status, *texts)

    def start(self):
        """Start the template, of which each command is a fork."""
        from zray.host.process.spawn import spawn

        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.began_with = self.fixed(os.environ)
        with theirs:
            # Without the mark of this run, since it outlives the module whose test starts it.
            options = {"runs_user_code": True, "variables": {"ZRAY_TEST_RUN": ""}}
            self.pid = spawn(__name__, [], output=2, descriptors={theirs.fileno(): warm_starts.SOCKET}, **options)
        self.socket.recv(1)

    def end(self):
        """End the template."""
        if self.socket is not None:
            self.socket.close()
            os.waitpid(self.pid, 0)

    def fixed(self, variables):
        """Return the variables that modules may read when they are imported."""
        return {name: value for name, value in variables.items() if not name.startswith(FREE)}

    def fork(self, arguments, variables, folder, out, errors):
        """Fork a command, a child of this process; return its pid."""
        warm_starts.set_subreaper(True)
        try:
            warm_starts.send(self.socket, (arguments, dict(variables), folder), out, {out: 1, errors: 2})
            return int(self.socket.recv(100))
        finally:
            warm_starts.set_subreaper(False)


commands = WarmCommands()  # of this process; the fixture `warm_starts` ends it


def _wait(pid, timeout, line):
    """Wait for a child's end; return its status as subprocess does."""
    end = os.pidfd_open(pid)
    try:
        if not select.select([end], [], [], timeout)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise subprocess.TimeoutExpired(line, timeout)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(end)


def main():
    """Fork commands until pytest ends."""
    from zray.host.process.process_utils import end_with_parent

    end_with_parent()
    return warm_starts.serve(preload, run_command)


def preload():
    """Import what commands need; a command of an optional part may lack it."""
    import cli

    names = [f"cli.{module.name}" for module in pkgutil.iter_modules(cli.__path__) if module.name != "main"]
    for name in (*names, *MODULES):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def run_command(arguments, variables, folder, descriptors):
    """Run the command in this process, as `python -m cli.main` in the folder."""
    from zray.host import context

    context.is_own = False
    warm_starts.place(descriptors)
    path = [entry for entry in sys.path if entry != folder]
    warm_starts.become(arguments, variables, folder, [folder, *path])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    is_raw = variables.get("PYTHONUNBUFFERED") == "1"
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    for name, number in (("stdout", 1), ("stderr", 2)):
        binary = open(number, "wb", buffering=0 if is_raw else -1, closefd=False)
        before = getattr(sys, name)
        stream = type(before)(binary, encoding=before.encoding, errors=before.errors, write_through=is_raw)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv[:] = ["cli.main", *arguments]
    runpy.run_module("cli.main", run_name="__main__", alter_sys=True)
