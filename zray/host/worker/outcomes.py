"""The outcome of a task or call: the values of several returns, or the error that user code raised."""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...exceptions import RuntimeEnvSetupError
from ...ids import return_id
from ...store.errors import serialize_cancellation, serialize_error, serialize_system_error
from ...store.values import deserialize, serialize
from ...wire.objects import AbandonObject
from ...wire.task_spec import StoredValue, TaskOptions, TaskSpec
from ..client.error_hints import add_hints
from .generators import is_cancelled, run_dynamic, run_generator
from .replays import WrongCount, keep

if TYPE_CHECKING:
    from .main import Worker

# Limit of a task's returns inside its message; the rest lies in the arena (frames have a limit).
SEVERAL_INLINE_BYTES_MAX = 16 << 20


def several(
    worker: Worker, spec: TaskSpec, value: Any, options: TaskOptions
) -> tuple[list[bytes | StoredValue], tuple[tuple[bytes, ...], ...]]:
    """Return the values of a task with several returns, or of a generator, and the refs in each.

    Each value is stored before the next is requested: a generator may fill the same array again, and memory never holds
    more than one value.

    Raises:
        WrongCount: the task returned another number of values.
        any error of a generator that has yielded nothing before, or is run again; else the further returns hold it.
    """
    count = options.num_returns
    if options.is_generator:
        return [run_generator(worker, spec, value)], ()
    if options.is_dynamic:
        return run_dynamic(worker, spec, value)
    if count == 0:
        return [serialize(None).inband], ()
    due = f"{worker.name_of(spec)} was called with num_returns={count}"
    try:
        parts = iter(value)
    except TypeError:
        kind = type(value).__name__
        raise WrongCount(f"{due}, but returned one value of type {kind}, and no tuple or list.") from None
    if hasattr(value, "__len__") and len(value) != count:
        raise WrongCount(f"{due}, but returned {len(value)} values.")
    values: list[bytes | StoredValue] = []
    contained = []
    inline_bytes = 0
    try:
        for index, part in enumerate(islice(parts, 1) if options.takes_first else parts, 1):
            if index > count:
                print(f"zray: {due}, and its generator yields more: the others are dropped.", file=sys.stderr)
                close = getattr(parts, "close", None)
                if close is not None:
                    close()
                break
            serialized = serialize(part)
            if inline_bytes + serialized.size <= SEVERAL_INLINE_BYTES_MAX:
                stored = worker.store(return_id(spec.task_id, index), serialized)
            else:
                stored = worker.writer.write(return_id(spec.task_id, index), serialized)
            values.append(stored)
            inline_bytes += len(stored) if type(stored) is bytes else 0
            contained.append(serialized.contained)
        if len(values) != count:
            raise WrongCount(f"{due}, but its generator yielded {len(values)} values.")
    except BaseException as error:
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next  # this frame is not the user's
        is_own = isinstance(error, Exception) and not is_cancelled(worker, spec)
        if values and is_own and not options.retry_exceptions:
            name = worker.name_of(spec)
            failed, inside, _ = raised(options, name, error, worker.node_id.hex(), is_far=False)
            keep(worker, spec, name, error)
            rest = count - len(values)
            return values + failed[:rest], tuple(contained) + (inside[:rest] or ((),) * rest)
        for index, stored in enumerate(values, 1):
            if type(stored) is StoredValue:
                worker.say(AbandonObject(return_id(spec.task_id, index)))
        raise
    return values, tuple(contained) if any(contained) else ()


# The values of a task, the refs inside each, and whether its options ask for a retry.
Failure = tuple[list[Any], tuple[tuple[bytes, ...], ...], bool]


def raised(options: TaskOptions, name: str, error: BaseException, node: str, *, is_far: bool) -> Failure:
    """Each return holds the error.  Not for exits.

    node: the id of the node, in hexadecimal.  is_far: the code of the program is on another node.
    """
    count = max(1, options.num_returns)
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
        add_hints(error, node if is_far else "")
    failed = serialize_error(error, name, node=node, skip_frames=1)
    return [failed.inband] * count, (failed.contained,) * count if failed.contained else (), wants_retry


def _cause_of(error: BaseException) -> BaseException:
    """Return the user's exception behind a TaskError that only passed through."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
