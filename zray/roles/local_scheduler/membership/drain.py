"""Drain of a node (`zray drain`): it accepts no work, finishes running work, and hands its objects over.

    DrainNode    -> no more placements here (LoadReport); unbegun tasks are given back, or spilled
    then         running tasks end, here and elsewhere for us; actors end (except those that can be restarted
                 elsewhere, see `Going`); programs leave (except those that only look, as `zray dashboard`)
    then         every object that others may know of gets a copy elsewhere: TakeCopies -> CopiesTaken
    then         all shards and all nodes have acknowledged our messages
    DrainReport(is_done) -> the monitor's verdict: nothing was lost with us (NodeLost.is_drained)

A task that no other node could run, and on which another task here may wait, still runs here.

The other side, `Taking`, holds the objects to take until the shards know of its copies.  A draining node takes none,
because two draining nodes would each count on the other's copies.

Actors of a draining node: actors that can be restarted elsewhere do not delay the drain.

    has a restart left, and a backup node      goes with the node: the backup node restarts the actor, as after a loss;
                                               that counts as a restart
    any other (no max_restarts, or no backup   the node waits for its end
    of its log)

When only such actors delay the node, they receive no more calls, and other nodes hold their calls back.  Running calls
end first, for PATIENCE_SECONDS at most, because a running call may wait for a held one.  If the node's objects find no
room elsewhere, calls resume for a moment, because the arguments of held calls may fill the stores.  A call without an
answer is treated as after the death of a node: repeated if allowed (max_task_retries), else an ActorUnavailableError.

When calls elsewhere, tasks or messages delay the node, these actors may create new ones as fast as the old ones end.
So they receive no calls then either.  But running work may wait for such a call: if nothing ends for PATIENCE_SECONDS,
calls resume for as long.

A draining backup node announces that (GuardianLeaves): the actors' nodes release it, and choose another.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from ....wire import drains, gcs
from ....wire.events import State
from ....wire.homes import GuardianLeaves, HoldCalls
from ....wire.where import Where
from ...role import on
from ..objects.table import ObjectEntry
from ..tables import Actor, ActorState, ReadyQueue
from ..task import FORWARDED, Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

PATIENCE_SECONDS = 5.0


class Going:
    """The departing actors of a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.since: float | None = None  # they are given no calls, and nothing has ended since then; None: they are
        self.least = (0, 0)  # the fewest calls that they have run since, and what was unfinished beside those
        self.again_at = 0.0  # they are given calls until then
        self.are_told = False  # other nodes keep their calls
        self.closed: dict[str, None] = {}  # nodes that have told us to do so

    def goes(self, actor: Actor) -> bool:
        """Whether the actor can be restarted elsewhere, and so does not delay the drain."""
        node, options = self.node, actor.options
        if not options.may_move or actor.killed or actor.is_going or actor.state == ActorState.DEAD:
            return False
        if 0 <= options.max_restarts <= actor.life.restart_count or not node.moves.is_settled(actor):
            return False
        if actor.shipping is not None and not actor.shipping.is_started:
            return False
        return actor.is_guarded and actor.guardian in node.members.peers

    def is_of_one(self, task: Task) -> bool:
        """Whether the task is a call on a departing actor, or its creation."""
        actor = self.node.calls.actors.get(task.options.actor_id or task.spec.task_id)
        return actor is not None and self.goes(actor)

    def hold_back(self) -> int:
        """Stop calls on departing actors, which alone delay the node.  Returns the number of unfinished calls."""
        now = self.node.now
        if self.since is None:
            self._close()
            self.since = now
        return 0 if now - self.since >= PATIENCE_SECONDS else self._running()

    def _running(self) -> int:
        """Count calls that have begun, with an end not known to others yet."""
        return sum(
            len(actor.inflight) + (actor.shipping is not None and not actor.shipping.is_safe)
            for actor in self.node.calls.actors.values()
            if self.goes(actor)
        )

    def hold_back_a_while(self, unfinished: int) -> None:
        """Stop calls for a while, because departing actors may create the unfinished work."""
        now, left = self.node.now, (self._running(), unfinished)
        if self.since is None:
            if now >= self.again_at:
                self._close()
                self.since, self.least = now, left
        elif left < self.least:
            self.since, self.least = now, left
        elif now - self.since >= PATIENCE_SECONDS:
            self.let_on()
            self.again_at = now + PATIENCE_SECONDS

    def _close(self) -> None:
        node = self.node
        if not self.are_told and any(map(self.goes, node.calls.actors.values())):
            self.are_told = True
            for peer in node.members.peers:
                node.send(peer, HoldCalls(is_over=False))

    def let_on(self) -> None:
        """Resume calls, because other unfinished work may need them."""
        if self.are_told:
            self.are_told = False
            for peer in self.node.members.peers:
                self.node.send(peer, HoldCalls(is_over=True))
        if self.since is not None:
            self.since = None
            for actor_id in self.node.calls.actors:
                self.node.calls.touch(actor_id)

    def is_held(self, actor: Actor) -> bool:
        """Whether the actor receives no more calls."""
        return self.since is not None and self.goes(actor)

    @on(HoldCalls)
    def on_hold_calls(self, message: HoldCalls) -> None:
        """HoldCalls."""
        node, home = self.node, self.node.sender
        if message.is_over:
            self.closed.pop(home, None)
            node.routes.touched.update((route.actor_id, None) for route in node.routes.by_actor.values())
        elif home in node.members.peers:
            self.closed[home] = None

    # --- guardians ---

    def leave_wards(self) -> int:
        """Announce the departure to guarded actors' nodes.  Returns how many actors are still guarded."""
        node = self.node
        homes = [guard.home for guard in node.guards.guarded.values() if guard.home in node.members.peers]
        for home in dict.fromkeys(homes):
            node.send(home, GuardianLeaves())
        return len(homes)

    @on(GuardianLeaves)
    def on_guardian_leaves(self, message: GuardianLeaves) -> None:
        """GuardianLeaves: another guardian is chosen, unless this node's own drain is done."""
        node, guardian = self.node, self.node.sender
        if node.drain.is_done or guardian not in node.members.peers:
            return
        node.members.leaving.add(guardian)
        for actor in list(node.calls.actors.values()):
            if actor.guardian == guardian:
                node.guards.dismiss(actor, is_dead=False)
                node.guards.another(actor)


