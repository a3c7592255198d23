"""`breakpoint()` in a worker: the task waits for `zray debug`, which talks to pdb through a Unix socket.

The socket lies in the session's folder, which only this user may enter.  Beside it lies a file of facts, by which the
command finds it (cli/debug.py):

    debug-PID-N         the socket: pdb's prompts and output one way, lines of commands the other way
    debug-PID-N.json    task, name, actor, node, pid, file and line

A client that ends its connection leaves the task at the breakpoint, and another client may follow.
"""

from __future__ import annotations

import bdb
import itertools
import json
import linecache
import os
import pdb
import socket
import struct
import sys
import time
from types import FrameType, TracebackType
from typing import Any, TextIO, cast

from ...wire.task_spec import parse_options
from .. import context
from ..client.task_context import current_call

PREFIX = "debug-"
# A task without a client goes on after this time.
WAIT_SECONDS = 600.0
WAIT_VARIABLE = "ZRAY_BREAKPOINT_SECONDS"
# Frames of these modules are not the caller's.
_ALIASES = ("zray.util.rpdb", "zray.host.worker.startup", __name__)
_CREDENTIALS = struct.Struct("3i")  # pid, user, group
_numbers = itertools.count(1)


class Listener:
    """A place where a client can attach: a socket and its file of facts."""

    def __init__(self, frame: FrameType, why: str) -> None:
        runtime = cast(Any, context.runtime)
        path = os.path.join(runtime.paths.folder, f"{PREFIX}{os.getpid()}-{next(_numbers)}")
        self.path = path
        self.facts = _facts(frame, why)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.bind(path)
            self.socket.listen(1)
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump(self.facts, file)
            os.rename(f"{path}.new", f"{path}.json")
        except BaseException:
            self.close()
            raise

    def accept(self, seconds: float) -> socket.socket | None:
        """Wait for a client of this user; None: none came in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                client, _ = self.socket.accept()
            except TimeoutError:
                break
            client.setblocking(True)
            peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(peer)[1] in (os.getuid(), 0):
                return client
            client.close()
        return None

    def close(self) -> None:
        """Remove the socket and the file."""
        self.socket.close()
        for path in (self.path, f"{self.path}.json", f"{self.path}.new"):
            try:
                os.unlink(path)
            except OSError:
                pass  # with the session's folder


def _facts(frame: FrameType, why: str) -> dict[str, Any]:
    """Return the facts that the command shows of a breakpoint."""
    worker = cast(Any, context.runtime)
    call = current_call.get() or worker.call
    return {
        "task_id": call.spec.task_id.hex() if call is not None else "",
        "name": worker.name_of(call.spec) if call is not None else "",
        "actor_id": parse_options(call.spec.options).actor_id.hex() if call is not None else "",
        "node_id": worker.node_id.hex(),
        "pid": os.getpid(),
        "file": frame.f_code.co_filename,
        "line": frame.f_lineno,
        "since": time.time(),
        "why": why,
    }


def _seconds() -> float:
    try:
        return float(os.environ[WAIT_VARIABLE])
    except (KeyError, ValueError):
        return WAIT_SECONDS


class Terminal:
    """The text streams of a debugger, over the connection of whichever client is there."""

    encoding = "utf-8"

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.client: socket.socket | None = None
        self.lines: TextIO | None = None
        self.debugger: Debugger | None = None

    def attach(self) -> bool:
        """Wait for a client.  Returns whether one came."""
        self.client = self.listener.accept(_seconds())
        if self.client is None:
            return False
        self.lines = self.client.makefile("r", encoding="utf-8", errors="replace", newline="\n")
        return True

    def readline(self) -> str:
        """Return the next command; that of a further client if this one has left; "continue" if none comes."""
        while True:
            try:
                line = self.lines.readline() if self.lines is not None else ""
            except OSError:
                line = ""
            if line:
                return line
            self.detach()
            if not self.attach():
                say(f"nobody attached within {_seconds():g} s, so the task goes on")
                if self.debugger is not None:
                    self.debugger.clear_all_breaks()
                return "continue\n"
            if self.debugger is not None:
                self.debugger.show_place()

    def write(self, text: str) -> None:
        """Send text to the client."""
        if self.client is not None:
            try:
                self.client.sendall(text.encode("utf-8", "backslashreplace"))
            except OSError:
                pass  # it has left: `readline` waits for another one

    def flush(self) -> None:
        """Do nothing: text is sent at once."""

    def detach(self) -> None:
        """End the connection."""
        if self.lines is not None:
            self.lines.close()
        if self.client is not None:
            self.client.close()
        self.client = self.lines = None

    def close(self) -> None:
        """End the connection, and remove the listener."""
        self.detach()
        self.listener.close()


class Debugger(pdb.Pdb):
    """pdb that ends with the user's code: it never steps into the frames of the worker beneath."""

    def __init__(self, terminal: Terminal, beneath: FrameType | None) -> None:
        stream = cast(Any, terminal)
        super().__init__(stdin=stream, stdout=stream, nosigint=True)
        self.prompt = "(zray-pdb) "
        self.use_rawinput = False
        self.terminal = terminal
        self.beneath = beneath
        terminal.debugger = self

    def show_place(self) -> None:
        """Print where the task stands, for a client that has not seen it.

        pdb's own way reads `f_locals` again, and so loses changes of variables before Python 3.13.
        """
        if self.stack:
            frame, line = self.stack[self.curindex]
            path, function = frame.f_code.co_filename, frame.f_code.co_name
            source = linecache.getline(path, line, frame.f_globals).strip()
            self.terminal.write(f"> {path}({line}){function}()\n-> {source}\n")
        self.terminal.write(self.prompt)

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the frames of the user's code: those of the worker are left out."""
        stack, index = super().get_stack(f, t)
        frames = [frame for frame, _ in stack]
        first = frames.index(self.beneath) + 1 if self.beneath in frames else 0
        return stack[first:], index - first

    def leave(self) -> None:
        """End the debugging of this task."""
        self.beneath = None
        self.terminal.debugger = None
        self.terminal.close()

    def interaction(self, *args: Any) -> None:
        """Obey commands; a task that is cancelled meanwhile has no breakpoint any more."""
        try:
            super().interaction(*args)
        except BaseException:
            self.leave()
            raise

    def stop_here(self, frame: FrameType) -> bool:
        """Whether to stop in a frame."""
        if frame is self.beneath:
            self.clear_all_breaks()
            self.set_continue()
            self.leave()
            return False
        return super().stop_here(frame)

    def do_continue(self, arg: str) -> bool | None:
        """c(ont(inue)): continue, until a breakpoint is met."""
        if not self.breaks:
            self.terminal.write("The task goes on.\n")
        result = super().do_continue(arg)
        if not self.breaks:
            self.leave()
        return result

    do_c = do_cont = do_continue

    def do_quit(self, arg: str) -> bool | None:
        """q(uit): end the task with bdb.BdbQuit."""
        self.terminal.write("The task ends with bdb.BdbQuit.\n")
        result = super().do_quit(arg)
        self.leave()
        return result

    do_q = do_exit = do_quit


