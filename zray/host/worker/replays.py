"""Replay files of failed tasks and calls, written by the worker at the failure (session/replay_files.py).

Tasks and calls that succeed never come here.  The first failure of each function and type of error in a session is
written.  Further ones are written as long as writing takes a fiftieth of the process's time, and at most five a second.
"""

from __future__ import annotations

import linecache
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import xxhash

from ...exceptions import RuntimeEnvSetupError
from ...store.errors import traceback_text
from ...store.folding import OWN_FOLDER
from ...store.functions import CodeInStore
from ...store.values import is_error
from ...version import __version__
from ...wire.task_spec import DEFAULT_OPTIONS, RESOURCE_UNIT, StoredValue, TaskOptions, TaskSpec, parse_options
from ..session import replay_files
from ..session.replay_files import ReplayFacts, described
from .actor_states import Capture, bytes_of

if TYPE_CHECKING:
    from .main import Worker


class WrongCount(Exception):
    """A task returned a number of values other than its num_returns: its text is a ValueError's."""


VARIABLE = "ZRAY_REPLAY"
PAUSE_SECONDS = 0.2
PAUSE_FACTOR = 50.0
# Failures of which the first is written at once.  Those of a program that makes ever new functions are repeated ones.
KEYS_MAX = 50
SOURCE_BYTES_MAX = 1 << 18
CODE_HEAD_BYTES = 200
# Errors that say all, or are not of the user's code.
UNWANTED = (KeyboardInterrupt, GeneratorExit, SystemExit, RuntimeEnvSetupError, WrongCount)

# Further attempts of a task whose file is there are written at once, so often.
ATTEMPTS_MAX = 10
WRITTEN_MAX = 100

_seen: set[str] = set()  # failures that this process has met
_written: dict[bytes, int] = {}  # tasks -> how often this process has written their files
_due = 0.0  # no repeated failure is written before


def keep(
    worker: Worker, spec: TaskSpec, name: str, error: BaseException, *, kind: str = "", may_be_retried: bool = False
) -> None:
    """Write the file of a failure, if it is time for one.  Never raises.  kind: "": what the spec says."""
    global _due
    if isinstance(error, UNWANTED) or os.environ.get(VARIABLE) == "0":
        return
    what = spec.function_id or name.encode()
    key = xxhash.xxh3_64_hexdigest(what + type(error).__qualname__.encode("utf-8", "replace"))
    began = time.perf_counter()
    is_known = key in _seen or len(_seen) >= KEYS_MAX
    is_again = 0 < _written.get(spec.task_id, 0) < ATTEMPTS_MAX
    if is_known and began < _due and not is_again:
        return
    # A class of the user's, a full disk, the end of the session: the task's error counts.  Local mode has no folder.
    with suppress(Exception):
        folder = worker.paths.logs
        if not os.path.islink(folder) or _came_from_arguments(worker, spec):
            return  # nothing is kept, or the task has not run
        names = [name for name, _ in replay_files.present(folder)] if not is_known else []
        is_known = is_known or any(replay_files.key_of(each) == key for each in names)
        is_again = is_again or any(spec.task_id.hex() in each for each in names)
        _seen.add(key)
        if not is_known or is_again or 0 < _due <= began:
            facts = _facts(worker, spec, name, error, kind or ("task" if spec.function_id else "method"))
            facts.may_be_retried = may_be_retried
            replay_files.write(folder, key, facts, _content(worker, spec, facts))
            _written[spec.task_id] = _written.pop(spec.task_id, 0) + 1
            if len(_written) > WRITTEN_MAX:
                del _written[next(iter(_written))]
    now = time.perf_counter()
    _due = now + max(PAUSE_SECONDS, PAUSE_FACTOR * (now - began))


def _came_from_arguments(worker: Worker, spec: TaskSpec) -> bool:
    values = (worker.executor.arguments.get(object_id) for object_id in spec.deps)
    return any(value is None or (type(value) is not StoredValue and is_error(value)) for value in values)


