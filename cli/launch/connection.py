"""An ssh process to a host, with the agent behind it."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import agent, ssh, troubles
from .hosts_file import Cluster, Host
from .records import Log
from .troubles import Trouble

CHUNK = 1 << 16
# An answer may list many files.
LINE_BYTES_MAX = 64 << 20
END_SECONDS = 2.0
STDERR_MAX = 8_000


class Connection:
    """The agent of a host."""

    def __init__(self, cluster: Cluster, host: Host, folder: str, log: Log) -> None:
        self.cluster, self.host, self.folder, self.log = cluster, host, folder, log
        self.process: Any = None
        self.stderr = ""
        self.doing = "its login"
        self.hears: Callable[[str, bytes], None] = self._to_log
        self.steps: Callable[[str], None] = lambda step: None  # told of lines that run on the host
        self.lock = asyncio.Lock()
        self._reader: Any = None

    async def open(self, logins: asyncio.Semaphore) -> None:
        """Log in; a login that sshd cut is tried once more.

        Raises:
            Trouble: no agent answers.
        """
        async with logins:
            for attempt in (1, 2):
                try:
                    await self._login()
                    return
                except Trouble:
                    if attempt == 2 or not troubles.is_cut(self.stderr):
                        raise
                    self.log.line("the login was cut, and is tried again")

    async def _login(self) -> None:
        command = ssh.agent_command(self.host)
        words = [*ssh.line(self.cluster, self.host, self.folder), command]
        self.log.line(f"$ {shlex.join(words)}")
        self.stderr = ""
        pipe = asyncio.subprocess.PIPE
        try:
            self.process = await asyncio.create_subprocess_exec(
                *words,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                limit=LINE_BYTES_MAX,
                cwd=self.cluster.folder,
                start_new_session=True,  # Ctrl-C is for zray, which ends the connections
            )
        except FileNotFoundError:
            raise Trouble("the command ssh is not installed on this machine", "install OpenSSH's client") from None
        self._reader = asyncio.ensure_future(self._read_errors())
        with suppress(OSError):  # it has ended: the status says why
            self.process.stdin.write(inspect.getsource(agent).encode() + b"\0")
            await self.process.stdin.drain()
        await self._answer("hello")

    async def _read_errors(self) -> None:
        while data := await self.process.stderr.read(CHUNK):
            text = data.decode(errors="replace")
            self.stderr = (self.stderr + text)[-STDERR_MAX:]
            self.log.write(text)

    async def ask(self, do: str, doing: str = "", data: Any = (), **facts: Any) -> Any:
        """Have the agent do something, and return its answer.

        doing: for people, if the connection is lost meanwhile.  data: bytes behind the request, in parts.

        Raises:
            Trouble: it failed, or the connection was lost.
        """
        self.doing = doing or do
        with suppress(OSError):
            self.process.stdin.write(json.dumps({"do": do, **facts}).encode() + b"\n")
            for part in data:
                self.process.stdin.write(part)
                await self.process.stdin.drain()
            await self.process.stdin.drain()
        answer = await self._answer("done", "failed")
        if "failed" in answer:
            raise self._trouble(answer["failed"])
        return answer["done"]

    async def signal(self, number: int) -> None:
        """Send a signal to the command that the agent runs."""
        with suppress(OSError):
            self.process.stdin.write(json.dumps({"do": "signal", "number": number}).encode() + b"\n")
            await self.process.stdin.drain()

    async def _answer(self, *kinds: str) -> Any:
        while True:
            try:
                line = await self.process.stdout.readline()
            except ValueError:
                raise Trouble("its answer is too long", f"see {self.log.path}") from None
            before, mark, text = line.partition(agent.MARK)
            if before:
                self.log.write(before.decode(errors="replace"))
            if not line:
                raise await self._loss()
            if not mark:
                continue
            answer = json.loads(text)
            if any(kind in answer for kind in kinds):
                return answer
            for kind in ("out", "err"):
                if kind in answer:
                    self.hears(kind, answer[kind].encode("latin-1"))
            if "step" in answer:
                self.log.line(f"$ {answer['step']}")
                self.steps(answer["step"])
            if "file" in answer:
                await self._save(answer)

    async def _save(self, answer: dict[str, Any]) -> None:
        left = answer["size"]
        with self.receives(answer["file"], answer["mode"]) as file:
            while left:
                data = await self.process.stdout.read(min(left, CHUNK))
                if not data:
                    raise await self._loss()
                file.write(data)
                left -= len(data)

    receives: Any = None  # opens the file of this machine that a file of the host goes to

    def _to_log(self, kind: str, data: bytes) -> None:
        self.log.write(data.decode(errors="replace"))

    async def _loss(self) -> Trouble:
        """Why the agent has ended."""
        status = await self.process.wait()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reader), END_SECONDS)
        if self.doing == "its login":
            return troubles.of_ssh(self.stderr, status, self.host.name, self.host.python)
        return troubles.of_loss(self.stderr, self.doing)

    def _trouble(self, facts: dict[str, Any]) -> Trouble:
        if "trouble" in facts:
            return Trouble(facts["trouble"], facts["remedy"])
        if "file" in facts:
            return troubles.of_file(facts["error"], facts["number"] or 0, facts["file"])
        output = facts.get("output", facts.get("error", ""))
        return troubles.of_command(output, facts.get("status", 1), facts.get("what", "it"), self.log.path)

    async def close(self) -> None:
        """End the agent; ssh's connection stays for a while."""
        if self.process is None:
            return
        with suppress(OSError):
            self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), END_SECONDS)
        except asyncio.TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader

    async def hang_up(self) -> None:
        """End ssh's connection to the host, for all commands."""
        words = ssh.closing_line(self.cluster, self.host, self.folder)
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*words, stdin=null, stdout=null, stderr=null)
        await process.wait()
        with suppress(OSError):
            os.rmdir(self.folder)  # the last one
