"""Nested calls and actors: made by calls of a recoverable actor, and by the actor's constructor.

Calls that run again (`journals`) make the same nested calls, with the same ids.  Each nested call is to have its effect
once, and each caller gets the same result.  So the answer is kept for as long as the nested call could be made again:

    made by a call of the actor      the returns are held: a known call is not run again
    ended                            the answer goes to the guardian too, ahead of the call that may have seen the
                                     answer; a large answer goes as a ref, good while another node has a copy; the
                                     guardian pulls a copy of an object made on the actor's own node
    yields an item, as a generator   the item is held, and goes to the guardian, as an answer
    the outer call is in a checkpoint, is readonly, or is given up    nobody makes the nested call again

A nested actor that is made again is the same actor.  This node holds the handle as long as the process of the maker has
a handle, and the guardian holds the handle too: the next process finds the actor.  A nested actor that has ended
meanwhile is not made once more.  Only an actor lost with the very node of its maker, without a guardian, is made again,
with its calls.

Calls that the actor's threads make outside the actor's calls are not covered: their order in another run is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import (
    FIRST_RETURN,
    PARENT_HASH_BYTES,
    TASK_ID_BYTES,
    ObjectID,
    children_prefix,
    index_of,
    item_id,
    return_id,
)
from ....wire.task_spec import ActorOptions, StoredValue
from ....wire.wards import NestedAnswer
from ..routes.actor_names import NOTHING
from ..routes.route import LOCATING
from ..tables import LOST_WITH_ACTOR, ActorState, Process, died
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# So many calls of one actor's calls, and bytes of what they returned, are kept; what is beyond is run once more with
# the call that made it.  As for the journal itself: the node's memory is for others too.
NESTED_CALLS_MAX = 100_000
NESTED_BYTES_MAX = 16 << 20
# Of what is large only refs are kept: so many bytes of it stay in object stores, though nobody else may want them any
# more; the stores are for others too.  One that is larger is kept where there is no other.
NESTED_STORED_MAX = 256 << 20


class NestedCall(Struct, gc=False, eq=False):
    """A nested call or actor."""

    actor_id: bytes  # on whom; an actor that was made: itself
    answer: NestedAnswer | None = None  # None: it has not ended
    held: tuple[bytes, ...] = ()  # its returns, where the actor lives
    size: int = 0  # bytes of what it returned that is in its answer
    stored: int = 0  # and of what is not
    is_actor: bool = False
    is_generator: bool = False  # only its parts count
    parts: list[NestedAnswer] = []  # of a generator: its items
    item_count: int = 0  # so many of these are held, where the actor lives


class Nested(Struct, eq=False):
    """The nested calls and actors of one actor."""

    LASTING = {"count": "NESTED_CALLS_MAX", "size": "NESTED_BYTES_MAX"}

    node: LocalScheduler
    by_parent: dict[bytes, dict[bytes, NestedCall]] = {}  # by the prefix of what the call makes
    count: int = 0
    size: int = 0
    stored: int = 0
    forgotten: list[bytes] | None = None  # what the guardian is to forget, too; None: it has no log
    is_settling: bool = False  # the actor has come from a lost node, and has no process yet
    lacks_items: bool = False  # of a generator, since there are too many: no replay would see them

    # --- where the actor lives ---

    def made(self, task: Task) -> None:
        """Note a call made by a call of the actor that is under way, or is run again."""
        task_id = task.spec.task_id
        call, is_generator = self._find(task_id), task.options.is_generator
        if call is None and (self.count < NESTED_CALLS_MAX or is_generator):
            call = self._add(task_id, NestedCall(task.options.actor_id, is_generator=is_generator))
        if call is not None and not call.held:
            self._hold(call, [return_id(task_id, n) for n in range(1, max(1, task.options.num_returns) + 1)])

    def made_actor(self, actor_id: bytes) -> None:
        """Note an actor made by a call of the actor."""
        if self.count < NESTED_CALLS_MAX and self._find(actor_id) is None:
            self._hold(self._add(actor_id, NestedCall(actor_id, is_actor=True)), [actor_id + FIRST_RETURN])

    def has_made(self, actor_id: bytes) -> bool:
        """Return whether an earlier run has made the given actor."""
        call = self._find(actor_id)
        return call is not None and call.is_actor

    def let_go(self, object_ids: Iterable[ObjectID]) -> list[NestedAnswer]:
        """Release actors to which the process, as later its successor, has no refs any more.  Returns the
        new answers.
        """
        news = []
        for object_id in object_ids:
            call = self._find(object_id[:TASK_ID_BYTES])
            if call is not None and call.is_actor and call.held:
                held, call.held = call.held, ()
                self.node.objects.drop_all(held)
                news.append(_made(call))
        return news

    def ended(
        self,
        task: Task,
        values: Sequence[bytes | StoredValue | int],
        contained: tuple[tuple[bytes, ...], ...],
        *,
        is_beside: bool,
    ) -> NestedAnswer | None:
        """Record the answer of a nested call.  Returns the answer if new. is_beside: the call ran on this node."""
        task_id = task.spec.task_id
        call = self._find(task_id)
        if call is None or call.answer is not None or call.is_actor:
            return None
        call.answer = NestedAnswer(task_id, call.actor_id, _as_told(values, contained, len(call.held)), is_beside)
        self._weigh(call, call.answer)
        if call.is_generator:
            self.bound(call.answer)
            return call.answer
        is_stored_too_much = call.stored and self.stored > max(NESTED_STORED_MAX, call.stored)
        if self.size > NESTED_BYTES_MAX or is_stored_too_much:
            self.forget_one(task_id)
            return None
        return call.answer

    def yielded(self, task_id: bytes, first: int, values: list[bytes | int], *, is_beside: bool) -> NestedAnswer | None:
        """Record and hold items of a nested call.  Returns what the guardian is to know."""
        call = self._find(task_id)
        if call is None:
            return None
        part = NestedAnswer(task_id, call.actor_id, values, is_beside, index_of(item_id(task_id, first)))
        for object_id in part.returns:
            self.node.objects.retain(object_id)
        call.item_count += len(values)
        self._add_part(call, part)
        return part

    def is_logged(self) -> None:
        """Note from now on what the guardian is to forget: it has a log."""
        self.forgotten = []

    def is_logged_no_more(self) -> None:
        """Note no more what the guardian is to forget."""
        self.forgotten = None

    def take_forgotten(self) -> list[bytes]:
        """Return, once, what the guardian is to forget."""
        forgotten = self.forgotten or []
        if forgotten:
            self.forgotten = []
        return forgotten

    def is_forgotten(self, task_id: bytes) -> None:
        """Have the guardian forget a call, if it has a log."""
        if self.forgotten is not None:
            self.forgotten.append(task_id)

    def settled(self) -> None:
        """Note that the actor gets a process."""
        self.is_settling = False

    def lacks_nothing(self) -> None:
        """Note a new beginning, which needs none of the items that were forgotten."""
        self.lacks_items = False

    def bound(self, part: NestedAnswer) -> None:
        """Forget a call with too many items.  The actor has drawn some, so no replay could make the call again."""
        is_stored_too_much = self.stored > max(NESTED_STORED_MAX, part.stored)
        if self.count > NESTED_CALLS_MAX or self.size > NESTED_BYTES_MAX or is_stored_too_much:
            self.lacks_items = True
            self.forget_one(part.task_id)

    def items_of(self, task_id: bytes) -> int:
        """Return the number of items that are held of a nested call."""
        call = self._find(task_id)
        return call.item_count if call is not None else 0

    def has(self, task_id: bytes) -> bool:
        """Return whether a nested call is known."""
        return self._find(task_id) is not None

    def settle(self) -> None:
        """Take over the nested calls, as far as known, of an actor that lives on this node now."""
        self.is_settling = True
        calls = [call for calls in self.by_parent.values() for call in calls.values()]
        for call in [call for call in calls if call.answer is not None or call.parts]:
            before, call.held, call.item_count = call.held, (), sum(len(part.values) for part in call.parts)
            for part in call.parts:
                self._settle(part)
            if call.answer is not None:
                call.held = self._settle(call.answer)
            self.node.objects.drop_all(before)

    def _settle(self, answer: NestedAnswer) -> tuple[bytes, ...]:
        node, values, returns = self.node, answer.values, tuple(answer.returns)
        if not all(self._is_to_be_had(object_id) for object_id in answer.large):
            # It has had its effect, and is not called once more for what it had returned: better no state than a
            # wrong one.  (Both nodes that had it are lost: its callee's, and the actor's own.)
            values = [value if type(value) is bytes else LOST_WITH_ACTOR for value in values]
        for object_id, value in zip(returns, values, strict=True):
            entry = node.objects.retain(object_id)
            if type(value) is int:
                continue
            if entry.is_lost:
                node.recovery.made_after_all(entry)
            if entry.value is None and entry.task is None:
                node.object_is_here(entry, value)  # type: ignore[arg-type]
        return returns

    def has_ended(self, task_id: bytes) -> bool:
        """Return whether a nested call has ended, with its effect; the values may be local, elsewhere or lost."""
        call = self._find(task_id)
        return call is not None and call.answer is not None and bool(call.held)

    def _is_to_be_had(self, object_id: bytes) -> bool:
        """Return whether an object is on this or another node, as far as known: the shard is asked."""
        entry = self.node.objects.entries.get(object_id)
        if entry is None or entry.is_lost:
            return False
        return entry.value is not None or entry.is_elsewhere or object_id in self.node.remote.subscribed

    def leave(self) -> None:
        """Release the objects held for nested calls, because the actor moves to another node; answers stay."""
        for calls in list(self.by_parent.values()):
            for task_id, call in list(calls.items()):
                if call.is_actor or (call.answer is not None and call.answer.large):
                    continue
                held, call.held = (*call.held, *self._items(task_id, call)), ()
                call.item_count = 0
                self._hold(call, [object_id for part in call.parts for object_id in part.large])
                self.node.objects.drop_all(held)
                if call.answer is None and not call.parts:
                    self.forget_one(task_id)

    # --- everywhere ---

    def answered(self, answer: NestedAnswer, holds: Sequence[bytes] = ()) -> None:
        """Record the answer of a nested call of another node's actor. holds: refs kept as long as the answer."""
        call = self._find(answer.task_id)
        if answer.first > 1 or (call is not None and call.parts):
            call = call or self._add(answer.task_id, NestedCall(answer.actor_id, is_generator=True))
            self._hold(call, holds)
            if answer.first == 1:
                call.answer = answer
                self._weigh(call, answer)
            else:
                self._add_part(call, answer)
            self.bound(answer)
            return
        self.forget_one(answer.task_id)
        if answer.is_made:
            call = self._add(answer.task_id, NestedCall(answer.actor_id, is_actor=True))
        else:
            call = self._add(answer.task_id, NestedCall(answer.actor_id, answer))
            self._weigh(call, answer)
        self._hold(call, holds)

    def answers(self) -> Iterable[NestedAnswer]:
        """Yield the answers of ended nested calls, and the nested actors."""
        for calls in self.by_parent.values():
            for call in calls.values():
                yield from call.parts
                if call.is_actor:
                    yield _made(call)
                elif call.answer is not None:
                    yield call.answer

    def handles(self) -> list[bytes]:
        """Return the held handles of nested actors."""
        return [
            held for calls in self.by_parent.values() for call in calls.values() if call.is_actor for held in call.held
        ]

    def refs(self) -> Iterable[bytes]:
        """Yield the refs that another node must hold with this record."""
        yield from self.handles()
        for answer in self.answers():
            yield from answer.large

    def ask_again(self) -> None:
        """Ask the shards again for nested actors: the lost node of the actor sends no more news."""
        routes = self.node.routes
        for handle in self.handles():
            route = routes.by_actor.get(handle[:TASK_ID_BYTES])
            if route is not None and route.state == LOCATING:
                routes.locate(route, wait=False)

    def is_unsure(self) -> bool:
        """Whether the places of some nested actors are unknown."""
        found = (self.node.routes.by_actor.get(handle[:TASK_ID_BYTES]) for handle in self.handles())
        return self.is_settling and any(route is not None and route.state == LOCATING for route in found)

    def is_gone(self, actor_id: bytes) -> None:
        """Forget a nested actor that was lost with its maker: the actor is created anew."""
        call = self._find(actor_id)
        if call is not None and call.is_actor and call.held:
            self.forget_on(actor_id)

    def are_under_way(self, prefixes: Iterable[bytes]) -> bool:
        """Return whether some nested call with one of the given prefixes has not ended."""
        return any(
            call.answer is None and not call.is_actor for prefix in prefixes for call in self.by_parent[prefix].values()
        )

    def forget_read(self, parent: bytes) -> bool:
        """Forget the nested calls of a readonly call, as the call is not run again.  Returns whether any existed."""
        prefix = children_prefix(parent)
        has_made = prefix in self.by_parent
        self.forget_all((prefix,))
        return has_made

    def forget(self, parent: bytes) -> None:
        """Forget the nested calls of a call that asks for a retry: the retry makes the calls again."""
        if self.by_parent:
            for task_id in list(self.by_parent.get(children_prefix(parent), ())):
                self._forget_everywhere(task_id)

    def forget_on(self, actor_id: bytes) -> None:
        """Forget the nested calls on an actor that its caller creates anew."""
        for calls in list(self.by_parent.values()):
            for task_id in [task_id for task_id, call in calls.items() if call.actor_id == actor_id]:
                self._forget_everywhere(task_id)

    def forget_all(self, prefixes: Iterable[bytes]) -> None:
        """Forget the nested calls with the given prefixes: none is made again."""
        for prefix in prefixes:
            for task_id in list(self.by_parent.get(prefix, ())):
                self.forget_one(task_id)

    def close(self) -> None:
        """Forget everything."""
        self.forget_all(list(self.by_parent))

    def _find(self, task_id: bytes) -> NestedCall | None:
        calls = self.by_parent.get(task_id[:PARENT_HASH_BYTES])
        return calls.get(task_id) if calls is not None else None

    def _add(self, task_id: bytes, call: NestedCall) -> NestedCall:
        self.by_parent.setdefault(task_id[:PARENT_HASH_BYTES], {})[task_id] = call
        self.count += not call.is_generator
        return call

    def _hold(self, call: NestedCall, object_ids: Sequence[bytes]) -> None:
        call.held = (*call.held, *object_ids)
        for object_id in object_ids:
            self.node.objects.retain(object_id)

    def _add_part(self, call: NestedCall, part: NestedAnswer) -> None:
        call.parts.append(part)
        self.count += 1
        self._weigh(call, part)

    def _weigh(self, call: NestedCall, answer: NestedAnswer) -> None:
        size = sum(len(value) for value in answer.values if type(value) is bytes)
        call.size += size
        call.stored += answer.stored
        self.size += size
        self.stored += answer.stored

    @staticmethod
    def _items(task_id: bytes, call: NestedCall) -> list[bytes]:
        return [item_id(task_id, number) for number in range(call.item_count)]

    def _forget_everywhere(self, task_id: bytes) -> None:
        call = self._find(task_id)
        if call is not None and (call.answer is not None or call.parts or call.is_actor):
            self.is_forgotten(task_id)
        self.forget_one(task_id)

    def forget_one(self, task_id: bytes) -> None:
        """Forget a nested call, and release the held objects."""
        calls = self.by_parent.get(task_id[:PARENT_HASH_BYTES])
        call = calls.pop(task_id, None) if calls is not None else None
        if calls is None or call is None:
            return
        if not calls:
            del self.by_parent[task_id[:PARENT_HASH_BYTES]]
        self.count -= (not call.is_generator) + len(call.parts)
        self.size -= call.size
        self.stored -= call.stored
        self.node.objects.drop_all(call.held)
        self.node.objects.drop_all(self._items(task_id, call))
        self.node.generators.not_drawn_again(task_id, self)