def _facts(worker: Worker, spec: TaskSpec, name: str, error: BaseException, kind: str) -> ReplayFacts:
    options = parse_options(spec.options)
    function = worker.executor.functions.get(spec.function_id)
    error_type, error_text = described(error)
    environment = (*worker.facts.env_vars, *worker.environment.env_vars)
    return ReplayFacts(
        kind=kind,
        task_id=spec.task_id.hex(),
        job_id=worker.job_id.hex(),
        name=name,
        function=function.name if function is not None else name,
        time=time.time(),
        pid=os.getpid(),
        node_id=worker.node_id.hex(),
        host=os.uname().nodename,
        error_type=error_type,
        error_text=error_text,
        traceback=traceback_text(error, 1),
        options=_options(options),
        num_returns=options.num_returns,
        yields=options.is_generator or options.is_dynamic,
        seed=worker.facts.seed,
        path=worker.path_of(spec).hex(),
        as_ray=worker.facts.as_ray,
        env_names=sorted({name for name, _ in environment}),  # values may be secrets
        requested_packages=worker.environment.packages,
        working_dir=worker.facts.working_dir if worker.environment.working_dir is None else os.getcwd(),
        sys_path=[path for path in sys.path if path],
        python=".".join(map(str, sys.version_info[:3])),
        zray=__version__,
        packages=dict(_packages()),
        sources=dict(_sources(error)),
    )


def _options(options: TaskOptions) -> dict[str, Any]:
    """Return the options that the user has given."""
    found: dict[str, Any] = {name: value / RESOURCE_UNIT for name, value in options.resources.items()}
    for name in ("max_retries", "retry_exceptions", "time_limit", "priority", "max_calls"):
        if (value := getattr(options, name)) != getattr(DEFAULT_OPTIONS, name):
            found[name] = value
    return found


def _packages() -> Iterator[tuple[str, str]]:
    """Yield imported packages with their versions."""
    for name, module in list(sys.modules.items()):
        if "." not in name and name != "zray" and name not in sys.stdlib_module_names:
            version = getattr(module, "__dict__", {}).get("__version__")
            if type(version) is str:
                yield name, version


def _sources(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield files of the traceback's frames whose code came by value: the program may change, or be elsewhere."""
    trace, found = error.__traceback__, set()
    while trace is not None:
        known, path = trace.tb_frame.f_globals, trace.tb_frame.f_code.co_filename
        module = sys.modules.get(str(known.get("__name__")))
        if path not in found and not path.startswith(OWN_FOLDER) and getattr(module, "__dict__", None) is not known:
            found.add(path)
            text = "".join(linecache.getlines(path, known))
            if 0 < len(text) <= SOURCE_BYTES_MAX:
                yield path, text
        trace = trace.tb_next


def _content(worker: Worker, spec: TaskSpec, facts: ReplayFacts) -> list[Any]:
    """Return code, payload and values, noted in the facts; nothing if they are too large, or are not all."""
    options, actor, parts, capture = parse_options(spec.options), None, list[Any](), None
    if facts.kind == "method" and (actor := worker.actor.of(spec)) is None:
        return []  # it has ended meanwhile
    code = worker.executor.functions[actor.creation.function_id if actor is not None else spec.function_id].code
    values = {object_id: worker.executor.arguments[object_id] for object_id in spec.deps}
    sizes = [_size_of(value) for value in values.values()]
    total = len(code) + len(spec.args) + sum(sizes)
    is_elsewhere = CodeInStore.__name__.encode() in code[:CODE_HEAD_BYTES]
    if total > replay_files.CONTENT_BYTES_MAX or is_elsewhere:
        facts.left_out = max(total, replay_files.CONTENT_BYTES_MAX + 1)
        return []
    facts.code_bytes, facts.args_bytes, facts.value_bytes = len(code), len(spec.args), sizes
    parts += [code, spec.args, *(bytes_of(worker, object_id, value) for object_id, value in values.items())]
    files = {parcel.object_id for parcel in options.environment.parcels}
    refs = [each for each in spec.holds if each not in files]
    if actor is not None:
        capture = Capture(worker, spec, actor, replay_files.CONTENT_BYTES_MAX - total)
        facts.actor = capture.facts
        total += sum(capture.facts.lengths())
        refs = [*dict.fromkeys((*refs, *capture.contained))]
    for object_id in refs:
        with worker.lock:
            value = worker.client.values.get(object_id, b"")
        total += _size_of(value)
        content = bytes_of(worker, object_id, value) if total <= replay_files.CONTENT_BYTES_MAX else b""
        facts.refs.append(object_id.hex())
        facts.ref_bytes.append(len(content))
        parts.append(content)
    return parts if capture is None else [*parts, *capture.parts]


def _size_of(value: bytes | StoredValue) -> int:
    return value.size if type(value) is StoredValue else len(value)  # type: ignore[arg-type]
