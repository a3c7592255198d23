"""The outcome of a task or call that raised in user code: an error value, a retry, or the end of the process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...exceptions import encode_system_error
from ...wire.task_spec import TaskSpec, parse_options
from ..client.fork_guard import end_child
from ..output.worker_output import begun_lines
from ..process.crash_reports import read_report, write_exit
from .exit import Parting, crash
from .exit_errors import exit_in_words, exit_status, exited_task
from .outcomes import Failure, raised
from .replays import keep

if TYPE_CHECKING:
    from .main import Worker


def failure(worker: Worker, spec: TaskSpec, error: BaseException) -> Failure:
    """Each return holds the error.  An exit ends the process: at once for an actor, else behind the task in hand."""
    if os.getpid() != worker.pid:
        end_child(error)
    options = parse_options(spec.options)
    name = worker.name_of(spec)
    ended = worker.cancelling.ended(spec, error, name)
    if isinstance(error, SystemExit):
        if worker.actor is not None:
            crash(worker, name, error)
        exited = _exited(worker, name, error)
        ended = ended or exited
    if ended:
        return [ended] * max(1, options.num_returns), (), False
    if os.environ.get("ZRAY_DEBUG_POST_MORTEM") and isinstance(error, Exception):
        from .breakpoints import post_mortem

        post_mortem(error.__traceback__)
    is_far = worker.code is not None and worker.code.is_elsewhere
    result = raised(options, name, error, worker.node_id.hex(), is_far=is_far)
    keep(worker, spec, name, error, may_be_retried=result[2])
    return result


def _exited(worker: Worker, name: str, error: SystemExit) -> bytes:
    how, status = exit_in_words(error), exit_status(error)
    paths, worker_id, pid = worker.paths, worker.worker_id, worker.pid
    write_exit(paths, worker_id, pid, error, f"{name} has {how}: its worker process ends.")
    begun_lines.write_own(ends_bar=True)
    if worker.parting is None:
        worker.parting = Parting(how, status)
    details = {
        "pid": pid,
        "node": worker.node_id.hex()[:8],
        "exit_text": f"exited with code {status}",
        "log_tail": read_report(paths, worker_id, pid),
    }
    return encode_system_error("WorkerCrashedError", exited_task(name, error), details)
