"""Items of generator calls on a recoverable actor (dialog of wards).  Their way to callers: `forwarding/generators`.

    a call yields              the backup node is told that the call has begun; items are withheld, as results are,
                               until the backup node knows all that they depend on
    the turn ends              items go on: in one frame, they stand ahead of the results of earlier calls
    ItemsMade                  items for another node have a receipt: large ones, and now and then small ones
    AnswersTaken               the caller's node has the items, or nobody there wants them: the backup node is told
                               (LogCalls.items)
    the process dies           the call runs again; no item that has come to this node is stored again
    the actor's node is lost   a begun call runs again, an ended call is replayed: items that the caller's node lacks
                               are made again, and kept until the caller's node asks

An ended call is replayed for its items until the caller's node has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import index_of, is_item, item_id, task_of
from ....wire.task_spec import BEYOND_MAX, GivenItems, StoredValue, TaskSpec
from ..tables import Actor
from ..task import Task

if TYPE_CHECKING:
    from ..forwarding.generators import Item
    from ..scheduler import LocalScheduler

# Small items are acknowledged in such numbers.
RECEIPT_COUNT = 64


class Given(Struct, eq=False):
    """The items of one call."""

    before: GivenItems  # those that are not made again, as its former node has said
    come: int = 0  # so many, from its process
    drawn: int = 0  # so many were drawn, of a generator with `max_buffered`
    told: int = 0  # so many have a receipt, or an earlier one has
    arrived: int = 0  # so many are at the caller's node, but for:
    lying: dict[int, None] = {}  # large items that it has not pulled, or not been told of
    has_end: bool = False  # the caller's node has the end

    def as_told(self) -> GivenItems:
        """Return the items that the caller's node has, perhaps with some left out."""
        arrived = max(self.arrived, self.before.before)
        before = min((arrived, *self.lying))
        numbers = range(before, min(arrived, before + BEYOND_MAX))
        return GivenItems(before, [number for number in numbers if number not in self.lying] or self.before.beyond)

    def here(self) -> GivenItems:
        """Return the items that another process of the actor need not make."""
        return GivenItems(self.come) if self.come > self.before.before else self.before


