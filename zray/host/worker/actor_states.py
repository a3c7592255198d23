"""State of an actor whose call has failed, for the replay file of the call (replays.py).

The state is that after the failure, since a copy before each call would cost each call.  An actor with
`checkpoint_interval` has a checkpoint, and its calls since are noted: both give the state before the call.

The instance's code runs here (`__getstate__`, `__reduce__`), with limits of bytes and of time.  Attributes that cannot
be pickled within the limits are left out by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...object_ref import ObjectRef
from ...store.bounded_pickles import Budget, pickled_within
from ...store.layout import Serialized
from ...store.values import is_error, to_bytes
from ...wire.task_spec import StoredValue, TaskSpec, parse_options
from ..session.replay_files import ActorFacts, EarlierCall

if TYPE_CHECKING:
    from .actor_runner import ActorHost, Instance
    from .main import Worker

# Limits of one pass over the state; there are three at most.
STATE_SECONDS_MAX = 0.5
# Longest wait for a value of the actor's log, which the node has.
FETCH_SECONDS = 2.0
REASON_MAX = 200
CUT_OFF = "the log of its calls since the checkpoint is too long, or a call in it was cancelled"
LIBRARIES = "zray.util."
# Errors of the user's code.
RAISED = (Exception, SystemExit)


class Unavailable(Exception):
    """A part of the state is not to be had, or is too large: the text says why."""


class Capture:
    """State of the actor for the file of a failed call.

    room: bytes.  facts, parts: for the file.  contained: ids of refs inside of the state and of earlier arguments.
    """

    def __init__(self, worker: Worker, spec: TaskSpec, actor: Instance, room: int) -> None:
        self.worker, self.actor, self.room = worker, actor, room
        self.facts = ActorFacts(method=parse_options(spec.options).method)
        self.facts.running = max(0, getattr(actor, "running", 0) - 1)
        self.parts: list[Any] = []
        self.contained: dict[bytes, None] = {}
        self.kept: list[ObjectRef] = []  # refs whose values are in `parts`
        recovery = getattr(actor, "recovery", None)
        if recovery is not None:
            try:
                self._take_log(actor)  # type: ignore[arg-type]
                return
            except RAISED as error:
                self.facts = ActorFacts(method=self.facts.method, reason=in_words(error))
                self.parts, self.contained = [], {}
        self._take_state()
        self._take_creation()

    # --- the state after the failure ---

    def _take_state(self) -> None:
        instance, facts = self.actor.instance, self.facts
        try:
            if type(instance).__module__.startswith(LIBRARIES):
                raise Unavailable("its class is one of zray's own")  # errors such as queue.Empty are usual there
            facts.state, taken = self._pickled(instance)
        except RAISED as error:
            facts.state, facts.reason = "", in_words(error)
            self.parts.append(b"")
            return
        self.parts.append(to_bytes(taken))
        self.contained.update(dict.fromkeys(taken.contained))
        facts.state_bytes = len(self.parts[-1])
        self.room -= facts.state_bytes

    def _budget(self) -> Budget:
        return Budget(self.room, STATE_SECONDS_MAX)

    def _pickled(self, instance: Any) -> tuple[str, Serialized]:
        """Return the pickle of the instance, or of the attributes that can be pickled and have room, and which one."""
        try:
            return "instance", pickled_within(instance, self._budget())
        except RAISED:
            if not is_plain(type(instance)):
                raise
        budget, kept = self._budget(), {}
        for name, value in dict(vars(instance)).items():
            try:
                pickled_within(value, budget)
            except RAISED as error:
                self.facts.absent[name] = in_words(error)
            else:
                kept[name] = value
        return "attributes", pickled_within(kept, self._budget())

    def _take_creation(self) -> None:
        """Take the arguments of the constructor, if no value of a ref is among them: those are gone by now."""
        creation = self.actor.creation
        has_room = len(creation.args) <= self.room
        self.facts.has_creation = not creation.deps and has_room
        self.parts.append(creation.args if self.facts.has_creation else b"")
        self.facts.creation_bytes = len(self.parts[-1])

    # --- the state before the call ---

    def _take_log(self, actor: ActorHost) -> None:
        """Take the checkpoint, or the constructor's arguments, and the calls since.

        Raises:
            Unavailable: a part is gone, or is too large.
        """
        recovery, facts, creation = actor.recovery, self.facts, actor.creation
        assert recovery is not None
        if recovery.log is None:
            raise Unavailable(CUT_OFF)
        checkpoint = recovery.saved.id if recovery.saved is not None else actor.order.checkpoint
        facts.is_before = True
        if checkpoint:
            facts.state = "checkpoint"
            self.parts += [*self._values((checkpoint,)), b""]
            facts.state_bytes = len(self.parts[0])
        else:
            facts.has_creation, facts.creation_bytes = True, len(creation.args)
            values = self._values(creation.deps)
            facts.creation_value_bytes = [len(value) for value in values]
            self.parts += [b"", creation.args, *values]
            self.contained.update(dict.fromkeys(creation.holds))
        for call in recovery.log:
            values = self._values(call.deps)
            self.parts += [call.args, *values]
            self.contained.update(dict.fromkeys(call.holds))
            options, sizes = parse_options(call.options), [len(value) for value in values]
            facts.earlier.append(
                EarlierCall(
                    self.worker.name_of(call),
                    options.method,
                    call.task_id.hex(),
                    self.worker.path_of(call).hex(),
                    len(call.args),
                    sizes,
                )
            )
        files = {parcel.object_id for parcel in actor.options.environment.parcels}
        self.contained = {object_id: None for object_id in self.contained if object_id not in files}
        if sum(map(len, self.parts)) > self.room:
            raise Unavailable(f"the checkpoint and the calls since have more than {self.room:,} bytes")

    def _values(self, object_ids: Iterable[bytes]) -> list[Any]:
        """Return the bytes of values that the node keeps for the actor's recovery."""
        worker, found = self.worker, []
        for object_id in object_ids:
            self.kept.append(worker.another_ref(object_id))
            if object_id not in worker.client.values:
                worker.flush()
                worker.waiting.for_values([object_id], FETCH_SECONDS)
            value = worker.client.values[object_id]
            if type(value) is not StoredValue and is_error(value):
                raise Unavailable("a value of its log is lost")
            found.append(bytes_of(worker, object_id, value))
        return found


def is_plain(cls: type) -> bool:
    """Return whether instances are their attributes, so that they can be pickled one by one."""
    is_usual = (
        cls.__new__ is object.__new__
        and cls.__reduce__ is object.__reduce__
        and cls.__reduce_ex__ is object.__reduce_ex__
        and getattr(cls, "__getstate__", None) is getattr(object, "__getstate__", None)
        and not hasattr(cls, "__setstate__")
    )
    return is_usual and not any(vars(base).get("__slots__") for base in cls.__mro__)


def in_words(error: BaseException) -> str:
    """Return an error as a short text."""
    try:
        text = str(error)
    except Exception:  # the user's code
        text = ""
    if type(error).__module__ != "builtins" and type(error).__module__.startswith("zray."):
        said = text
    else:
        said = f"{type(error).__name__}: {text}"
    return said[:REASON_MAX].encode("utf-8", "backslashreplace").decode()


def bytes_of(worker: Worker, object_id: bytes, value: bytes | StoredValue) -> Any:
    """Return the bytes of a value that this process has."""
    if type(value) is not StoredValue:
        return value
    with worker.lock:
        worker.client.read_begins(object_id)

    def unread() -> None:
        worker.unread.append(object_id)

    return memoryview(worker.arena.read(value.segment, value.offset, value.size, unread, ""))
