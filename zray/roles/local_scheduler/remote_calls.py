"""Calls that other nodes make on actors of this one, and what they come to.  The other end: `routes`.

call:   ForwardCalls -> the actor's node runs it as its own -> CallsFinished.  Small values come with that; what is
        large, or has refs inside, stays there until the caller's node has joined its holders (ResultsHeld).
        Refs that a call takes are held here until the other node has joined theirs (CallsAccepted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...wire.actors import (
    CallResult,
    CallsAccepted,
    CallsFinished,
    ForwardCalls,
    ResultsHeld,
)
from ...wire.scheduling import JobFacts
from ...wire.task_spec import StoredValue, parse_options
from .tables import Job, Task, TaskState

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# One message of calls or results holds at most so much.
BATCH_BYTES_MAX = 1 << 20
BATCH_COUNT_MAX = 1000


class RemoteCalls:
    """Those that are under way here."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.unheld: dict[str, list[bytes]] = {}  # caller's node -> results kept here until it holds them
        self.results: dict[str, list[CallResult]] = {}  # by origin, of this turn

    def pump(self) -> None:
        """End of a turn: results leave."""
        results, self.results = self.results, {}
        for origin, batch in results.items():
            self.node.send(origin, CallsFinished(batch, self.node.logs.receipt(origin)))

    def on_forward_calls(self, message: ForwardCalls) -> None:
        """ForwardCalls."""
        node, origin = self.node, self.node.sender
        attempts = message.attempts or [0] * len(message.specs)
        for spec, attempt in zip(message.specs, attempts, strict=False):
            options = parse_options(spec.options)
            known = node.tasks.get(spec.task_id)
            if known is not None:
                known.origin = origin  # its caller runs again, on another node
                node.reject("a call forwarded twice")
                if spec.deps or spec.holds:
                    node.send(origin, CallsAccepted([spec.task_id]))
                continue
            actor = node.calls.actors.get(options.actor_id)
            if actor is not None and actor.shipping is not None and actor.shipping.inherited and not attempt:
                actor.shipping.caller_goes_on(origin)
            job = actor.job if actor is not None else Job(b"", JobFacts())
            task = node.lifecycle.accept_placed(spec, options, job, origin)
            task.attempts = attempt
            if spec.deps or spec.holds:
                self.join_holders((*spec.deps, *spec.holds), origin, CallsAccepted([spec.task_id]))
            node.calls.submit(task)

    def join_holders(self, arguments: tuple[bytes, ...], origin: str, reply: Any) -> None:
        """The refs came from the origin, which holds them until it has the reply."""
        node = self.node
        for object_id in arguments:
            entry = node.objects.require(object_id)
            if entry.value is None and entry.task is None:
                entry.share()
        request = node.acks.next_request()
        expected = node.remote._hold_at_shards(list(dict.fromkeys(arguments)), request)
        node.acks.expect(request, expected, lambda: node.send(origin, reply), origin)

    def finish(self, task: Task, values: list[Any], contained: tuple[tuple[bytes, ...], ...]) -> None:
        """A call of another node has ended here: small values go back, others are kept until its node holds them."""
        node, objects = self.node, self.node.objects
        node.finished_count += 1
        task.state = TaskState.DONE
        task.worker = None
        back: list[bytes | int] = []
        values = values or [b""]
        for index, entry in enumerate(node.lifecycle.returns_of(task)):
            value = values[index] if index < len(values) else values[0]
            inside = contained[index] if index < len(contained) else ()
            entry.task = None
            if type(value) is bytes and not inside:
                back.append(value)
                if entry.holders is None and not entry.count:
                    objects.forget_released(entry)
                else:
                    node.object_is_here(entry, value)
                continue
            back.append(value.size if type(value) is StoredValue else len(value))
            objects.retain(entry.object_id)
            self.unheld.setdefault(task.origin, []).append(entry.object_id)
            node.remote._hold_at_shards([entry.object_id], 0)
            node.object_is_here(entry, value, inside)
        spec = task.spec
        objects.drop_all(spec.deps)
        objects.drop_all(spec.holds)
        batch = self.results.setdefault(task.origin, [])
        batch.append(CallResult(spec.task_id, back))
        node.logs.gives(task)
        if len(batch) == BATCH_COUNT_MAX or sum(len(value) for value in back if type(value) is bytes) > 1000:
            del self.results[task.origin]
            node.send(task.origin, CallsFinished(batch, node.logs.receipt(task.origin)))

    def results_held(self, message: ResultsHeld) -> None:
        """ResultsHeld."""
        kept = self.unheld.get(self.node.sender, [])
        for object_id in message.object_ids:
            if object_id in kept:
                kept.remove(object_id)
                self.node.objects.drop(object_id)
        if not kept:
            self.unheld.pop(self.node.sender, None)

    def node_lost(self, lost: str) -> None:
        """What it was promised, nobody waits for."""
        self.node.objects.drop_all(self.unheld.pop(lost, []))
        self.results.pop(lost, None)


HANDLERS: dict[type, Any] = {
    ForwardCalls: lambda self, message: self.remote_calls.on_forward_calls(message),
    ResultsHeld: lambda self, message: self.remote_calls.results_held(message),
}