def _made(call: NestedCall) -> NestedAnswer:
    return NestedAnswer(call.actor_id, call.actor_id, [] if call.held else [0])


def find_again(node: LocalScheduler, actor_id: bytes, options: ActorOptions, process: Process) -> None:
    """Give a process the handle of an actor that an earlier run of the same call has created."""
    entry = node.objects.require(actor_id + FIRST_RETURN)
    node.objects.hold(entry, process)
    actor, grave = node.calls.actors.get(actor_id), node.ends.graves.get(actor_id)
    if actor is not None and actor.state != ActorState.DEAD:
        actor.is_found(entry)  # it had calls to end before it left
        if entry.value is None and actor.state == ActorState.ALIVE:
            node.objects.place(entry, NOTHING)
    elif actor is None and grave is None and node.calls.is_elsewhere(actor_id):
        node.routes.name_found(actor_id, "")
        return
    elif entry.value is None:
        grave = grave or died(options, "has ended before its creator has recovered")
        node.ends.graves[actor_id] = grave
        node.object_is_here(entry, grave)
        return
    if entry.value is not None:
        node.push(entry, process)


def _as_told(
    values: Sequence[bytes | StoredValue | int], contained: tuple[tuple[bytes, ...], ...], count: int
) -> list[bytes | int]:
    """Return values as other nodes are told: sizes in place of large values and values with refs."""
    told: list[bytes | int] = []
    for index in range(max(1, count)):
        value = values[index] if index < len(values) else values[0] if values else b""
        if type(value) is StoredValue:
            told.append(value.size)
        elif type(value) is bytes and index < len(contained) and contained[index]:
            told.append(len(value))
        else:
            told.append(value)  # type: ignore[arg-type]
    return told
