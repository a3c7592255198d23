"""The outcome of a task or call whose user code raised: an error value, and whether its options ask for a retry."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..exceptions import RuntimeEnvSetupError
from ..store.errors import serialize_cancellation, serialize_error, serialize_system_error
from ..store.values import deserialize
from ..wire.task_spec import TaskOptions
from .hints import add_hints
from .returns import WrongCount

# The values of a task, the refs inside of each, and whether its options ask for one more attempt.
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
    """The user's exception behind a TaskError that only passed through."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
