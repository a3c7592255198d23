"""Scheduling strategies: whether a task or actor stays, is spilled or is refused.

Tasks without a strategy bypass this file, at no extra cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....wire.amounts import Amounts, is_enough
from ....wire.scheduling import SpillRefused
from ....wire.task_spec import ActorOptions
from ....wire.where import LabelRule, Where, host_of, matches, no_such_labels, no_such_node, nobody_can, rules_of
from ..gpus import GPU
from ..resources import CPU
from ..tables import ReadyQueue
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Strategies:
    """The scheduling strategies of a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.host = host_of(node.address)

    def may_run_here(self, where: Where | None, request: Amounts) -> bool:
        """Whether the strategy allows this node.  request: the requested resources."""
        if where is None:
            return True
        if where.node and where.node != self.host and not (where.is_soft and not self._is_there(where.node)):
            return False
        return matches(self.node.labels, self._rules(where, request))

    def is_barred(self, where: Where | None) -> bool:
        """Whether the strategy excludes this node, regardless of other nodes."""
        if where is None:
            return False
        is_anothers = bool(where.node) and where.node != self.host and not where.is_soft
        return is_anothers or not (where.fallbacks or matches(self.node.labels, where.hard))

    def would_go(self, where: Where | None, request: Amounts) -> bool:
        """Whether a global scheduler should choose the place, even if this node has room."""
        if where is None or where.node == self.host:
            return False
        if not self.may_run_here(where, request) or (where.is_spread and self._peers()):
            return True
        return bool(where.soft and not matches(self.node.labels, where.soft) and self._match(where, request))

    def spares_gpus(self, where: Where | None, request: Amounts) -> bool:
        """Whether an actor is to leave the CPUs beside our GPUs to the work of these, if another node has room."""
        total, peers = self.node.resources.total, self.node.members.peers
        if not total.get(GPU) or request.get(GPU) or not request.get(CPU):
            return False
        able = (peer for peer in self._peers() if not peers[peer].get(GPU) and is_enough(peers[peer], request))
        return any(self.may_move(where, request, peer) for peer in able)

    def is_bound(self, where: Where | None) -> bool:
        """Whether the strategy binds the task to this node, whatever the load."""
        return where is not None and (where.node == self.host or bool(where.group))

    def may_move(self, where: Where | None, request: Amounts, peer: str) -> bool:
        """Whether a task may run on the peer as well as here; a task with a place of its own, or a turn, stays."""
        if where is None:
            return True
        labels = self.node.members.labels.get(peer, {})
        rules = (*self._rules(where, request), *where.soft)
        return not (where.node or where.group or where.is_spread) and matches(labels, rules)

    def _peers(self) -> Iterable[str]:
        members = self.node.members
        return [peer for peer in members.peers if peer not in members.outside]

    def _is_there(self, host: str) -> bool:
        return any(host_of(peer) == host for peer in self._peers())

    def _match(self, where: Where, request: Amounts) -> bool:
        labels, rules = self.node.members.labels, (*self._rules(where, request), *where.soft)
        return any(matches(labels[peer], rules) for peer in self._peers())

    def _rules(self, where: Where, request: Amounts) -> tuple[LabelRule, ...]:
        return rules_of(where, self._nodes(request)) if where.fallbacks else where.hard

    def _nodes(self, request: Amounts) -> Iterable[tuple[dict[str, str], bool]]:
        """Yield the labels of each node that runs tasks, and whether the node's total covers the request."""
        members = self.node.members
        own = [] if members.is_guest else [(self.node.labels, is_enough(self.node.resources.total, request))]
        peers = (peer for peer in self._peers() if peer not in members.leaving)
        return [*own, *((members.labels[peer], is_enough(members.peers[peer], request)) for peer in peers)]

    def is_met(self, where: Where | None, request: Amounts) -> bool:
        """Whether any known node could hold the request, even if a global scheduler does not know that node yet."""
        if where is not None and (where.node or where.group):
            return False
        rules = self._rules(where, request) if where is not None else ()
        return any(has_it and matches(labels, rules) for labels, has_it in self._nodes(request))

    def enqueue(self, task: Task, queue: ReadyQueue) -> None:
        """Enqueue a ready task with a strategy, or too large for even an empty node of the local kind."""
        node, where = self.node, task.options.where
        if where is not None and where.group:
            node.groups.enqueue(task, queue)
            return
        is_placed = bool(task.origin)
        if where is not None and not is_placed and self.would_go(where, task.options.resources):
            if self._peers():
                node.departures.spill(task)
            else:
                self.refuse(task, SpillRefused(task.spec.task_id, self._why_nowhere(where), bool(where.node)))
        elif queue.is_infeasible:
            node.infeasible.cannot_run_here(task)
        else:
            node.dispatch.append(task, queue)

    def refuse(self, task: Task, refusal: SpillRefused) -> None:
        """Fail or park a task that no node may run."""
        if refusal.is_final:
            text = nobody_can("run this task", refusal.reason)
            self.node.lifecycle.fail(task, "TaskUnschedulableError", text)
        else:
            self.node.infeasible.refuse_or_park(task, refusal.reason)

    def _why_nowhere(self, where: Where) -> str:
        """Explain to the user that no other node exists."""
        if where.node and where.node != self.host:
            return no_such_node(where.node)
        return no_such_labels(where)

    def why_no_labels(self, where: Where | None) -> str:
        """Explain to the user that no node has the requested labels; "" if some node has, or no labels are
        requested."""
        if where is None or not where.hard:
            return ""
        labels = self.node.members.labels
        known = [self.node.labels, *(labels[peer] for peer in self._peers())]
        choices = (where.hard, *where.fallbacks)
        is_met = any(matches(found, rules) for found in known for rules in choices)
        return "" if is_met else no_such_labels(where)

    def why_no_actor(self, options: ActorOptions) -> str:
        """Explain to the user why an actor can never start in a session without other nodes; "" if possible."""
        where = options.where
        if where is None or not self.node.is_embedded or self.may_run_here(where, options.resources):
            return ""
        return self._why_nowhere(where)
