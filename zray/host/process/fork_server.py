"""The fork server: a small, single-threaded process that has imported all modules and forks workers.

It is the workers' parent, since only a parent can read an exit code.  It has no ZeroMQ context and no thread, so a fork
is safe; math libraries are set to one thread before numpy is imported.  It adopts the orphans of its workers, so that
processes started by tasks end with the session too.

The node ends the fork server in order.  If the node is killed, the fork server ends its workers, and removes the
session's remains.  Messages on the socket, a msgpack list per packet:

    node           ["start", worker, worker_id]   ["kill", worker]   ["stop", ""]   ["continue", ""]
    fork server    ["ready"]  ["idle"]  ["started", worker, pid]  ["failed", worker, reason]
                   ["exited", worker, wait status, pid, peak memory in bytes]
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator

from msgspec import msgpack

from ...store.libraries import look_around
from ..output.worker_output import worker_streams
from ..session.session import CONNECTION_DESCRIPTOR, NODE_DESCRIPTOR, Session
from .crash_reports import close_stack, keep_stack, open_stack
from .launch_fork_server import LATER
from .math_threads import threads
from .preloading import Preloading
from .process_utils import adopt_orphans, children_of, end_children, end_process, end_with_parent, wait_for_end
from .spawn import PACKET_BYTES_MAX
from .stack_requests import answer_with_stacks
from .titles import IDLE, set_title

NODE_END_SECONDS = 5.0


class ForkServer:
    """The workers of a node."""

    def __init__(
        self, session: Session, connection: socket.socket, node_pidfd: int, idle_seconds: float | None = None
    ) -> None:
        """idle_seconds: report after this time without a worker; None: never."""
        self.session = session
        self.idle_seconds = idle_seconds
        self.connection = connection
        self.node_pidfd = node_pidfd
        self.pid_by_worker: dict[str, int] = {}
        self.worker_by_pid: dict[int, str] = {}
        self.stacks: dict[int, tuple[int, int]] = {}  # worker_id and descriptor of a worker's crash report, by pid
        # The pipe gets a byte for every child that ends.
        self.ends, self.ends_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self.ends_in, warn_on_full_buffer=False)
        self.poll = select.poll()
        self.preloading = Preloading()
        self.is_loaded = False
        for descriptor in (connection.fileno(), node_pidfd, self.ends, self.preloading.lines):
            self.poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Run until the node ends."""
        self.tell("ready")
        while True:
            is_unused = self.idle_seconds is not None and not self.pid_by_worker
            ready = self.poll.poll(1000 * self.idle_seconds if is_unused else None)  # type: ignore[operator]
            if not ready:
                self.tell("idle")
            for descriptor, _ in ready:
                if descriptor == self.node_pidfd:
                    return
                if descriptor == self.ends:
                    os.read(self.ends, 4096)
                    self.reap()
                    continue
                if descriptor == self.preloading.lines:
                    self.preloading.read()
                    continue
                try:
                    packet = self.connection.recv(PACKET_BYTES_MAX)
                except OSError:
                    packet = b""
                if not packet:
                    return
                self.obey(msgpack.decode(packet))

    def obey(self, order: list[object]) -> None:
        """Carry out an order: start or kill a worker; stop or continue all."""
        if order[0] == "start":
            self.start(str(order[1]), int(order[2]))  # type: ignore[call-overload]
        elif order[0] == "kill":
            pid = self.pid_by_worker.get(str(order[1]))
            if pid is not None:
                self.send_signal(pid, signal.SIGKILL)
        elif order[0] == "interrupt":
            pid = self.pid_by_worker.get(str(order[1]))
            if pid is not None:
                os.kill(pid, signal.SIGURG)  # not reaped: the number is still its
        elif order[0] in ("stop", "continue"):
            self.signal_all(signal.SIGSTOP if order[0] == "stop" else signal.SIGCONT)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all workers with their process groups, and to adopted processes."""
        for pid in children_of(os.getpid()):
            self.send_signal(pid, number)

    def tell(self, *report: object) -> None:
        """Send a report to the node, which may be gone."""
        try:
            self.connection.send(msgpack.encode(report))
        except OSError:
            pass

    def load(self) -> bool:
        """Import the modules of workers.  Returns whether the node still needs them."""
        try:
            for _ in preload():
                if wait_for_end(self.node_pidfd, 0.0):
                    return False  # on a busy machine the rest takes long
        except Exception:
            traceback.print_exc()  # into the log, whose end the node shows
            sys.stderr.flush()
            os._exit(1)  # no child exists that would have to be ended
        # All memory of now is shared with all workers: never scan, never touch it.  A worker enables the collector.
        look_around()
        gc.freeze()
        self.is_loaded = True
        return True

    def start(self, worker: str, worker_id: int) -> None:
        """Fork a worker."""
        if not self.is_loaded and not self.load():
            return
        stack = open_stack()
        try:
            pid = os.fork()
        except OSError as error:
            close_stack(stack)
            self.tell("failed", worker, f"fork: {error}")
            return
        if pid == 0:
            self.become_worker(worker, worker_id, stack)
        self.stacks[pid] = worker_id, stack
        self.pid_by_worker[worker] = pid
        self.worker_by_pid[pid] = worker
        self.tell("started", worker, pid)

    def become_worker(self, worker: str, worker_id: int, stack: int) -> None:
        """Become a worker in the child: cut loose from the fork server, then work until told to stop."""
        status = 1
        try:
            end_with_parent()
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.connection.close()
            os.close(self.ends)
            os.close(self.ends_in)
            for _, of_another in self.stacks.values():
                close_stack(of_another)
            self.preloading.become_worker()
            set_title(IDLE)
            redirect_output(self.session, worker_id)
            # A crash in C prints its stack.
            faulthandler.enable(stack, all_threads=False)
            answer_with_stacks()
            gc.enable()
            from ..worker.startup import main

            status = main(self.session, worker, worker_id, self.node_pidfd)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            end_process(status)

    def reap(self) -> None:
        """Reap ended children: workers, with the rest of their process groups; and orphans."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            worker = self.worker_by_pid.pop(pid, None)
            if worker is not None:
                del self.pid_by_worker[worker]
                self.send_signal(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            if worker is not None:
                worker_id, stack = self.stacks.pop(pid)
                keep_stack(self.session, worker_id, pid, stack)
                self.tell("exited", worker, status, pid, usage.ru_maxrss << 10)

    @staticmethod
    def send_signal(pid: int, number: signal.Signals) -> None:
        """Signal a child and its process group, if any.  The child is not reaped, so the pid is still valid."""
        for send in (os.killpg, os.kill):
            try:
                send(pid, number)
            except (ProcessLookupError, PermissionError):
                pass

    def end(self) -> None:
        """End all children, and remove the remains of the session."""
        # At once all groups, then whatever falls to us.
        for pid in self.pid_by_worker.values():
            self.send_signal(pid, signal.SIGKILL)
        end_children()
        self.connection.close()
        # The node removes the session itself when it ends in order; after a kill -9 this is the last one to.  One that
        # goes on starts another of us.
        if wait_for_end(self.node_pidfd, NODE_END_SECONDS):
            self.session.remove()


def redirect_output(session: Session, worker_id: int) -> None:
    """Redirect standard output and error to the log, without a delay; there is no standard input.

    If a log cannot be made (its folder was removed, or made read-only), output goes to the fork server's log: work is
    worth more than its output.
    """
    try:
        log = session.open_log(session.worker_log_path(worker_id, os.getpid()))
    except OSError as error:
        print(
            f"worker {worker_id} has no log of its own, so its output goes here: {error}", file=sys.stderr, flush=True
        )
    else:
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout, sys.stderr = worker_streams()


# In the order of import.  A module left out costs each worker that needs it some milliseconds after its fork.
PRELOADED = (
    "cloudpickle",
    "zmq",
    "numpy",
    "zray.host.worker.startup",
    "zray.host.worker.actor_runner",
    "zray.store.by_value",
)


def preload() -> Iterator[None]:
    """Import all modules of a worker, once, step by step."""
    threads.begin()
    for module in PRELOADED:
        importlib.import_module(module)
        yield


def main() -> None:
    """Run a fork server.  argv: session name, session root; LATER, where the first worker may be long in coming; for an
    environment's: idle seconds, its lock's descriptor.
    """
    name, root, *more = sys.argv[1:]
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=CONNECTION_DESCRIPTOR)
    connection.set_inheritable(False)
    os.set_inheritable(NODE_DESCRIPTOR, False)
    if len(more) > 1:
        os.set_inheritable(int(more[1]), False)  # inherited by workers, but not by their child processes
    server = ForkServer(Session(name, root), connection, NODE_DESCRIPTOR, float(more[0]) if len(more) > 1 else None)
    try:
        if more == [LATER] or server.load():
            set_title("zray: fork server")
            server.run()
    finally:
        server.end()
