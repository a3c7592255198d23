"""The outcome of a task or call whose user code raised: an error value, one more attempt, or the end of the process."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..exceptions import RuntimeEnvSetupError, encode_system_error
from ..store.errors import serialize_cancellation, serialize_error, serialize_system_error
from ..store.values import deserialize
from ..wire.task_spec import TaskSpec, parse_options
from .crash_reports import read_report, write_exit
from .forks import end_child
from .hints import add_hints
from .leaving import Parting, crash, exit_in_words, exit_status
from .logs import begun_lines
from .returns import WrongCount

if TYPE_CHECKING:
    from .worker_main import Worker

# The values of a task, the refs inside of each, and whether its options ask for one more attempt.
Failure = tuple[list[Any], tuple[tuple[bytes, ...], ...], bool]


def failure(worker: Worker, spec: TaskSpec, error: BaseException) -> Failure:
    """Each return holds the error.  An exit ends the process: at once for an actor, else behind the task in hand."""
    if os.getpid() != worker.pid:
        end_child(error)
    options = parse_options(spec.options)
    count = max(1, options.num_returns)
    name = worker.name_of(spec)
    if isinstance(error, SystemExit):
        if worker.actor is not None:
            crash(worker, name, error)
        return [_exited(worker, name, error)] * count, (), False
    wants_retry = False
    if type(error) is WrongCount:
        error = ValueError(*error.args)  # without a traceback, which would be of zray's own
    if options.retry_exceptions and not isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        with suppress(Exception):  # code of the user's runs here, and classes may be missing: no retry then
            wants_retry = not options.retry_on or isinstance(_cause_of(error), deserialize(options.retry_on))
    if type(error) is RuntimeEnvSetupError:  # it never ran
        return [serialize_system_error(error)] * count, (), False
    if isinstance(error, KeyboardInterrupt):
        return [serialize_cancellation(error, name, skip_frames=1)] * count, (), False
    with suppress(Exception):  # likewise: no hints
        add_hints(error, worker.node_id.hex() if worker.code is not None and worker.code.is_elsewhere else "")
    failed = serialize_error(error, name, node=worker.node_id.hex(), skip_frames=1)
    return [failed.inband] * count, (failed.contained,) * count if failed.contained else (), wants_retry


def _exited(worker: Worker, name: str, error: SystemExit) -> bytes:
    """The error of a task that called sys.exit(): a decision of the user's code, so no attempt is repeated."""
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
    text = f"Task {name} {how}.  Its worker process ends, and the task is not retried."
    return encode_system_error("WorkerCrashedError", text, details)


def _cause_of(error: BaseException) -> BaseException:
    """The user's exception behind a TaskError that only passed through."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
