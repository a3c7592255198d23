"""Traffic of a local scheduler with other nodes: tasks that are spilled or placed, objects that lie elsewhere.

A ref leaves this node only after the shard knows that this node holds the object and, for a task, has the spec.  The
receiving node joins the holders before this node lets go (docs/design/references.md).

    spill:   record and hold at the shard -> all acknowledged -> SpillTask -> (global scheduler) -> PlaceTask
             -> the other node holds -> TaskAccepted; this node holds the arguments too until the task is done, since
             this node passes the task up again if the other node is lost (recovery)
    result:  TaskDone, where the value is small; else
             SubscribeObject -> ObjectLocated -> FetchObject (when the value is wanted on this node) -> ObjectFetched

A task that takes no refs, and whose returns only this node knows, leaves at once on its first trip: a quiet task.  The
other node sends the returns to this node alone (results); the shards hear of the task as of a task that runs here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from ....exceptions import encode_system_error, is_error_value
from ....ids import return_id
from ....wire import gcs, limits, scheduling, task_spec
from ....wire import objects as objects_wire
from ...role import on
from ..objects.table import ObjectEntry
from ..task import FORWARDED, Event, Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Remote:
    """Exchange of tasks and objects with other nodes."""

    PASSING = {"arriving": None, "subscribed": "node.objects.entries", "unsaid": "node.acks.expected"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.arriving: dict[int, Task] = {}  # placed tasks whose holds are not acknowledged, by request
        self.subscribed: set[bytes] = set()  # membership only
        # Values that are here, and not said to be, until the shards have acknowledged what they contain: the request.
        self.unsaid: dict[bytes, int] = {}

    # --- what leaves with tasks that go up ---

    def _share(self, object_ids: Iterable[bytes], request: int, *, is_log: bool = False, moves: bytes = b"") -> int:
        """Mark objects, with contained objects, as known to others; tell the shards of this node's holds and copies.

        Holds go first: a shard that hears of a copy without holders frees the copy.  Acknowledged holds come last,
        since the receiver of a ref then asks for locations.  The replies include records of the creating tasks, which
        may be with other shards.  Returns the number of replies to expect.

        is_log: for a guardian, which is to hear of actors first.  moves: as in `hold_back`.
        """
        shared: dict[bytes, None] = {}
        news: list[ObjectEntry] = []
        to_share = list(object_ids)
        while to_share:
            entry = self.node.objects.entries[to_share.pop()]
            if entry.object_id in shared:
                continue
            shared[entry.object_id] = None
            if entry.shared is None:
                entry.share()
                if entry.value is not None:
                    news.append(entry)
            to_share.extend(entry.contained)
        if request:
            self._hold_at_shards([entry.object_id for entry in news], 0)
            for entry in news:
                self._announce(entry)
            count = self._hold_at_shards(list(shared), request)
            if not count:
                return 0
            count += 0 if is_log else self.node.logs.unheard.hold_back(shared, request, moves)
            return count + self.node.lineage.settled(request)
        self._hold_at_shards(list(shared), 0)
        for entry in news:
            self._announce(entry)
        return 0

    def _announce(self, entry: ObjectEntry) -> None:
        value = entry.value
        if value is None:
            assert entry.is_on_disk and entry.shared is not None
            size = entry.shared.size
        else:
            size = value.size if type(value) is task_spec.StoredValue else len(value)  # type: ignore[arg-type]
        shard = self.node.addresses.shard_of(entry.object_id)
        self.node.send(shard, gcs.AddLocations(self.node.address, [(entry.object_id, size)]))

    def _hold_at_shards(self, object_ids: list[bytes], request: int, *, are_inside: bool = False) -> int:
        groups: dict[str, list[bytes]] = {}
        for object_id in object_ids:
            groups.setdefault(self.node.addresses.shard_of(object_id), []).append(object_id)
        self.node.lineage.held_again(object_ids)
        count = 0
        for shard, ids in groups.items():
            for portion in limits.portions(ids):
                self.node.send(shard, gcs.HoldAtNode(self.node.address, portion, request, are_inside))
                count += 1
        return count

    def _is_held(self, task: Task, request: int) -> None:
        """Accept a placed task whose arguments are held.  The task may be done by now, or given back."""
        self.arriving.pop(request, None)
        self.node.send(task.origin, scheduling.TaskAccepted(task.spec.task_id, task.trip))

    @on(scheduling.TaskAccepted)
    def on_task_accepted(self, message: scheduling.TaskAccepted) -> None:
        """TaskAccepted: the other node holds the task's arguments."""
        self.node.fates.has_arrived(message.task_id, message.trip, self.node.sender)
        task = self.node.trips.on_its_way(message.task_id, message.trip)
        if task is None:
            return  # or given back before it held all
        self.node.task_states.happened(task, Event.ACCEPTED, peer=self.node.sender)
        for entry in self.node.lifecycle.returns_of(task):
            if entry.shared is not None:  # else TaskDone says it
                self.subscribe(entry)

    def on_spill_refused(self, message: scheduling.SpillRefused) -> None:
        """SpillRefused: no node could ever run the task."""
        task = self.node.tasks.get(message.task_id)
        if task is not None and task.state == TaskState.SCHEDULER:
            if self.node.drain.refused(task.depth):
                self.comes_back(task)
            else:
                self.node.strategies.refuse(task, message)

    # --- tasks that come down ---

    @on(scheduling.PlaceTask)
    def on_place_task(self, message: scheduling.PlaceTask) -> None:
        """PlaceTask: the task runs on this node, whatever the load (or two full nodes would pass the task
        to and fro).
        """
        node, spec = self.node, message.spec
        lost = node.recovery.lost
        node.load.task_is_placed()
        if message.origin in lost or message.job.home in lost:
            node.reject("a task of a lost node")
            return
        if node.has_ended(message.job_id, message.job) or node.fates.is_unwanted(message):
            node.reject("a task of what has ended")  # it was on its way when we were told; who spilled it is, too
            return
        known = node.tasks.get(spec.task_id)
        if known is not None:
            is_ours = message.origin == node.address
            is_for_another = known.origin not in lost and known.origin != message.origin
            if not is_ours and (message.is_quiet or (known.options.is_generator and is_for_another)):
                # What it returns comes by way of the shards: its origin has it recorded when it goes up again.
                # A generator's origin alone is told of its items and its end.
                node.send(message.origin, scheduling.TaskGivenBack(spec.task_id, message.trip, message.attempts))
                return
            if known.state >= FORWARDED and not known.origin and not (is_ours and known.trip != message.trip):
                # Ours; or that of another node where its parent runs again: then it must not wait for us while we
                # wait for whoever has ours, which may be that very node.
                self.comes_back(known)
            else:
                node.reject("a task placed twice")
            if not is_ours:
                if not is_for_another:  # the parent runs again, where this comes from
                    node.task_states.comes_from(known, message.origin, message.trip)
                self.share_returns(known)
                node.send(message.origin, scheduling.TaskAccepted(spec.task_id, message.trip))
            return
        options = task_spec.parse_options(spec.options)
        made = self._made_before(spec, options)
        if made:
            if message.is_quiet:
                node.send(message.origin, scheduling.TaskGivenBack(spec.task_id, message.trip, message.attempts))
                return
            self.share_anew(made)
            node.send(message.origin, scheduling.TaskAccepted(spec.task_id, message.trip))
            return
        job = node.code.job_of(message.job_id, message.job)
        task = node.lifecycle.accept_placed(spec, options, job, message.origin)
        node.task_states.comes_from(task, message.origin, message.trip)
        task.tried(message.attempts)
        if message.is_quiet:
            node.results.begin_quietly(task)
        else:
            request = node.acks.next_request()
            expected = self.take_arguments(task, request)
            if expected:
                self.arriving[request] = task
            node.acks.expect(request, expected, partial(self._is_held, task, request))
        node.lifecycle.retain_arguments(task)
        if not task.missing:
            node.dispatch.enqueue(task)
        else:
            node.load.awaiting[spec.task_id] = task

    def _made_before(self, spec: task_spec.TaskSpec, options: task_spec.TaskOptions) -> list[ObjectEntry]:
        """Return the task's returns if all have values, say because the parent ran here too.  The arguments may be
        gone, and so may items of a generator.
        """
        if options.is_generator:
            return []
        found = [self.node.objects.entries.get(return_id(spec.task_id, n + 1)) for n in range(options.num_returns)]
        made = [entry for entry in found if entry is not None and entry.value is not None and not entry.is_lost]
        return made if len(made) == len(found) and not any(is_error_value(entry.value) for entry in made) else []

    def share_anew(self, made: list[ObjectEntry]) -> None:
        """Share values without holders for a while: the shard's word to free the values may be under way.

        The values are held until the shard has acknowledged the new holds.
        """
        node, object_ids = self.node, [entry.object_id for entry in made]
        for object_id in object_ids:
            node.objects.retain(object_id)
        request = node.acks.next_request()
        expected = self._hold_at_shards(object_ids, request)
        for entry in made:
            self.share_value(entry)
        node.acks.expect(request, expected, lambda: node.objects.drop_all(object_ids))

    def take_arguments(self, task: Task, request: int) -> int:
        """Join the holders of the task's arguments, as far as known to others.  Returns the number of replies to
        expect.
        """
        objects = self.node.objects
        arguments = dict.fromkeys((*task.spec.deps, *task.spec.holds))
        for object_id in arguments:
            entry = objects.require(object_id)
            if entry.value is None and entry.task is None:
                entry.share()
        known = [object_id for object_id in arguments if objects.entries[object_id].shared is not None]
        return self._hold_at_shards(known, request)

    def share_returns(self, task: Task) -> None:
        """Share the task's returns: other nodes wait, and are told when the values exist."""
        returns = self.node.lifecycle.returns_of(task)
        self._share([entry.object_id for entry in returns if entry.shared is None], 0)
        if task.is_quiet:
            # Its values would go to its origin alone: they stay as long as it takes to announce them.
            released = [entry for entry in returns if entry.is_released]
            for entry in released:
                entry.share().holds()
            self._hold_at_shards([entry.object_id for entry in released], 0)

    def share_value(self, entry: ObjectEntry) -> None:
        """Share a local value awaited by other nodes."""
        if entry.shared is None:
            entry.share()
            self._hold_at_shards([entry.object_id], 0)
            self.value_is_here(entry)
        elif entry.object_id not in self.unsaid:
            if entry.shared.is_released:
                # The shard said that it is to go, or is about to: it stays as long as somebody holds it.
                self._hold_at_shards([entry.object_id], 0)
            self._announce(entry)
            if entry.shared.is_released:
                self.node.lineage.let_go([entry.object_id])

    def comes_back(self, task: Task) -> None:
        """Take back a task placed on this node by the global scheduler: this node still holds all arguments."""
        node = self.node
        node.task_states.happened(task, Event.CHOSEN_HERE)
        node.task_states.comes_from(task, node.address)  # not up again, unless it is stranded, or stolen
        if not node.trips.wait_again(task):
            node.dispatch.enqueue(task)
            return
        for object_id in task.spec.deps:
            entry = node.objects.entries[object_id]
            if entry.value is None and (entry.task is None or entry.task.state >= FORWARDED):
                self.want(entry)

    # --- objects ---

    def adopt(self, entry: ObjectEntry) -> None:
        """Adopt an object unknown to this node on which a process holds a ref."""
        if self.node.is_embedded:
            text = f"Object {entry.object_id.hex()} was freed: nothing on this node referenced it any more."
            self.node.objects.place(entry, encode_system_error("ObjectLostError", text))
            return
        entry.share()
        self._hold_at_shards([entry.object_id], 0)

    def want(self, entry: ObjectEntry, *, is_urgent: bool = False) -> None:
        """Get a value needed, but not made, on this node.  is_urgent: as in Fetches.begin."""
        shared = entry.shared
        if shared is None:
            if self.node.is_embedded and entry.task is None and entry.holders is None:
                self.adopt(entry)
        elif entry.object_id in self.node.objects.on_disk:
            self.node.spilling.restore(entry, is_urgent=is_urgent)
        elif shared.locations:
            self.node.fetches.begin(entry, shared, is_urgent=is_urgent)
        elif not shared.is_fetching:
            self.subscribe(entry)

    def subscribe(self, entry: ObjectEntry) -> None:
        """Have the shard tell the object's locations, now or when a copy exists."""
        if entry.object_id not in self.subscribed:
            self.subscribed.add(entry.object_id)
            shard = self.node.addresses.shard_of(entry.object_id)
            self.node.send(shard, gcs.SubscribeObject(self.node.address, entry.object_id))

    @on(gcs.ObjectLocated)
    def on_object_located(self, message: gcs.ObjectLocated) -> None:
        """ObjectLocated: a copy exists.  The object's task, if spilled by this node, is done."""
        node = self.node
        self.subscribed.discard(message.object_id)
        if node.drain.is_on:
            node.drain.located(message)
        entry = node.objects.entries.get(message.object_id)
        if entry is None or entry.shared is None:
            return  # gone (and perhaps made anew) before
        if entry.value is not None or entry.object_id in node.objects.on_disk:
            # It has come meanwhile; or before its task, which was to make it again, went up.
            node.trips.is_made(entry)
            node.objects.free_if_unreferenced(entry)
            return
        shared = entry.shared
        lost = node.recovery.lost
        others = (place for place in message.holders if place != node.address and place not in lost)
        shared.lies_at(others, message.size)
        if not shared.locations:
            self.subscribe(entry)  # the shard has not heard of that loss
            return
        if entry.task is not None and entry.task.state == TaskState.DONE:
            return  # its driver has ended, and it is about to (undoing.py)
        node.trips.is_made(entry)
        is_small = message.size <= node.inline_bytes_max
        if entry.waiting and not entry.watchers and not is_small and not shared.is_fetching:
            node.trips.go_to_arguments(entry)
        is_taken = bool(entry.waiting) and (is_small or not node.trips.are_for_others(entry.waiting))
        is_kept = message.object_id in node.guards.wanted
        comes_unasked = entry.holders is not None and message.size <= node.small_values.bytes_max
        if is_taken or entry.watchers or is_kept or comes_unasked:
            node.fetches.begin(entry, shared, is_urgent=bool(entry.watchers))
        elif entry.holders is not None:
            node.waits.lies_elsewhere(entry)
        elif not entry.count:
            node.objects.free_if_unreferenced(entry)

    def value_is_here(self, entry: ObjectEntry) -> None:
        """Tell the shard the location of a new value known to others."""
        self.node.routes.unpulled.is_over(entry.object_id)
        if self.node.recovery.puts.by_result:
            self.node.recovery.puts.let_go(entry.object_id)
        if entry.is_lost:
            return
        if not entry.contained:
            self._announce(entry)
            return
        # Who makes what is inside must be known before others hear of that.
        node, object_id = self.node, entry.object_id
        node.lineage.flush()
        if len(node.addresses.shards) == 1 and not node.logs.unheard.are_inside(entry.contained):
            self._share(entry.contained, 0)
            self._announce(entry)
            return
        # Other shards may be slower than its own, and actors are to be heard of elsewhere first.
        request = self.unsaid[object_id] = node.acks.next_request()
        node.acks.expect(request, self._share(entry.contained, request), lambda: self._may_say(object_id, request))

    def _may_say(self, object_id: bytes, request: int) -> None:
        if self.unsaid.get(object_id) != request:
            return  # it has come anew
        del self.unsaid[object_id]
        entry = self.node.objects.entries.get(object_id)
        if entry is not None and entry.value is not None and entry.shared is not None and not entry.is_lost:
            self.share_value(entry)

    @on(objects_wire.ReadInline)
    def read_inline(self, message: objects_wire.ReadInline) -> None:
        """ReadInline: another node's object manager pulls a small value."""
        entry = self.node.objects.entries.get(message.object_id)
        value = entry.value if entry is not None else None
        if entry is not None and value is None and message.object_id in self.node.objects.on_disk:
            self.node.spilling.pulled(message)
            return
        inline = value if type(value) is bytes else None
        contained = entry.contained if entry is not None else ()
        reply = objects_wire.InlineRead(message.object_id, message.puller, inline, contained)
        self.node.send(self.node.addresses.object_manager, reply)

    @on(gcs.FreeCopies)
    def on_free_copies(self, message: gcs.FreeCopies) -> None:
        """FreeCopies: no node holds the objects."""
        freed = []
        for object_id in message.object_ids:
            entry = self.node.objects.entries.get(object_id)
            if entry is None or entry.shared is None:
                continue  # freed here before, and perhaps made anew
            if not entry.shared.is_released or object_id in self.node.objects.freed_shared:
                # Held again while the word was on its way: the shard hears of our hold, and then of our copy, anew.
                self._rejoin()
                if entry.is_here:
                    if entry.shared.is_released:
                        # And let go again, which it hears at the end of this turn.  A copy that nobody holds it would
                        # have freed at once, and we would announce it again, without end.
                        self._hold_at_shards([object_id], 0)
                    self._announce(entry)
            elif entry.task is None:
                self.node.fetches.stop(object_id)  # it was made here while it was on its way
                self.node.objects.free_copy(entry, by_death=message.by_death)
                freed.append(object_id)
            elif message.by_death and entry.actor is not None:
                self.node.fates.has_no_handle(entry.actor)  # it is not made yet
            # Else it is made here again, and the word is about what was here before.
        if freed:
            # The word may have crossed the news of a copy that was made anew: then the shard believes in that one.
            shard = self.node.addresses.shard_of(freed[0])
            self.node.send(shard, gcs.RemoveLocations(self.node.address, freed))

    def _rejoin(self) -> None:
        objects = self.node.objects
        if objects.rejoined:
            rejoined, objects.rejoined = objects.rejoined, []
            held = [object_id for object_id in rejoined if object_id in objects.entries]
            self._hold_at_shards([object_id for object_id in held if not objects.entries[object_id].is_released], 0)

    def end_turn(self) -> None:
        """Leave, and join again, the holders of shared objects."""
        objects, entries = self.node.objects, self.node.objects.entries
        self._rejoin()
        while objects.unheld or objects.freed_shared:  # again, where what came of one had others inside
            self.node.recovery.puts.let_go_of_unheld()
            # The shard must hear of the tasks that took them first, or it lets the lineage of those go.
            self.node.lineage.flush()
            freed, objects.freed_shared = objects.freed_shared, []
            gone = []
            for object_id in dict.fromkeys(freed):
                entry = entries.get(object_id)
                if entry is None or not entry.is_released:
                    objects.by_death.pop(object_id, None)
                    continue  # freed by the shard's word, or held again, within this turn
                gone.append(object_id)
                self.node.recovery.puts.let_go(object_id)
                self.node.fetches.room.let_go(entry)
                self.node.routes.unpulled.is_over(object_id)
                self.subscribed.discard(object_id)  # the shard answers no node that has let go of it
                # No copy that the shard knows of, and would have freed: nothing, or the error in place of what is lost.
                if (entry.value is None or entry.is_lost) and entry.task is None:
                    if object_id not in self.node.spilling.pullers:
                        self.node.fetches.stop(object_id)
                    if object_id not in objects.on_disk:
                        objects.forget_released(entry)
            self.node.lineage.let_go(gone)
