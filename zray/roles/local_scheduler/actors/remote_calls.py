"""Calls from other nodes on local actors, and their results.  The other end: `routes`.

ForwardCalls -> the actor's node runs the call as its own -> CallsFinished.  Small values come with CallsFinished.
Large values, or values with refs inside, stay until the caller's node has joined the holders (results).  The caller's
node holds a call's refs until the actor's node has joined the holders (CallsAccepted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....wire import actors, scheduling, task_spec
from ...role import on
from ..objects.recovery import submit_call
from ..tables import Job, Process
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# The limits of a message with calls or results.
BATCH_BYTES_MAX = 1 << 20
BATCH_COUNT_MAX = 1000


class RemoteCalls:
    """The calls from other nodes under way here."""

    PASSING = {"results": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.results: dict[str, list[actors.CallResult]] = {}  # by origin, of this turn

    def pump(self) -> None:
        """Send results at the end of a turn."""
        for origin in list(self.results):
            self._leave(origin)

    def _leave(self, origin: str) -> None:
        batch = self.results.pop(origin, None)
        if batch:
            self.node.send(origin, actors.CallsFinished(batch, self.node.logs.receipt(origin)))

    @on(actors.ForwardCalls)
    def on_forward_calls(self, message: actors.ForwardCalls) -> None:
        """ForwardCalls."""
        node, origin = self.node, self.node.sender
        attempts = message.attempts or [0] * len(message.specs)
        for spec, attempt in zip(message.specs, attempts, strict=False):
            options = task_spec.parse_options(spec.options)
            known, actor = node.tasks.get(spec.task_id), node.calls.actors.get(options.actor_id)
            if known is not None:
                # The caller is re-executed on another node; or the call overtook it.
                node.task_states.comes_from(known, origin)
                if actor is not None and actor.shipping is not None:
                    actor.shipping.answers.asked_for(spec.task_id, origin)
                node.kept_items.give(known)
                node.reject("a call forwarded twice")
                if spec.deps or spec.holds:
                    node.send(origin, actors.CallsAccepted([spec.task_id]))
                continue
            if attempt and actor is not None and actor.shipping is not None:
                if not options.is_generator and actor.shipping.answers.is_given(spec.task_id, origin):
                    # The origin was to have the actor, took the call for lost, and has the actor no more.
                    node.reject("a call whose result is on its way")
                    if spec.deps or spec.holds:
                        node.send(origin, actors.CallsAccepted([spec.task_id]))
                    continue
            if actor is not None and actor.shipping is not None and actor.shipping.answers.inherited and not attempt:
                actor.shipping.answers.caller_goes_on(origin)
            job = actor.job if actor is not None else Job(b"", scheduling.JobFacts())
            task = node.lifecycle.accept_placed(spec, options, job, origin)
            task.tried(attempt)
            if spec.task_id in message.answered and actor is not None and actor.shipping is not None:
                actor.shipping.answers.comes_again(spec.task_id)
            if spec.deps or spec.holds:
                self.join_holders((*spec.deps, *spec.holds), origin, actors.CallsAccepted([spec.task_id]))
            submit_call(node, task)

    def join_holders(self, arguments: tuple[bytes, ...], origin: str, reply: Any) -> None:
        """Join the holders of the refs; the origin holds the refs until the reply."""
        node = self.node
        for object_id in arguments:
            entry = node.objects.require(object_id)
            if entry.value is None and entry.task is None:
                entry.share()
        request = node.acks.next_request()
        expected = node.remote._hold_at_shards(list(dict.fromkeys(arguments)), request)
        node.acks.expect(request, expected, lambda: node.send(origin, reply), origin)

    def finish(
        self, task: Task, values: list[Any], contained: tuple[tuple[bytes, ...], ...], writer: Process | None
    ) -> None:
        """Finish a call from another node."""
        if task.options.is_generator:
            self.node.kept_items.call_ended(task.spec.task_id)
        self.node.results.give(task, values, contained, lambda back: self._tell(task, back), writer)

    def _tell(self, task: Task, back: list[bytes | int]) -> None:
        """Report a result to the caller's node at the end of the turn, or at once if its acknowledgement may be
        delayed."""
        origin, logs = task.origin, self.node.logs
        is_alone = any(type(value) is int for value in back) and logs.may_be_asked_again(task)
        if is_alone:
            self._leave(origin)
        batch = self.results.setdefault(origin, [])
        batch.append(actors.CallResult(task.spec.task_id, back))
        logs.gives(task)
        size = sum(len(value) for value in back if type(value) is bytes)
        if is_alone or len(batch) == BATCH_COUNT_MAX or size > 1000:
            self._leave(origin)

    def node_lost(self, lost: str) -> None:
        """Forget the results for a lost node."""
        self.results.pop(lost, None)
