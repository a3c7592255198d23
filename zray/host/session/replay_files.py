"""Files of failed tasks and calls in the kept logs of a session: all that another run needs (`zray replay`).

    replay-KEY-TASK.zray      0600; KEY is of the function and the type of the error, TASK the id

    magic, length of the facts, facts as msgpack, code, payload of the arguments, values of refs
    of a call of an actor too: the state, arguments of the constructor, arguments of earlier calls

The facts can be read without unpickling anything.  Code and values are those that travelled to the worker.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, ValidationError
from msgspec.msgpack import Decoder, Encoder

PREFIX, SUFFIX = "replay-", ".zray"
MAGIC = b"zray replay 1\n"
LENGTH_BYTES = 4
FACTS_BYTES_MAX = 16 << 20
# More is left out of a file.
CONTENT_BYTES_MAX = 64 << 20
# Limits of a session on one node: nobody runs so many failures again, and output has the rest of the kept 1 GiB.
FILES_MAX = 100
BYTES_MAX = 256 << 20

_encode = Encoder().encode


class EarlierCall(Struct, omit_defaults=True):
    """A call of an actor since its checkpoint."""

    name: str
    method: str
    task_id: str
    path: str = ""
    args_bytes: int = 0
    value_bytes: list[int] = []


class ActorFacts(Struct, omit_defaults=True):
    """The actor of a failed call: what its file has of it.

    state: the `instance` after the failure, or `attributes` of it; a `checkpoint`; or "".
    is_before: the checkpoint, or else the constructor, and `earlier` give the state before the call.
    reason: why the file has no such state.  absent: attributes that it lacks, and why.
    """

    method: str
    state: str = ""
    is_before: bool = False
    reason: str = ""
    absent: dict[str, str] = {}
    running: int = 0  # further calls that ran at the same time
    state_bytes: int = 0
    has_creation: bool = False  # the arguments of the constructor
    creation_bytes: int = 0
    creation_value_bytes: list[int] = []
    earlier: list[EarlierCall] = []

    def lengths(self) -> Iterator[int]:
        """Yield the bytes of each part."""
        yield from (self.state_bytes, self.creation_bytes, *self.creation_value_bytes)
        for call in self.earlier:
            yield from (call.args_bytes, *call.value_bytes)


class ReplayFacts(Struct, omit_defaults=True):
    """Facts on a failed task or call, beside its code and arguments."""

    kind: str = "task"  # or "constructor", "method"
    task_id: str = ""
    job_id: str = ""
    name: str = ""  # of the task
    function: str = ""
    time: float = 0.0
    pid: int = 0
    node_id: str = ""
    host: str = ""
    error_type: str = ""
    error_text: str = ""
    traceback: str = ""
    may_be_retried: bool = False
    code_bytes: int = 0
    args_bytes: int = 0
    value_bytes: list[int] = []
    left_out: int = 0  # bytes of code and arguments, if these are not in the file
    refs: list[str] = []  # ids of refs inside of arguments and code
    ref_bytes: list[int] = []  # of their values, as far as the task has had them; 0: it has not
    options: dict[str, Any] = {}  # that differ from the defaults
    num_returns: int = 1
    yields: bool = False  # the function is a generator, whose items are taken one by one
    seed: int | None = None
    path: str = ""
    as_ray: bool = False  # the program is one of Ray's
    env_names: list[str] = []
    requested_packages: str = ""
    working_dir: str = ""
    sys_path: list[str] = []
    python: str = ""
    zray: str = ""
    packages: dict[str, str] = {}
    sources: dict[str, str] = {}  # of files whose code travelled by value
    actor: ActorFacts | None = None  # of a call


_decode = Decoder(ReplayFacts).decode


def described(error: BaseException) -> tuple[str, str]:
    """Return type and text of the user's exception, as they are compared with those of another run."""
    cause = getattr(error, "cause", None)
    error = cause if isinstance(cause, BaseException) else error
    cls = type(error)
    try:
        text = str(error)
    except BaseException as trouble:  # the user's code
        text = f"(its own text fails: {type(trouble).__name__})"
    text = text if len(text) <= 10_000 else text[:10_000]
    return f"{cls.__module__}.{cls.__qualname__}", text.encode("utf-8", "backslashreplace").decode()


def present(folder: str) -> list[tuple[str, os.stat_result]]:
    """Return the files of a folder, the oldest first."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX):
                with suppress(OSError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda each: each[1].st_mtime)


def key_of(name: str) -> str:
    """Return the key of a file's name."""
    return name.removeprefix(PREFIX).partition("-")[0]


def write(folder: str, key: str, facts: ReplayFacts, parts: Sequence[Any]) -> None:
    """Write a file, in place of that of an earlier attempt, and remove files beyond the limits.

    parts: code, payload and values.

    Raises:
        OSError: the folder is gone, or the disk is full.
    """
    head = _encode(facts)
    name = f"{PREFIX}{key}-{facts.task_id}{SUFFIX}"
    path = os.path.join(folder, f".{name}.new")  # an ended session's logs lose names with a dot
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(MAGIC + len(head).to_bytes(LENGTH_BYTES, "little") + head)
            for part in parts:
                file.write(part)
        os.rename(path, os.path.join(folder, name))
    except OSError:
        os.unlink(path)
        raise
    _sweep(folder)


def _sweep(folder: str) -> None:
    """Remove the oldest files, first of the failure that has most: a flood of one leaves the others."""
    found = present(folder)
    room = sum(status.st_size for _, status in found)
    counts = Counter(key_of(name) for name, _ in found)
    while found and (len(found) > FILES_MAX or room > BYTES_MAX):
        most = counts.most_common(1)[0][0]
        place = next(index for index, (name, _) in enumerate(found) if key_of(name) == most)
        name, status = found.pop(place)
        counts[most] -= 1
        room -= status.st_size
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))


def read_facts(file: Any) -> ReplayFacts:
    """Read the facts of an open file, whose position is then that of the code.

    Raises:
        ValueError: the file has another format, or is cut off.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("it is no replay file of this version of zray")
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    head = file.read(min(length, FACTS_BYTES_MAX))
    try:
        return _decode(head)
    except (ValidationError, ValueError) as error:
        raise ValueError(f"its facts cannot be read: {error}") from None


def read_parts(file: Any, facts: ReplayFacts) -> Iterator[bytes]:
    """Read code, payload, values of arguments, values of refs inside of them, and the parts of an actor.

    Raises:
        ValueError: the file is cut off.
    """
    of_actor = facts.actor.lengths() if facts.actor is not None else ()
    for length in (facts.code_bytes, facts.args_bytes, *facts.value_bytes, *facts.ref_bytes, *of_actor):
        part = file.read(length)
        if len(part) != length:
            raise ValueError("it is cut off")
        yield part
