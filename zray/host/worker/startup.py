"""The life of a worker process, from its fork to its exit code."""

from __future__ import annotations

import os
import random
import resource
import sys
from contextlib import suppress
from typing import Any

from ...exceptions import ClusterLostError
from .. import context
from ..output.worker_output import begun_lines
from ..session.session import Session
from .exit import heard_before_exit
from .main import Leave, Worker

# Half of what a process that has all memory gets: a program that has more than half of it goes first all the same.
OOM_SCORE = 500


def main(session: Session, worker: str, worker_id: int, node_pidfd: int) -> int:
    """Run a worker, and return its exit code."""
    prefer_as_victim()
    if begun_lines.log is not None:  # the streams of this process are a worker's
        pid = os.getpid()
        log, errors = session.worker_log_path(worker_id, pid), session.worker_errors_path(worker_id, pid)
        begun_lines.error_file.lead(log, errors)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(int.from_bytes(os.urandom(4), "big"))
    random.seed()
    try:
        try:
            runtime = Worker(session, worker, worker_id, node_pidfd)
        except RuntimeError as error:
            if "thread" not in str(error):
                raise
            # Each further worker ends in the same way: equal lines are folded, tracebacks with pids are not.
            print(
                f"zray: a worker process has ended, since it could not start a thread ({error}): this user may have "
                f"{_processes_allowed()} processes and threads (`ulimit -u`).  Other workers go on.",
                file=sys.stderr,
            )
            return 1
        context.set_runtime(runtime)
        sys.breakpointhook = wait_for_debugger
        try:
            with heard_before_exit(runtime):
                runtime.run()
        except Leave as leave:
            runtime.flush()
            return int(leave.code or 0)
    except ClusterLostError:
        return 0
    return 0


def wait_for_debugger(*args: Any, **kwargs: Any) -> Any:
    """`sys.breakpointhook` of workers (breakpoints.py)."""
    from .breakpoints import hook  # imports pdb

    return hook(*args, **kwargs)


def prefer_as_victim() -> None:
    """Have the kernel's OOM killer choose this process and its children before the node and the program."""
    with suppress(OSError):  # a container may not allow it
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"%d" % OOM_SCORE)
        finally:
            os.close(descriptor)


def _processes_allowed() -> str:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return "unlimited" if limit == resource.RLIM_INFINITY else f"{limit:,}"
