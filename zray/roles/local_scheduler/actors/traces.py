"""Traces of actor handles, over all nodes that hold them (cycles; wire/handles.py).

    a handle has lost a holder                 here, or on a node that has no other holder, as the shard says: suspect
    an actor comes from another node           likewise: what the former home was told did not come along
    a timer                                    the node traces its suspects, and actors that hold them, in one trace
    the trace finds a root                     no suspect any more: the loss of the root is heard of
    the trace finds an actor with calls, a change, or a node that is gone       traced again, later and later
    a second look has found the same           the actors end, each on its own node

A node has one trace at a time.  A node without suspects sets no timer and sends nothing.  A session of one machine has
one node, which asks itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import task_of
from ....wire import handles as wire
from ...role import on
from .cycles import led_to

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

REASON = "only actors that no program can reach had its handles"
# A trace comes at the earliest so long after the loss of a holder, and after the former trace.
PAUSE_SECONDS = 0.5
# In a cluster, a trace that has ended nothing is followed by the next after twice the time, up to this.  The same time
# passes after the loss of a node: handles that it has sent may not be known to the shards yet.
PAUSE_SECONDS_MAX = 5.0
# A trace that leads to more actors is given up: each takes some 500 bytes.
ACTORS_MAX = 10_000


class Trace(Struct, eq=False):
    """A trace that this node has begun."""

    LASTING = {"homes silent places holds reachable busy": None}

    number: int
    homes: dict[bytes, str]  # of all actors that were found
    silent: dict[str, None] = {}  # shards or nodes that have not answered
    places: dict[bytes, dict[str, None]] = {}  # actor -> nodes that are asked about it
    holds: dict[bytes, list[bytes]] = {}  # actor -> those whose handles it has
    reachable: dict[bytes, None] = {}
    busy: dict[bytes, None] = {}
    is_void: bool = False  # what was found is not true of one moment, or is too much

    def lies_at(self, actor_id: bytes, nodes: Iterable[str]) -> None:
        """Note which nodes hold an actor's handle, as its shard says; the actor's home is asked too."""
        if actor_id in self.homes:
            found = dict.fromkeys((self.homes[actor_id], *nodes))
            self.is_void |= not found.keys() <= self.places.setdefault(actor_id, found).keys()

    def note(self, facts: wire.HandleFacts, node: str) -> None:
        """Note what a node knows."""
        for holder, home in facts.holders:
            self.homes.setdefault(holder, home)
            self.holds.setdefault(holder, []).append(facts.actor_id)
        self.is_void |= len(self.homes) > ACTORS_MAX
        if facts.is_reachable:
            self.reachable[facts.actor_id] = None
        if facts.is_busy or (node == self.homes.get(facts.actor_id) and not facts.is_home):
            self.busy[facts.actor_id] = None

    def not_asked(self) -> list[bytes]:
        """Return the actors whose holders are to be found."""
        kept = led_to(self.holds, self.reachable)
        return [actor_id for actor_id in self.homes if actor_id not in self.places and actor_id not in kept]

    def not_held(self) -> list[bytes]:
        """Return the actors that only hold each other."""
        kept = led_to(self.holds, (*self.reachable, *self.busy))
        return [actor_id for actor_id in self.places if actor_id not in kept and not self.is_void]


class Watch(Struct, eq=False):
    """Answers of this node to one trace, of another node or its own."""

    LASTING = {"facts halted": None}
    PASSING = {"waiting": None}

    number: int
    facts: dict[bytes, wire.HandleFacts] = {}
    has_changed: bool = False
    halted: dict[bytes, None] = {}  # named actors that live here, and were asked about for the second time
    waiting: list[Callable[[], None]] = []  # for the end of the trace: they have found such an actor by its name


class Traces:
    """The traces of a node, and its part in those of others."""

    # A node that is cut off from one other node, and from no more, may leave a trace without an answer for long.
    LASTING = {"watches trace": ..., "suspects": None} | {
        "suspects without a timer": (lambda it: 0 if it.is_due or it.trace else len(it.suspects), 0)
    }

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.suspects: dict[bytes, None] = {}  # actors whose handles have lost a holder
        self.number = 0
        self.trace: Trace | None = None
        self.steps: Iterator[None] = iter(())  # of the trace
        self.watches: dict[str, Watch] = {}  # by the node that traces
        self.is_due = False  # a timer is set
        self.pause, self.not_before = PAUSE_SECONDS, 0.0

    # --- suspects ---

    def suspect(self, *actor_ids: bytes) -> None:
        """Have these actors traced, soon."""
        self.suspects.update(dict.fromkeys(actor_ids))
        if self.suspects and not self.is_due and self.trace is None:
            self.is_due = True
            self.node.after(max(PAUSE_SECONDS, self.not_before - self.node.now), self._begin)

    @on(wire.HandleReleased)
    def on_handle_released(self, message: wire.HandleReleased) -> None:
        """HandleReleased."""
        self.suspect(message.actor_id)

    def _begin(self) -> None:
        """Trace the suspects that live here, and the actors here that hold others, unless something here keeps them."""
        self.is_due = False
        node, suspects, self.suspects = self.node, self.suspects, {}
        found: dict[bytes, str] = {}
        for facts in node.cycles.facts(suspects):
            if not facts.is_reachable:
                found.update([(facts.actor_id, node.address)] * facts.is_home + facts.holders)
        for actor_id, home in found.items():
            if home in node.members.peers:  # it is guarded here
                node.send(home, wire.HandleReleased(actor_id))
        if homes := {actor_id: home for actor_id, home in found.items() if home == node.address}:
            self.number += 1
            self.trace = Trace(self.number, homes)
            self.steps = self._run(self.trace, list(homes))
            self._go_on(self.trace)

    # --- a trace ---

    def _run(self, trace: Trace, suspects: list[bytes]) -> Iterator[None]:
        """Ask for the holders of the suspects, for the holders of these, and so on; then ask for all again."""
        fresh = suspects
        while fresh and not trace.is_void:
            yield from self._ask_for(trace, fresh)
            fresh = trace.not_asked()
        doomed = trace.not_held()
        yield from self._ask_for(trace, doomed)
        self._end(trace, doomed if not trace.is_void else [])
        kept = led_to(trace.holds, trace.reachable)
        self.suspect(*(actor_id for actor_id in suspects if actor_id not in kept))

    def _ask_for(self, trace: Trace, actor_ids: list[bytes]) -> Iterator[None]:
        """Ask the shards who holds the actors, and then the nodes."""
        node, by_node = self.node, dict[str, list[bytes]]()
        for shard, ids in node.addresses.by_shard(actor_ids).items():
            trace.silent[shard] = None
            node.send(shard, wire.FindHolders(trace.number, ids))
        yield
        for actor_id in actor_ids:
            for place in trace.places.get(actor_id, ()):
                by_node.setdefault(place, []).append(actor_id)
        trace.is_void |= not by_node.keys() <= {node.address, *node.members.peers}
        for place, ids in by_node.items() if not trace.is_void else ():
            trace.silent[place] = None
            node.send(place, wire.TraceHandles(trace.number, ids))
        yield

    @on(wire.FindHoldersReply, wire.TraceHandlesReply)
    def on_reply(self, message: wire.FindHoldersReply | wire.TraceHandlesReply) -> None:
        """FindHoldersReply, TraceHandlesReply."""
        trace, sender = self.trace, self.node.sender
        if trace is None or trace.number != message.number:
            return
        if sender not in trace.silent:
            if isinstance(message, wire.TraceHandlesReply) and message.has_changed:
                self._give_up(trace)
            return
        del trace.silent[sender]
        if isinstance(message, wire.FindHoldersReply):
            for actor_id, nodes in message.holders:
                trace.lies_at(actor_id, nodes)
        else:
            trace.is_void |= message.has_changed
            for facts in message.facts:
                trace.note(facts, sender)
        self._go_on(trace)

    def _go_on(self, trace: Trace) -> None:
        while self.trace is trace and not trace.silent:
            next(self.steps, None)

    def _end(self, trace: Trace, doomed: list[bytes]) -> None:
        """Have all nodes end those of these actors that are theirs, and forget the trace."""
        node = self.node
        self.trace = None
        for place in {place: None for places in trace.places.values() for place in places}:
            if place == node.address or place in node.members.peers:
                node.send(place, wire.EndTrace(trace.number, doomed))
        is_short = bool(doomed) or not node.members.peers
        self.pause = PAUSE_SECONDS if is_short else min(2 * self.pause, PAUSE_SECONDS_MAX)
        self.not_before = max(self.not_before, node.now + self.pause)

    def node_lost(self, lost: str) -> None:
        """Give up the trace, and forget the watch of the lost node."""
        if (watch := self.watches.pop(lost, None)) is not None:
            self._thaw(watch)
        self.not_before = self.node.now + PAUSE_SECONDS_MAX
        if (trace := self.trace) is not None:
            self._give_up(trace)

    def give_up(self, number: int) -> None:
        """Give up our trace of that number, if it goes on: it asked a shard that does not own all of these actors."""
        if self.trace is not None and self.trace.number == number:
            self._give_up(self.trace)

    def _give_up(self, trace: Trace) -> None:
        trace.is_void = True
        trace.silent.clear()
        self._go_on(trace)

    # --- traces of other nodes, and of this one ---

    @on(wire.TraceHandles)
    def on_trace_handles(self, message: wire.TraceHandles) -> None:
        """TraceHandles."""
        node, asker = self.node, self.node.sender
        if asker in node.recovery.lost:
            return
        self.look_for_changes()
        watch = self.watches.get(asker)
        if watch is None or watch.number != message.number:
            if watch is not None:
                self._thaw(watch)
            watch = self.watches[asker] = Watch(message.number)
            node.objects.are_traced = True
        for actor_id in message.actor_ids:
            actor = node.calls.actors.get(actor_id)
            if actor_id in watch.facts and actor is not None and actor.options.name:
                watch.halted[actor_id] = None
        found = node.cycles.facts(message.actor_ids)
        for facts in found:
            known = watch.facts.get(facts.actor_id, facts)
            watch.has_changed |= known != facts
            if not facts.is_reachable:  # others are not asked for again
                watch.facts[facts.actor_id] = known
        node.send(asker, wire.TraceHandlesReply(message.number, found, watch.has_changed))

    def look_for_changes(self) -> None:
        """Note changes of what traces were told: other holders in this turn, or calls."""
        changed = [*map(task_of, self.node.objects.thinned), *self.node.calls.touched] if self.watches else ()
        for asker, watch in list(self.watches.items()):
            if not watch.has_changed and any(actor_id in watch.facts for actor_id in changed):
                self._changes(asker, watch)

    def _changes(self, asker: str, watch: Watch) -> None:
        watch.has_changed = True
        if watch.halted:  # the asker has its last answer, perhaps
            self.node.send(asker, wire.TraceHandlesReply(watch.number, [], has_changed=True))

    # --- names ---

    def is_halted(self, actor_id: bytes) -> bool:
        """Return whether a trace may be about to end a named actor."""
        return any(actor_id in watch.halted for watch in self.watches.values())

    def is_found(self, actor_id: bytes, then: Callable[[], None]) -> bool:
        """Note that a process has found a local actor by its name.  Returns whether `then` is called later, when it is
        known whether the actor ends.
        """
        waits = False
        for asker, watch in list(self.watches.items()):
            if actor_id in watch.facts and not watch.has_changed:
                self._changes(asker, watch)
            if actor_id in watch.halted and not waits:
                watch.waiting.append(then)
                waits = True
        return waits

    def _thaw(self, watch: Watch) -> None:
        """Go on with what waited for the end of a trace."""
        for actor_id in watch.halted:
            self.node.calls.touch(actor_id)
        for then in watch.waiting:
            then()

    @on(wire.EndTrace)
    def on_end_trace(self, message: wire.EndTrace) -> None:
        """EndTrace: nothing can have reached these actors since, but the actors themselves."""
        node, watch = self.node, self.watches.get(self.node.sender)
        if watch is None or watch.number != message.number:
            return
        self.look_for_changes()
        del self.watches[node.sender]
        node.objects.are_traced = bool(self.watches)
        for actor_id in message.actor_ids:
            actor = node.calls.actors.get(actor_id)
            # Whatever has found or called a named actor since has waited.
            is_sure = not watch.has_changed or actor_id in watch.halted
            if actor is not None and actor_id in watch.facts and is_sure:
                node.ends.see_off(actor, REASON)
        self._thaw(watch)