class Items:
    """The items of an actor's generator calls."""

    def __init__(self, node: LocalScheduler, actor: Actor) -> None:
        self.node = node
        self.actor = actor
        self.by_call: dict[bytes, Given] = {}
        self.closed: dict[bytes, int] = {}  # calls whose results come next, as in CallClosed
        self.news: dict[bytes, None] = {}  # calls of which the backup node is to be told

    # --- from the process ---

    def require(self, task_id: bytes) -> Given:
        """Return the items of a call; a new record if there is none."""
        given = self.by_call.get(task_id)
        if given is None:
            begun = self.actor.journal.begun.get(task_id)
            before = begun.items if begun is not None and begun.items is not None else GivenItems()
            given = self.by_call[task_id] = Given(before)
        return given

    def new(self, task: Task, first: int, made: list[Item]) -> list[tuple[int, list[Item]]]:
        """Return the items that have not come before, in rows of consecutive numbers."""
        given = self.require(task.spec.task_id)
        rows: list[tuple[int, list[Item]]] = []
        here = given.here()
        for number, item in enumerate(made, first):
            if here.has(number):
                self.node.generators.drop(item_id(task.spec.task_id, number), item[0])
                continue
            given.come = max(given.come, number + 1)
            self._notes(given, number, item)
            if rows and rows[-1][0] + len(rows[-1][1]) == number:
                rows[-1][1].append(item)
            else:
                rows.append((number, [item]))
        return rows

    def again(self, tasks: Iterable[Task]) -> list[tuple[bytes, GivenItems, int]]:
        """Return what a process is told of calls that run again."""
        told = []
        for task in tasks if self.by_call or self.actor.journal.begun else ():
            task_id = task.spec.task_id
            if task.options.is_generator and (task_id in self.by_call or task_id in self.actor.journal.begun):
                given, stream = self.require(task_id), self.node.generators.streams.get(task_id)
                drawn = stream.drawn if stream is not None else 0  # of a program here, whose actor has come here
                told.append((task_id, given.here(), max(given.drawn, drawn)))
        return told

    def count(self, task_id: bytes) -> int:
        """Return the number of a call's items that have come from its process."""
        given = self.by_call.get(task_id)
        return given.come if given is not None else 0

    # --- to the caller ---

    def leave(self, task: Task, first: int, made: list[Item]) -> None:
        """Pass items on that may be seen."""
        node, task_id, shipping = self.node, task.spec.task_id, self.actor.shipping
        answers = shipping.answers if shipping is not None else None
        given = answers.given.get(task_id) if answers is not None and not task.origin else None
        if given is not None and given.origin != node.address:  # its caller has asked meanwhile
            node.task_states.comes_from(task, given.origin)
        if node.generators.is_for_another_node(task):
            node.generators.tell_origin(task, first, made, self._receipt(task, first, made))
        elif answers is not None and (task_id in answers.unasked or task_id in answers.inherited):
            for number, (value, inside, _) in enumerate(made, first):
                self._keep(item_id(task_id, number), value, inside)  # type: ignore[arg-type]  # made here
        else:
            node.generators.arrived(task_id, first, made)

    def _receipt(self, task: Task, first: int, made: list[Item]) -> int:
        """Return the number of the receipt of items for another node; 0: none."""
        given = self.require(task.spec.task_id)
        large = [number for number, item in enumerate(made, first) if self._notes(given, number, item)]
        end = first + len(made)
        if not large and end - given.told < RECEIPT_COUNT:
            return 0
        given.told = end
        ids = [item_id(task.spec.task_id, number) for number in large or (end - 1,)]
        return self.node.logs.items_leave(task, ids)

    @staticmethod
    def _notes(given: Given, number: int, item: Item) -> bool:
        """Note an item that the caller's node has to pull.  Returns whether it is one."""
        is_large = type(item[0]) is StoredValue or bool(item[1])
        if is_large:
            given.lying[number] = None
        return is_large

    def taken(self, object_id: bytes) -> None:
        """Note an item that the caller's node has, or does not want; for a small one, with all before it."""
        task_id, number = task_of(object_id), index_of(object_id) - 2
        given = self.by_call.get(task_id)
        if given is None:
            return
        given.arrived = max(given.arrived, number + 1)
        given.lying.pop(number, None)
        self.news[task_id] = None
        shipping = self.actor.shipping
        if given.has_end and not given.lying:
            self.ended(task_id)
            shipping.answers.has(task_id)
        elif shipping.is_started:
            shipping.answers.are_due()
            self.node.logs.touched[self.actor.actor_id] = shipping

    def has_end(self, task_id: bytes) -> bool:
        """Note that the caller's node has the end.  Returns whether the items are no longer of interest."""
        given = self.by_call.get(task_id)
        if given is None:
            return True
        given.has_end = True
        if given.lying:
            return False
        self.ended(task_id)
        return True

    def ended(self, task_id: bytes) -> None:
        """Forget the items of a call that nobody asks for again."""
        self.by_call.pop(task_id, None)
        self.news.pop(task_id, None)

    def are_missing(self, task_id: bytes) -> bool:
        """Return whether the caller's node may lack large items."""
        given = self.by_call.get(task_id)
        return given is not None and bool(given.lying)

    def told(self, task_id: bytes) -> GivenItems | None:
        """Return the items that the caller's node has; None: the call is no generator."""
        given = self.by_call.get(task_id)
        return given.as_told() if given is not None else None

    def take_news(self) -> list[tuple[bytes, GivenItems]]:
        """Take out what the backup node is to be told."""
        news, self.news = self.news, {}
        return [(task_id, self.by_call[task_id].as_told()) for task_id in news]

    # --- kept until the caller asks ---

    def _keep(self, object_id: bytes, value: bytes | StoredValue, inside: tuple[bytes, ...]) -> None:
        """Keep an item of a call that runs ahead of its caller's asking again."""
        self.actor.shipping.answers.hold_item(task_of(object_id), object_id)
        self.node.object_is_here(self.node.objects.entries[object_id], value, inside)

    def made_again(self, calls: Iterable[TaskSpec]) -> None:
        """Keep the items of replayed calls, which the process has put."""
        answers = self.actor.shipping.answers
        wanted = {task_id for task_id, _ in self.wanted(calls)}
        for entry in list(self.node.objects.entries.values()) if wanted else ():
            task_id = task_of(entry.object_id)
            if task_id in wanted and is_item(entry.object_id) and entry.value is not None and not entry.is_lost:
                answers.hold_item(task_id, entry.object_id)

    def wanted(self, calls: Iterable[TaskSpec]) -> list[tuple[bytes, GivenItems]]:
        """Return the ended calls of which items may be requested, and the items that are not."""
        answers = self.actor.shipping.answers
        found = {}
        for spec in calls if answers.inherited else ():
            answer = answers.inherited.get(spec.task_id)
            if answer is not None and answer.items is not None and spec.task_id not in answers.held:
                found[spec.task_id] = answer.items
        return list(found.items())

    def give_kept(self, task: Task, before: GivenItems | None = None) -> None:
        """Pass on the items kept for a call, whose caller has asked.  before: items that the caller's node has."""
        node, task_id = self.node, task.spec.task_id
        if before is not None:
            self.by_call.setdefault(task_id, Given(before))
        kept = sorted(self.actor.shipping.answers.take_held(task_id))
        for object_id in kept:
            entry = node.objects.entries[object_id]
            if entry.value is not None and not entry.is_lost and is_item(object_id):
                self.leave(task, index_of(object_id) - 2, [(entry.value, entry.contained, "")])
        node.objects.drop_all(kept)
