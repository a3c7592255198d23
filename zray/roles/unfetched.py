"""Failures never fetched by the program: a line for each, a few at a time, for the host of a client to print."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from msgspec import MsgspecError
from msgspec.msgpack import Decoder

from ..exceptions import FIRST_MARK, PAST_MARKS, SYSTEM_ERROR
from ..ids import FIRST_RETURN, TASK_ID_BYTES, return_id
from .kept import Latest

# In a row, until the host takes them: what is beyond that is counted.
LINES_MAX = 5
# The first lines come at once, further ones after this long.
TELL_SECONDS = 10.0
# Tasks whose failure is known; some have several returns, which all hold the same one.
KNOWN_MAX = 10_000
# Values under way from the node whose refs are gone: what one frame of the link may hold of small ones.
CROSSING_MAX = 1_000

_decode = Decoder().decode
# Errors of zray's own that a program should hear of, if it does not ask for the value.  Not here: what a program has
# asked for itself, as the end of an actor or of a task.
_UNASKED = frozenset(
    {"NodeDiedError", "OutOfMemoryError", "RuntimeEnvSetupError", "TaskUnschedulableError", "WorkerCrashedError"}
)
# Ends of actors that a program has not asked for either: all calls get the same error.
_CONSTRUCTORS = frozenset({"its constructor raised", "its state could not be restored"})
_UNHEARD_CHARACTERS_MAX = 300
_TEXT_CHARACTERS_MAX = 4_000  # of a message or a traceback that is looked at
# Lines between the exceptions of a traceback, and exceptions of cancelled tasks.
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_CANCELLED = ("zray.exceptions.TaskCancelledError: ", "zray.exceptions.TaskForceCancelledError: ")


def of_constructor(error: bytes) -> bool:
    """Whether a failure is that of an actor's constructor, which all calls on the actor get."""
    try:
        return error[0] == SYSTEM_ERROR and _decode(memoryview(error)[1:])[2].get("exit_text") in _CONSTRUCTORS
    except (MsgspecError, TypeError, ValueError, AttributeError, IndexError):
        return False


def error_in_words(error: bytes) -> str:
    """Return what the error of a task or an actor says, in a line, with the file and line that raised; "": unknown."""
    try:
        parts = _decode(memoryview(error)[1:])
        said, line = parts[1][:_TEXT_CHARACTERS_MAX].strip().partition("\n")[0], ""
        if error[0] != SYSTEM_ERROR:
            said, line = _end_of(parts[1][-_TEXT_CHARACTERS_MAX:])
        elif of_constructor(error):
            said, line = _end_of(parts[1][-_TEXT_CHARACTERS_MAX:])
            said = f"the constructor raised {said}"
    except (MsgspecError, TypeError, ValueError, AttributeError, IndexError):
        return ""
    return _short(said) + (f" ({line})" if line else "")


def _short(said: str) -> str:
    said = " ".join(said.split())
    return said if len(said) <= _UNHEARD_CHARACTERS_MAX else f"{said[:_UNHEARD_CHARACTERS_MAX]} [...]"


def unheard(error: bytes) -> str:
    """Describe a failure in a line, for a program that never fetched the value; "" if no line is needed."""
    try:
        if error[0] == SYSTEM_ERROR:
            class_name, message, details = _decode(memoryview(error)[1:])
            name, said = "a task", f"{class_name}: {message}" if class_name in _UNASKED else ""
            where = ""
            if of_constructor(error):
                name = f"task {message.partition(': task ')[2].partition(' (')[0]}"
                said, line = _end_of(message)
                where = f"{line}, pid={details['pid']}, node={details['node']}"
        else:
            name, text, pid, node, *_ = _decode(memoryview(error)[1:])
            name, (said, line) = f"task {name}", ("", "") if _is_cancellation(text) else _end_of(text)
            where = ", ".join(part for part in (line, f"pid={pid}", f"node={node}" if node else "") if part)
    except (MsgspecError, TypeError, ValueError, AttributeError, KeyError):
        return ""
    if not said:
        return ""
    return f"{name} failed, and nobody has fetched its result: {_short(said)}" + (f" ({where})" if where else "")


def _is_cancellation(traceback: str) -> bool:
    """Whether a task failed because another one was cancelled, whose value it wanted."""
    last = max(traceback.rfind(line) for line in _CHAINED)  # the exception itself is behind those of which it came
    lines = [line for line in traceback[max(last, 0) :].split("\n") if line and not line[0].isspace()]
    return next((line for line in lines if not line.startswith(("Traceback ", *_CHAINED))), "").startswith(_CANCELLED)