def say(text: str) -> None:
    """Print a line about this task on its standard error, which the driver shows."""
    print(f"zray: {text}.", file=sys.stderr, flush=True)


def _begin(frame: FrameType, why: str) -> Debugger | None:
    """Wait for a client; None: none came, or the place cannot be made."""
    try:
        listener = Listener(frame, why)
    except OSError as error:
        say(f"the task goes on past its breakpoint, since `zray debug` could not attach: {error}")
        return None
    terminal = Terminal(listener)
    try:
        facts = listener.facts
        minutes = f"{_seconds() / 60:g} minutes"
        place = f"{facts['file']}:{facts['line']}"
        id = facts["task_id"] or str(facts["pid"])
        say(f"{facts['name'] or 'a thread'} {why} {place}: attach with `zray debug {id}` within {minutes}")
        if not terminal.attach():
            say(f"nobody attached within {_seconds():g} s, so the task goes on")
            terminal.close()
            return None
    except BaseException:
        terminal.close()
        raise
    beneath: FrameType | None = frame
    while beneath is not None and not str(beneath.f_globals.get("__name__", "")).startswith("zray.host."):
        beneath = beneath.f_back
    return Debugger(terminal, beneath)


def hook(*args: Any, **kwargs: Any) -> Any:
    """Stop in the caller: `sys.breakpointhook` of workers.  PYTHONBREAKPOINT counts as everywhere."""
    if os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*args, **kwargs)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _ALIASES:
        frame = frame.f_back
    if frame is None or context.runtime is None:
        return sys.__breakpointhook__(*args, **kwargs)
    debugger = _begin(frame, "stands at the breakpoint")
    if debugger is not None:
        debugger.set_trace(frame)  # last: the next line that runs is the user's
    return None


def post_mortem(traceback: TracebackType | None) -> None:
    """Wait for a client, and show it the frames of an error."""
    while traceback is not None and str(traceback.tb_frame.f_globals.get("__name__", "")).startswith("zray.host."):
        traceback = traceback.tb_next
    if traceback is None or context.runtime is None:
        return
    last = traceback
    while last.tb_next is not None:
        last = last.tb_next
    debugger = _begin(last.tb_frame, "has failed at")
    if debugger is None:
        return
    try:
        debugger.reset()
        debugger.interaction(None, traceback)
    except bdb.BdbQuit:
        pass  # the error counts
    finally:
        if debugger.terminal.debugger is not None:
            debugger.leave()