STEP_SECONDS = 0.1
# Objects on their way to others at once.
MOVING_MAX = 1_000
# A node that has not taken an object after so long may have no room: another one is asked.
MOVING_SECONDS = 30.0
_STATES = {
    TaskState.WAITING: "waiting task",
    TaskState.READY: "ready task",
    TaskState.SENT: "running task",
    TaskState.CALL: "actor call",
    FORWARDED: "remote task",
}


class Moving(Struct, gc=False, eq=False):
    """An object to be copied to another node."""

    peer: str = ""  # who was asked; "": the shard, who else has it
    since: float = 0.0
    tried: int = 0


class DrainState(IntEnum):
    """How far the drain of a node is."""

    STAYS = 0  # none was ordered
    LEAVING = 1
    DONE = 2  # nothing is done here any more
    ALONE = 3  # done; but a node is lost that may have had copies of ours


STAYS, LEAVING, DONE, ALONE = DrainState
# An event without a row here leaves the state as it is.
TRANSITIONS = {
    (STAYS, "ordered"): LEAVING,
    (LEAVING, "finished"): DONE,
    (DONE, "node lost"): ALONE,
    (ALONE, "finished"): DONE,
}


class Drain:
    """The drain of a node, and objects taken from other draining nodes."""

    LASTING = {"moving": "MOVING_MAX", "safe asked own_requests": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.state = STAYS
        self.told = ""  # the monitor that was told so: the next one has not heard it
        self.moving: dict[bytes, Moving] = {}
        self.safe: set[bytes] = set()  # objects that others have: membership only
        self.request = 0
        self.asked: dict[int, tuple[str, bytes]] = {}  # of TakeCopies: whom, and which object (b"": none)
        self.own_requests: set[int] = set()  # to shards, of the last round: membership only
        self.silent: dict[str, None] | None = None  # who has not yet answered that it has all we said
        self.taking = Taking(node)
        self.going = Going(node)

    @property
    def is_on(self) -> bool:
        """Whether the node leaves."""
        return self.state is not STAYS

    @property
    def is_done(self) -> bool:
        """Whether the node's work has ended."""
        return self.state is DONE or self.state is ALONE

    def happened(self, event: str) -> None:
        """Apply an event to the state of the drain."""
        self.state = TRANSITIONS.get((self.state, event), self.state)

    # --- leaving ---

    @on(drains.DrainNode)
    def on_drain_node(self, message: drains.DrainNode) -> None:
        """DrainNode; a repeat changes nothing."""
        if not self.is_on:
            self.happened("ordered")
            self.node.changes.node_is(State.DRAINING)
            self.node.dispatch.is_dirty = True
            self.step()

    def send_away(self) -> None:
        """Send away ready tasks, except tasks that must run locally."""
        node = self.node
        for queue in list(node.dispatch.queues):
            if queue.tasks and not self._must_stay(queue):
                node.trips.leave(queue, must_all=True)

    def _give_back(self) -> None:
        """Give back tasks placed by others and still waiting for arguments."""
        node = self.node
        for task in list(node.tasks.values()):
            is_others = task.origin and task.origin != node.address and task.origin not in node.recovery.lost
            is_others = is_others and not node.groups.is_for(task)
            if is_others and task.state == TaskState.WAITING and task.spec.function_id in node.functions.by_id:
                node.trips.give_back_waiting(task)

    def _must_stay(self, queue: ReadyQueue) -> bool:
        """Whether the queue's tasks must stay: in a local bundle, or awaited by a local task and unable to run
        elsewhere."""
        return queue.is_in_group or queue.depth > 0 and not self.may_go(queue.resources, queue.options.where)

    def may_go(self, request: dict[str, int], where: Where | None) -> bool:
        """Whether another node could hold the request."""
        node = self.node
        return not node.strategies.is_bound(where) and node.infeasible.is_met_elsewhere(request)

    def refused(self, depth: int) -> bool:
        """Whether a task that no other node can run stays with us after all."""
        return self.is_on and depth > 0

    def step(self) -> None:
        """Check the progress of the drain, periodically."""
        node = self.node
        if node.members.is_fenced:
            return
        node.after(STEP_SECONDS, self.step)
        if self.is_done:
            if self.state is ALONE:
                self._look_again()
            elif self.told != node.addresses.monitor:
                self._report([])
            return
        self.send_away()
        self._give_back()
        wards = self.going.leave_wards()
        waits_for, count = self._unfinished()
        if count:
            self.going.hold_back_a_while(count)
        elif waits_for:
            self.going.let_on()
        elif count := self.going.hold_back():
            waits_for = [_count(count, "actor call")]
        elif wards:
            waits_for = [_count(wards, "actor") + " of others, to be guarded by another node"]
        if not waits_for:
            if self._move():
                self.going.let_on()  # those who wait for them may hold what would make room
            waits_for = self._unmoved()
        if waits_for:
            self.silent = None
        elif self.silent is None:
            self._ask_all()
        if not waits_for and self.silent is not None and not self.silent:
            self.happened("finished")
            self.node.changes.node_is(State.DRAINED)
        self._report(waits_for)

    def _look_again(self) -> None:
        """Look again for objects to move, although the drain was reported as done: other nodes may wait."""
        self._move()
        waits_for = self._unmoved()
        if not waits_for:
            self.happened("finished")
        self._report(waits_for)

    def _report(self, waits_for: list[str]) -> None:
        self.told = self.node.addresses.monitor
        self.node.send(self.told, drains.DrainReport(self.node.address, waits_for, self.state is DONE))

    def _unfinished(self) -> tuple[list[str], int]:
        """Describe the work still to end, and count it.

        The count is 0 if any work runs locally; otherwise departing actors may have created the work.
        """
        node = self.node
        drivers = sum(each.kind == "driver" and not each.job.facts.only_looks for each in node.processes.values())
        goes = self.going.goes
        actors = sum(actor.state != ActorState.DEAD and not goes(actor) for actor in node.calls.actors.values())
        tasks = Counter(min(task.state, FORWARDED) for task in node.tasks.values() if not self.going.is_of_one(task))
        told = [_count(tasks[state], what) for state, what in _STATES.items() if tasks[state]]
        told += [_count(number, what) for number, what in ((actors, "actor"), (drivers, "program")) if number]
        expected = [request for request in node.acks.expected if request not in self.own_requests]
        under_way = len(expected) + len(node.moves.offers)
        told = told or ([_count(under_way, "message") + " under way"] if under_way else [])
        is_work_here = actors or drivers or tasks[TaskState.SENT]
        return told, 0 if is_work_here else tasks.total() + under_way

    # --- objects ---

    def _to_move(self) -> list[ObjectEntry]:
        return [
            entry
            for entry in self.node.objects.entries.values()
            if entry.is_here and entry.shared is not None and not entry.is_lost
            if entry.task is None  # else made again for an answer that has not been given: nobody else has it, or can
            if entry.object_id not in self.safe
        ]

    def _unmoved(self) -> list[str]:
        left = self._to_move()
        size = sum(_size_of(entry) for entry in left)
        return [f"{_count(len(left), 'object')} ({size / 1e6:,.1f} MB) to be moved"] if left else []

    def _move(self) -> bool:
        """Ask the shards for other copies, and order copies where none exists.  Returns whether that takes too long."""
        node, is_stuck = self.node, False
        left = [entry.object_id for entry in self._to_move()]
        known = dict.fromkeys(left)
        self.moving = {object_id: moving for object_id, moving in self.moving.items() if object_id in known}
        for object_id in left:
            moving = self.moving.get(object_id)
            if moving is None and len(self.moving) < MOVING_MAX:
                moving = self.moving[object_id] = Moving()
            elif moving is None or node.now - moving.since < MOVING_SECONDS:
                continue
            else:
                is_stuck = True
            moving.peer, moving.since = "", node.now
            node.send(node.addresses.shard_of(object_id), gcs.SubscribeObject(node.address, object_id))
        return is_stuck

    def located(self, message: gcs.ObjectLocated) -> None:
        """ObjectLocated: holders of a copy are known."""
        moving = self.moving.get(message.object_id)
        entry = self.node.objects.entries.get(message.object_id)
        if moving is None or moving.peer or entry is None or not entry.is_here:
            return
        members = self.node.members
        peers = [peer for peer in members.peers if peer not in members.outside and peer not in members.leaving]
        have = [peer for peer in message.holders if peer in peers]
        if not peers:
            moving.since = -MOVING_SECONDS  # the next look
            return
        number = int.from_bytes(message.object_id[6:16], "big") + moving.tried
        moving.peer = have[0] if have and not moving.tried else peers[number % len(peers)]
        moving.tried += 1
        self._ask(moving.peer, [(message.object_id, _size_of(entry))])

    def _ask(self, peer: str, objects: list[tuple[bytes, int]]) -> None:
        self.request += 1
        self.asked[self.request] = peer, objects[0][0] if objects else b""
        self.node.send(peer, drains.TakeCopies(self.request, objects))

    def _ask_all(self) -> None:
        """Ask all shards and nodes to acknowledge our messages."""
        node = self.node
        self.own_requests.clear()
        self.silent = dict.fromkeys((*node.addresses.shards, *node.members.peers))
        for peer in node.members.peers:
            self._ask(peer, [])
        for shard in node.addresses.shards:
            request = node.acks.next_request()
            self.own_requests.add(request)
            node.acks.expect(request, 1, lambda shard=shard: self._has_answered(shard))  # type: ignore[misc]
            node.send(shard, gcs.HoldAtNode(node.address, [], request))

    def _has_answered(self, who: str) -> None:
        if self.silent is not None:
            self.silent.pop(who, None)

    @on(drains.CopiesTaken)
    def on_copies_taken(self, message: drains.CopiesTaken) -> None:
        """CopiesTaken."""
        sender = self.node.sender
        peer, object_id = self.asked.pop(message.request, ("", b""))
        if peer != sender:
            self.node.reject("copies taken that nobody was asked to take")
            return
        self._has_answered(sender)
        if message.is_leaving and sender in self.node.members.peers:
            self.node.members.leaving.add(sender)
            if object_id in self.moving:
                self.moving[object_id].since = -MOVING_SECONDS  # another one is to have it
        for object_id in message.object_ids:
            self.moving.pop(object_id, None)
            self.safe.add(object_id)

    def node_lost(self, lost: str, *, is_drained: bool) -> None:
        """Move objects again after the loss of the node that took them; a drained node has handed them on."""
        self.taking.node_lost(lost)
        self.going.closed.pop(lost, None)
        if not self.is_on:
            return
        self.asked = {request: asked for request, asked in self.asked.items() if asked[0] != lost}
        for moving in self.moving.values():
            if moving.peer == lost:
                moving.since = -PATIENCE_SECONDS
        self._has_answered(lost)
        if not is_drained:
            # The lost copy may have been the only other one: all objects are checked again.
            self.safe.clear()
            if self.is_done:
                self.happened("node lost")
                self._look_again()


class Taking:
    """Objects taken from draining nodes."""

    PASSING = {"orders": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.orders: dict[tuple[str, int], dict[bytes, None]] = {}  # (who asks, its request) -> what has not come
        self.timer_is_set = False

    @on(drains.TakeCopies)
    def on_take_copies(self, message: drains.TakeCopies) -> None:
        """TakeCopies."""
        node, asker = self.node, self.node.sender
        if asker in node.recovery.lost:
            return
        if message.objects and node.drain.is_on:
            node.send(asker, drains.CopiesTaken(message.request, [], True))
            return
        wanted: dict[bytes, None] = {}
        for object_id, size in message.objects:
            if object_id in wanted:
                continue
            wanted[object_id] = None
            entry = node.objects.retain(object_id)  # until the shards know
            if entry.shared is None and entry.value is None and entry.task is None:
                node.remote.adopt(entry)
            if entry.value is None and entry.task is None:
                self._fetch(entry, asker, size)
        if not wanted:
            node.send(asker, drains.CopiesTaken(message.request, []))
            return
        self.orders[(asker, message.request)] = wanted
        self._set_timer()

    def _fetch(self, entry: ObjectEntry, asker: str, size: int) -> None:
        shared = entry.share()
        if not shared.is_fetching:
            shared.lies_at(shared.locations or (asker,), shared.size or size)
            self.node.fetches.begin(entry, shared)

    def _set_timer(self) -> None:
        if not self.timer_is_set:
            self.timer_is_set = True
            self.node.after(STEP_SECONDS, self.see_what_has_come)

    def see_what_has_come(self) -> None:
        """Check for arrived copies, and fetch failed ones again."""
        self.timer_is_set = False
        node = self.node
        for (asker, request), wanted in list(self.orders.items()):
            entries = [node.objects.entries[object_id] for object_id in wanted]
            if all(entry.value is not None and entry.object_id not in node.remote.unsaid for entry in entries):
                self._tell_shards(asker, request, entries)
                continue
            for entry in entries:
                if entry.value is None and entry.task is None:
                    self._fetch(entry, asker, 0)
        if self.orders:
            self._set_timer()

    def _tell_shards(self, asker: str, request: int, entries: list[ObjectEntry]) -> None:
        """Record the copies and their inner objects as held at the shards; answer after the acknowledgement."""
        node = self.node
        del self.orders[(asker, request)]
        object_ids = [entry.object_id for entry in entries]
        here = [entry for entry in entries if not entry.is_lost]
        for entry in here:
            node.remote.share_value(entry)
        inner = [object_id for entry in here for object_id in entry.contained]
        own = node.acks.next_request()
        count = node.remote._hold_at_shards([*object_ids, *inner], own)

        def tell() -> None:
            node.send(asker, drains.CopiesTaken(request, [entry.object_id for entry in here]))
            node.objects.drop_all(object_ids)

        node.acks.expect(own, count, tell)

    def node_lost(self, lost: str) -> None:
        """Drop the orders of a lost node."""
        for asker, request in [key for key in self.orders if key[0] == lost]:
            self.node.objects.drop_all(self.orders.pop((asker, request)))


def _size_of(entry: ObjectEntry) -> int:
    """Return the bytes of an object that this node has."""
    return len(entry.value) if type(entry.value) is bytes else entry.size


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