def _end_of(traceback: str) -> tuple[str, str]:
    """Return the exception at the end of a traceback, and the raising file and line ("": unknown)."""
    lines = traceback.rstrip().split("\n")
    place = ""
    for index in reversed(range(len(lines))):
        if lines[index].startswith('  File "'):
            file, _, rest = lines[index][len('  File "') :].partition('", line ')
            place = f"{file}:{rest.partition(',')[0]}"
            behind = [line for line in lines[index + 1 :] if not line.startswith("    ")]
            return (behind or lines[-1:])[0], place
    return lines[-1], place


def _key(task_id: bytes, error: bytes) -> bytes:
    """The key by which a failure is known: the same for all calls on an actor whose constructor failed."""
    return sha256(error).digest() if of_constructor(error) else task_id


class Unfetched:
    """The failures of a process's tasks whose values were never fetched."""

    LASTING = {"fetched": "held", "actors": "held", "lines": "LINES_MAX"}

    def __init__(self, held: Mapping[bytes, bytes]) -> None:
        self.held = held  # the client's
        self.fetched: set[bytes] = set()  # failures that somebody has heard of here
        self.handed: set[bytes] = set()  # objects that others may ask for
        self.actors: set[bytes] = set()  # objects behind the handles of actors that were made here
        self.known: Latest[bytes, None] = Latest(KNOWN_MAX)
        # Objects whose last ref went before their value came: the node may have sent that already.
        self.crossing: Latest[bytes, None] = Latest(CROSSING_MAX)
        self.lines: deque[str] = deque()
        self.left_out = 0
        self.next_at = 0.0

    def made_actor(self, object_id: bytes) -> None:
        """Note the object behind the handle of a new actor."""
        self.actors.add(object_id)

    def gone(self, object_id: bytes, error: bytes) -> None:
        """Report a failure whose last ref is gone, unless the error was fetched or the object handed on."""
        task_id = object_id[:TASK_ID_BYTES]
        if self._may_be_heard(object_id, error):
            self.known[_key(task_id, error)] = None
        elif object_id[TASK_ID_BYTES:] == FIRST_RETURN or return_id(task_id, 1) not in self.held:
            self._failed(task_id, error)
        # Else one of several returns: the first one may still be asked for.

    def _may_be_heard(self, object_id: bytes, error: bytes) -> bool:
        if object_id in self.actors and not of_constructor(error):
            return True  # by the calls
        return object_id in self.fetched or object_id in self.handed

    def heard(self, object_id: bytes, error: bytes) -> None:
        """Note that the program gets an error."""
        self.fetched.add(object_id)
        if of_constructor(error):  # of all calls on the actor
            self.known[_key(object_id, error)] = None

    def left(self, object_id: bytes) -> None:
        """Note the end of an object's last ref before the arrival of the value."""
        if object_id not in self.fetched and object_id not in self.handed:
            self.crossing[object_id] = None

    def arrived_late(self, object_id: bytes, value: object) -> None:
        """Report a failure that arrived after the end of the last ref."""
        if self.crossing.pop(object_id, self) is None and type(value) is bytes and FIRST_MARK <= value < PAST_MARKS:
            self._failed(object_id[:TASK_ID_BYTES], value)

    def forget(self, object_ids: Sequence[bytes]) -> None:
        """Forget objects whose last refs are gone."""
        if self.handed:
            self.handed.difference_update(object_ids)
        if self.fetched:
            self.fetched.difference_update(object_ids)
        if self.actors:
            self.actors.difference_update(object_ids)

    def end(self, values: Iterable[tuple[bytes, object]]) -> None:
        """Report unfetched failures among the values at the end of the process."""
        failures = [
            (object_id, value)
            for object_id, value in values
            if type(value) is bytes and FIRST_MARK <= value < PAST_MARKS
        ]
        # Failures that are known come first: the error of an actor's constructor is that of several calls.
        for object_id, error in sorted(failures, key=lambda each: not self._may_be_heard(*each)):
            if self._may_be_heard(object_id, error):
                self.known[_key(object_id[:TASK_ID_BYTES], error)] = None
            else:
                self._failed(object_id[:TASK_ID_BYTES], error)

    def _failed(self, task_id: bytes, error: bytes) -> None:
        key = _key(task_id, error)
        if key in self.known:
            return
        self.known[key] = None
        text = unheard(error)
        if not text:
            return
        if len(self.lines) >= LINES_MAX:
            self.left_out += 1
        else:
            self.lines.append(text)

    def take(self, now: float, *, is_last: bool = False) -> list[str]:
        """Take the lines since the last call, unless the last lines are too recent."""
        if not self.lines or (now < self.next_at and not is_last):
            return []
        self.next_at = now + TELL_SECONDS
        lines = [*self.lines]
        self.lines.clear()
        if self.left_out:
            lines.append(f"{self.left_out:,} further task(s) failed, and nobody has fetched their results")
            self.left_out = 0
        return lines
