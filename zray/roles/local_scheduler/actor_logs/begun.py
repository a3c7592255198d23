"""Calls that an actor that recovers has begun: its guardian hears of one before what that makes leaves.

    a call makes another       that waits here
    the turn ends              LogCalls.begun -> guardian, behind the calls that have ended
    CallsLogged                what it has made leaves
    the node is lost           the call runs first on the next one, right after those that had ended

So what it makes comes of the same state there, and is the same.  Otherwise calls of other callers could come ahead of
it, and what it had made, which had its effect, would not fit to what it makes then.  What a readonly call makes waits
for the calls that it may have seen.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ....ids import FIRST_RETURN, PARENT_HASH_BYTES, children_prefix
from ....wire.task_spec import parse_options
from ....wire.wards import BegunCall
from ..tables import Actor
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Held(Struct, gc=False, eq=False):
    """A call that waits until the guardian knows who made it."""

    task: Task
    refs: tuple[bytes, ...]  # what it takes, and the handle of its actor: its maker may drop them
    is_new: bool = True  # nobody has looked yet at who made it
    calls: int = 0  # the guardian is to have so many calls
    said: int = 0  # and so much of what these have made, or have begun


class BegunCalls(Struct, eq=False):
    """Of one actor."""

    node: LocalScheduler
    actor: Actor
    held: deque[Held] = field(default_factory=deque)  # in the order in which they were made
    said: dict[bytes, int] = {}  # by the prefix of what the call makes: which of the log's words it is

    def hold_back(self, task: Task) -> bool:
        """One of the actor's calls has made this one.  Whether it waits."""
        shipping = self.actor.shipping
        if not shipping.is_on:
            return False
        said = self.said.get(task.spec.task_id[:PARENT_HASH_BYTES])
        if not self.held and said is not None and shipping.has_heard(said):
            return False
        refs = (*task.spec.deps, *task.spec.holds, task.options.actor_id + FIRST_RETURN)
        for object_id in refs:
            self.node.objects.retain(object_id)
        task.queued()
        self.held.append(Held(task, refs))
        self.node.logs.touched[self.actor.actor_id] = shipping
        return True

    def say(self) -> None:
        """End of a turn: the results that came in it are in the log, so what has not ended has begun."""
        new = [item for item in self.held if item.is_new]
        if not new:
            return
        makers = self._makers({item.task.spec.task_id[:PARENT_HASH_BYTES] for item in new} - self.said.keys())
        for item in new:
            prefix = item.task.spec.task_id[:PARENT_HASH_BYTES]
            maker = makers.get(prefix)
            if maker is not None and prefix not in self.said and not maker.options.is_readonly:
                self._say(maker, prefix)
            item.is_new, item.calls, item.said = False, self.actor.journal.count, self.said.get(prefix, 0)
        self.leave()

    def _makers(self, prefixes: set[bytes]) -> dict[bytes, Task]:
        """Those of them that have not ended: these are among the first that were sent."""
        found: dict[bytes, Task] = {}
        for task in self.actor.inflight.values():
            if len(found) == len(prefixes):
                break
            prefix = children_prefix(task.spec.task_id)
            if prefix in prefixes:
                found[prefix] = task
        return found

    def _say(self, task: Task, prefix: bytes) -> None:
        spec, journal = task.spec, self.actor.journal
        begun = BegunCall(spec, task.origin or self.node.address, journal.beside(spec.deps, spec.holds))
        journal.begin(begun)
        self.said[prefix] = self.actor.shipping.says(begun)

    def start(self, count: int) -> None:
        """The log begins anew, and has those that are known in its beginning, up to this word; and others."""
        journal = self.actor.journal
        first = count - len(journal.begun)
        self.said = {children_prefix(task_id): n for n, task_id in enumerate(journal.begun, first + 1)}
        for task in [*self.actor.queue.begun, *self.actor.inflight.values()]:
            prefix = children_prefix(task.spec.task_id)
            if prefix in journal.nested.by_parent and prefix not in self.said and not task.options.is_readonly:
                self._say(task, prefix)

    def stop(self) -> None:
        """The guardian has nothing any more."""
        self.said.clear()
        for item in self.held:
            item.is_new = True

    def leave(self) -> None:
        """What need not wait any longer."""
        node, shipping = self.node, self.actor.shipping
        while self.held:
            item = self.held[0]
            if shipping.is_on and (item.is_new or not shipping.is_there(item.calls, item.said)):
                return
            self.held.popleft()
            node.calls.submit(item.task)
            node.objects.drop_all(item.refs)

    def ended(self, task_id: bytes) -> None:
        """It has, and is in the log so."""
        if self.said:
            self.said.pop(children_prefix(task_id), None)

    def run_first(self) -> None:
        """The actor has come from a lost node: they go ahead of all that callers send now, or have sent again."""
        node, actor = self.node, self.actor
        for begun in reversed(list(actor.journal.begun.values())):
            spec = begun.spec
            task = node.tasks.get(spec.task_id)
            if task is None:
                task = node.lifecycle.accept_placed(spec, parse_options(spec.options), actor.job, "")
                task.queued()
                actor.shipping.answers.unasked[spec.task_id] = begun.origin
                node.lifecycle.retain_arguments(task)
            elif task in actor.queue.begun or not actor.queue.take_out(task):
                continue  # its process has died here; or an actor of this node has made it once more, and it waits
            actor.queue.append_first(task, has_begun=True)
