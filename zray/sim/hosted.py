"""Hosted actors of a simulated worker: each has a stack of activations and a queue of calls of its own.

The process has one thread at a time, as under Python's lock: it advances one actor's script after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..ids import return_id
from ..roles.local_scheduler.tasks.pool import EXITED_IN_ORDER
from ..wire.actors import (
    KILLED_SECONDS,
    ActorEnded,
    ActorExited,
    ActorStarted,
    ActorStartFailed,
    EndActor,
    StartActor,
)
from ..wire.objects import AbandonObject
from ..wire.task_spec import StoredValue, TaskSpec, parse_options
from ..wire.tasks import StartTasks
from .process import Activation
from .values import decode_failure

if TYPE_CHECKING:
    from .worker import Worker


class Guest:
    """A hosted actor."""

    def __init__(self, order: StartActor) -> None:
        self.actor_id = order.spec.task_id
        self.creation = order.spec
        self.life = order.restart_count
        self.stack: list[Activation] = []
        self.queue: deque[TaskSpec] = deque()
        self.actor: Any = None
        self.kept: list[bytes] = []
        self.is_told_to_end = self.is_leaving = self.is_gone = False
        self.cause = ""
        self.unclaimed = 0


class Hosted:
    """The hosted actors of a worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.guests: dict[bytes, Guest] = {}
        self.ghosts: list[Guest] = []  # killed ones with scripts that run on
        self.present: Guest | None = None  # the actor whose script runs
        self.turns = 0

    # --- messages ---

    def start(self, order: StartActor) -> None:
        """StartActor."""
        worker = self.worker
        assert order.spec.task_id not in self.guests, "an actor twice in one process"
        guest = self.guests[order.spec.task_id] = Guest(order)
        worker.executor.learn(order.functions)
        worker.executor.will_take(order.spec)
        top = Activation(order.spec.task_id)
        top.body = worker.construct(top, order)
        guest.stack.append(top)

    def take(self, message: StartTasks) -> None:
        """StartTasks."""
        executor = self.worker.executor
        for argument in message.arguments:
            if type(argument.value) is StoredValue:
                self.worker.client.place_told(argument.object_id)
            executor.arguments[argument.object_id] = argument.value
        for spec in message.specs:
            executor.will_take(spec)
            assert executor.has_arguments(spec), "a call ahead of its arguments"
            guest = self.guests.get(parse_options(spec.options).actor_id)
            if guest is None or guest.is_gone:
                self.worker.done_with(spec)
                if guest is not None:
                    guest.unclaimed += 1
            else:
                guest.queue.append(spec)

    def end(self, message: EndActor) -> None:
        """EndActor."""
        guest = self.guests.get(message.actor_id)
        if guest is None or guest.is_gone:
            return
        if message.is_killed:
            self._gone(guest, "it was killed, and its process goes on")
        else:
            guest.is_told_to_end = True

    def cancel(self, task_id: bytes) -> None:
        """InterruptTask, of a call that has not begun."""
        for guest in self.guests.values():
            for spec in guest.queue:
                if spec.task_id == task_id:
                    guest.queue.remove(spec)
                    self._note(spec, *self.worker.cancelled(spec, parse_options(spec.options)))
                    return

    # --- running ---

    def run(self) -> None:
        """Run as far as possible without passing time."""
        worker = self.worker
        while worker.is_alive and not worker.is_busy and not worker.is_behind():
            worker.read()
            self.turns += 1
            every = [*(guest for guest in self.guests.values() if not guest.is_gone), *self.ghosts]
            start = self.turns % len(every) if every else 0
            if not any(self._step(guest) for guest in (*every[start:], *every[:start])):
                break
        self._enter(None)
        if worker.is_alive and not worker.is_busy:
            worker.flush()
        if worker.is_alive:
            worker.world.checkers.after_run(worker)

    def _enter(self, guest: Guest | None) -> None:
        worker = self.worker
        self.present = guest
        worker.actor_id, worker.stack, worker.actor = b"", [], None
        if guest is not None:
            worker.actor_id, worker.stack, worker.actor, worker.kept = (
                guest.actor_id,
                guest.stack,
                guest.actor,
                guest.kept,
            )

    def _step(self, guest: Guest) -> bool:
        """Advance one actor.  False: it waits, or has nothing to do."""
        self._enter(guest)
        worker = self.worker
        if guest.stack:
            has_moved = worker.step(guest.stack[-1])
            guest.actor = worker.actor if self.present is guest else guest.actor
            return has_moved
        if guest.is_gone:
            return False
        if guest.is_leaving or (guest.is_told_to_end and not guest.queue):
            if guest.is_leaving:
                worker.flush()
                worker.client.later.append(ActorExited(guest.actor_id, "exit_actor() was called."))
            self._gone(guest, EXITED_IN_ORDER)
            return True
        if guest.queue:
            worker.begin(guest.queue.popleft())
            return True
        return False

    def ended(self, top: Activation, result: Any) -> None:
        """Handle the return of an actor's script."""
        worker, guest = self.worker, self.present
        assert guest is not None
        guest.actor = worker.actor
        if guest.is_gone:
            if top.spec is not None:
                for index, value in enumerate(result[0], 1):
                    if type(value) is StoredValue:
                        worker.client.say(AbandonObject(return_id(top.spec.task_id, index)))
                worker.done_with(top.spec)
        elif top.spec is not None:
            self._note(top.spec, *result)
        elif result is None:
            worker.client.say(ActorStarted(guest.actor_id))
        else:
            if decode_failure(result).kind == "ObjectStoreFullError":
                worker.world.faults.found_no_room.add(guest.actor_id)
            worker.client.say(ActorStartFailed(guest.actor_id, result))
        worker.let_go(top)
        if guest.is_gone and not guest.stack:
            self.ghosts.remove(guest)
            self._say_end(guest)
            worker.client.released.extend(guest.kept)
        worker.flush()

    def _note(self, spec: TaskSpec, values: list[Any], contained: Any, wants_retry: bool) -> None:
        worker = self.worker
        for object_id in worker.executor.finished(spec, values, contained, wants_retry=wants_retry):
            worker.client.place_told(object_id)
            if object_id not in worker.executor.arguments:
                worker.client.place_unused(object_id)
        worker.done_with(spec)

    def _gone(self, guest: Guest, cause: str) -> None:
        """End an actor, as zray/host/worker/hosting does."""
        worker = self.worker
        guest.is_gone, guest.cause, guest.unclaimed = True, cause, len(guest.queue)
        for spec in guest.queue:
            worker.done_with(spec)
        guest.queue.clear()
        if guest.stack:
            self.ghosts.append(guest)
            worker.world.call_later(KILLED_SECONDS, self._say_end, guest)
        else:
            self._say_end(guest)
            worker.client.released.extend(guest.kept)
        worker.flush()

    def _say_end(self, guest: Guest) -> None:
        if self.worker.is_alive and self.guests.get(guest.actor_id) is guest:
            del self.guests[guest.actor_id]
            said = ActorEnded(guest.actor_id, guest.cause, guest.unclaimed, bool(guest.stack))
            self.worker.client.later.append(said)
            self.worker.flush()

    def served(self) -> Iterator[bytes]:
        """Yield the actors that the node has not ended."""
        scheduler = self.worker.node.scheduler
        for actor_id in self.guests:
            actor = scheduler.calls.actors.get(actor_id)
            if actor is not None and actor.worker is not None and actor.worker.address == self.worker.address:
                yield actor_id
