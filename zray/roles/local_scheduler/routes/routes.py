"""Routes to actors on other nodes: outgoing calls, and their results.  The other end: `remote_calls`.

Calls of a caller stay in order: they leave in the order of arrival, over a single link.  A route keeps the handle's
object while calls are under way, so the actor does not end before the last call.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ....exceptions import encode_system_error
from ....ids import FIRST_RETURN, return_id
from ....wire import actors, homes, where
from ....wire.task_spec import TaskSpec
from ...role import on
from ..objects.table import ObjectEntry
from ..tables import MADE_ANEW, Job, gone_error, name_of_call
from ..task import Task
from .route import Leaving, Route
from .unpulled import Asked, Unpulled

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# The limits of a message with calls.
BATCH_BYTES_MAX = 1 << 20
BATCH_COUNT_MAX = 1000


class Routes:
    """Routes to actors of other nodes called from here."""

    PASSING = {"by_actor lent touched": None} | {
        "calls": (lambda it: sum(len(route.sent) for route in it.by_actor.values()), "node.tasks")
    }

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.by_actor: dict[bytes, Route] = {}
        # Where calls were sent -> the refs that each of them takes, held until they are accepted there.
        self.lent: dict[str, dict[bytes, tuple[bytes, ...]]] = {}
        self.touched: dict[bytes, None] = {}  # routes to look at, at the end of the turn
        self.unpulled = Unpulled(node)

    def route(self, actor_id: bytes, found_at: str = "", *, wait: bool = True) -> Route:
        """Return the route to an actor; a new one asks where the actor lives.

        found_at: as in TaskOptions, "": by a strong handle.  wait: as in locate.
        """
        route = self.by_actor.get(actor_id)
        if route is None:
            route = self.begin(actor_id, found_at)
            self.locate(route, wait=wait and not found_at)
        if found_at:
            self.node.names.weak.note(route)
        return self.attach(route)

    def begin(self, actor_id: bytes, hint: str = "") -> Route:
        """Create a route, which no object refers to yet."""
        route = self.by_actor[actor_id] = Route(actor_id, hint)
        return route

    def attach(self, route: Route) -> Route:
        """Let the handle's object, if known locally, refer to the route."""
        entry = self.node.objects.entries.get(route.actor_id + FIRST_RETURN)
        if entry is not None and entry.actor is None:
            entry.leads_to(route)
        return route

    def locate(self, route: Route, *, wait: bool = True, lost: str = "") -> None:
        """Ask the actor's shard for its home: as in LocateActor."""
        node = self.node
        node.send(node.addresses.shard_of(route.actor_id), homes.LocateActor(route.actor_id, node.address, wait, lost))

    def submit(self, task: Task) -> None:
        """Submit a local process's call on an actor of another node."""
        node, spec = self.node, task.spec
        route = self.route(task.options.actor_id, task.options.found_at)
        for object_id in (*spec.deps, *spec.holds):
            node.objects.retain(object_id)
        if route.lost_at is not None and node.ends.restarts.has_no_home(route, task):
            self.calls_ended(route)
            return
        self.queue(route, task)

    def queue(self, route: Route, task: Task) -> None:
        node, spec = self.node, task.spec
        if not task.options.found_at or route.actor_id + FIRST_RETURN in node.objects.entries:
            self._retain(route)
        item = route.add(task)
        if not spec.deps and not spec.holds:
            self._may_leave(item)
            return
        node.lineage.flush()
        request = node.acks.next_request()
        expected = node.remote._share([*spec.deps, *spec.holds], request)
        node.acks.expect(request, expected, lambda: self._may_leave(item))

    def _retain(self, route: Route) -> None:
        if route.retains():
            self.node.objects.retain(route.actor_id + FIRST_RETURN)

    def _may_leave(self, item: Leaving) -> None:
        item.may_leave()
        self.touched[item.task.options.actor_id] = None

    @on(homes.ActorLocated)
    def located(self, message: homes.ActorLocated) -> None:
        """ActorLocated."""
        self.node.kept_items.caller_located(message)
        route = self.by_actor.get(message.actor_id)
        if route is None or route.home:
            return
        lost = self.node.recovery.lost
        home = message.node or ("" if message.lost else route.hint)
        if message.is_coming:
            self._fail_begun(route)
            route.announced()
            self.node.calls.wanting_worker_changed()
        elif home in lost:
            self.locate(route, lost=home)  # the shard has not heard of that loss
        elif home and home != self.node.address:
            self.settle(route, home)
        elif message.lost:
            if not message.was_guarded:
                self.node.logs.made_is_gone(route.actor_id, message.lost)
            reason = f" ({lost[message.lost]})" if message.lost in lost else ""
            self.fail_route(
                route, gone_error(f"{route.in_words()} died: its node {where.host_of(message.lost)} is lost{reason}.")
            )
        else:
            self.node.logs.made_is_gone(route.actor_id)
            text = f"{route.in_words()} has ended, or never existed."
            self.fail_route(route, self.node.names.weak.deaths.get(route.actor_id) or gone_error(text))

    def follow(self, actor_id: bytes, *, wait: bool) -> None:
        """Find the home of an actor after its creation by a local process.  wait: as in locate."""
        if actor_id in self.node.calls.actors or actor_id in self.node.ends.graves:
            return
        self.route(actor_id, wait=wait)

    def settle(self, route: Route, home: str) -> None:
        """Record the actor's home; calls sent to the former home are repeated first, if allowed."""
        self._fail_begun(route)
        route.repeat()
        route.settled(home)
        self.node.calls.wanting_worker_changed()
        self.touched[route.actor_id] = None

    def _fail_begun(self, route: Route) -> None:
        """Fail calls that the former home may have begun, and may not be repeated."""
        begun = route.take_sent(lambda task: 0 <= task.options.max_retries <= task.attempts and type(task) is not Asked)
        for task in begun:
            call = name_of_call(task)
            text = f"The actor of {call} is restarted on another node: its node is lost, and may have begun it."
            self.node.lifecycle.fail_with(task, encode_system_error("ActorUnavailableError", text))
        if begun:
            self.calls_ended(route)

    def give_up_waiting(self, route: Route) -> None:
        """Fail calls that may not be repeated: the actor has had no home for too long."""
        self._fail_begun(route)
        route.take_queued(partial(self.node.ends.restarts.has_no_home, route))
        self.calls_ended(route)

    def name_found(self, actor_id: bytes, hint: str) -> None:
        """Hold the handle's object of an actor on another node that was found by name."""
        node = self.node
        entry = node.objects.require(actor_id + FIRST_RETURN)
        if entry.shared is None:
            node.remote.adopt(entry)
        if actor_id not in self.by_actor:
            self.locate(self.begin(actor_id, hint), wait=False)
        self.attach(self.by_actor[actor_id])

    def kill(self, message: actors.KillActor) -> None:
        """KillActor, from a process of this node."""
        if self.node.objects.entries.get(message.actor_id + FIRST_RETURN) is None and not message.found_at:
            return
        route = self.route(message.actor_id, message.found_at)
        if message.no_restart:
            self.node.send(self.node.addresses.shard_of(message.actor_id), homes.ActorKilled(message.actor_id))
            self.node.names.kills(message.actor_id)
        if route.home:
            self._send_calls(route)
            self.node.send(route.home, message)
        elif message.no_restart:
            route.killed()

    def pump(self) -> None:
        """Send calls at the end of a turn."""
        touched, self.touched = self.touched, {}
        for actor_id in touched:
            route = self.by_actor.get(actor_id)
            if route is not None and route.home and route.home not in self.node.drain.going.closed:
                self._send_calls(route)
                if route.takes_kill():
                    self.node.send(route.home, actors.KillActor(actor_id))

    def _send_calls(self, route: Route) -> None:
        specs, calls, again, size = list[TaskSpec](), list[Task](), list[Task](), 0
        while (task := route.next_to_send()) is not None:
            spec = task.spec
            if task.attempts or task.options.is_generator:  # held items may have been drawn
                again.append(task)
            specs.append(spec)
            calls.append(task)
            if spec.deps or spec.holds:
                self._lend(route.home, task)
            size += len(spec.args)
            if size > BATCH_BYTES_MAX or len(calls) == BATCH_COUNT_MAX:
                self._forward(route.home, specs, calls)
                specs, calls, size = [], [], 0
        if calls:
            self._forward(route.home, specs, calls)
        for task in again:
            self.node.generators.sent_again(task, route.home)

    def _forward(self, home: str, specs: list[TaskSpec], calls: list[Task]) -> None:
        """Send calls.  specs: theirs, with the refs that they take."""
        attempts, asked = [call.attempts for call in calls], [call for call in calls if type(call) is Asked]
        answered = [call.spec.task_id for call in asked]
        self.node.send(home, actors.ForwardCalls(specs, attempts if any(attempts) else [], answered))

    def _lend(self, home: str, task: Task) -> None:
        """Keep the call's arguments locally until its node holds them, even if the call finishes earlier."""
        spec, lent = task.spec, self.lent.setdefault(home, {})
        refs = (*spec.deps, *spec.holds)
        lent[spec.task_id] = (*lent.get(spec.task_id, ()), *refs)
        if not task.options.max_retries:
            task.holds_nothing()
            return
        for object_id in refs:  # and what may be repeated keeps them until it is done
            self.node.objects.retain(object_id)

    @on(actors.CallsAccepted)
    def accepted(self, message: actors.CallsAccepted) -> None:
        """CallsAccepted."""
        lent = self.lent.get(self.node.sender)
        if lent is None:
            return
        for task_id in message.task_ids:
            self.node.objects.drop_all(lent.pop(task_id, ()))
        if not lent:
            del self.lent[self.node.sender]

    @on(actors.CallsFinished)
    def finished(self, message: actors.CallsFinished) -> None:
        """CallsFinished."""
        home = self.node.sender
        self.node.logs.begin_taking(home, message.receipt)
        for result in message.results:
            task = self.node.tasks.get(result.task_id)
            route = self.by_actor.get(task.options.actor_id) if task is not None else None
            if task is None or route is None or route.home != home or not route.has_ended(result.task_id):
                # Made anew meanwhile.
                ids = [return_id(result.task_id, n) for n, value in enumerate(result.values, 1) if type(value) is int]
                if ids:
                    self.node.send(home, actors.ResultsHeld(ids))
                continue
            self._finish_here(task, result.values, home)
            if message.receipt and len(message.results) == 1 and any(type(value) is int for value in result.values):
                self.unpulled.keep(task, home, self.node.logs.receipt_waits())
            self.calls_ended(route)
        self.node.logs.end_taking()

    def _finish_here(self, task: Task, values: list[bytes | int], home: str) -> None:
        node = self.node
        task.ended()
        node.take_task(task.spec.task_id)
        node.notices.failed(task, values[0] if values else b"")
        node.finished_count += 1
        if task.spec.caller:
            node.calls.nested_ended(task, values)
        elsewhere: list[tuple[ObjectEntry, int]] = []
        request = expected = 0
        if task.options.may_run_again and any(type(value) is int for value in values):
            # The actor's node may be lost at any time: the shards must know then which task made the values.
            request = node.acks.next_request()
            expected = node.departures.record(task, request)
        for entry, value in zip(node.lifecycle.returns_of(task), values or [b""], strict=False):
            entry.made_by(None)
            if type(value) is int:
                elsewhere.append((entry, value))
            elif type(task) is Asked:
                self.unpulled.look_for(entry)
            elif entry.value is None:
                node.object_is_here(entry, value)  # type: ignore[arg-type]
            else:
                node.objects.free_if_unreferenced(entry)
        if elsewhere:
            ids = [entry.object_id for entry, _ in elsewhere]
            if not request:
                request = node.acks.next_request()
                for entry, _ in elsewhere:
                    entry.share()
                expected = node.remote._hold_at_shards(ids, request)
            node.acks.expect(request, expected, lambda: node.send(home, actors.ResultsHeld(ids)), home)
            for entry, size in elsewhere:
                if entry.value is None:
                    self.lies_at(entry, size, home)
                else:
                    node.objects.free_if_unreferenced(entry)
            if task.options.may_run_again:
                node.recovery.puts.keep(task)
        node.objects.drop_all((*task.spec.deps, *task.spec.holds))  # of one that might have been repeated
        if task.attempts and task.options.is_generator:
            node.generators.look_again(task)
        node.generators.has_run(task, values[0] if values else b"")

    def lies_at(self, entry: ObjectEntry, size: int, home: str) -> None:
        """A value lies on another node: bring it, if somebody here wants it."""
        node, shared = self.node, entry.share()
        shared.lies_at((home,), size)
        comes_unasked = entry.holders is not None and size <= node.small_values.bytes_max
        if entry.waiting or entry.watchers or comes_unasked:
            node.fetches.begin(entry, shared)
        elif entry.holders is not None:
            node.waits.lies_elsewhere(entry)
        elif not entry.count:
            node.objects.free_if_unreferenced(entry)

    def calls_ended(self, route: Route) -> None:
        if route.sent or route.queue:
            return
        handle = route.actor_id + FIRST_RETURN
        if route.releases():
            self.node.objects.drop(handle)
        entry = self.node.objects.entries.get(handle)
        if (entry is None or entry.actor is not route) and not self.node.names.weak.keeps(route):
            self.by_actor.pop(route.actor_id, None)
            self.unpulled.actor_is_gone(route.actor_id)

    def fail_route(self, route: Route, error: bytes) -> None:
        """Fail all calls of the route with the error."""
        self.by_actor.pop(route.actor_id, None)
        self.node.calls.wanting_worker_changed()
        entry = self.node.objects.entries.get(route.actor_id + FIRST_RETURN)
        if entry is not None and entry.actor is route:
            entry.leads_to(None)
        for task in route.take_all():
            if not self.unpulled.give_up(task):
                self.node.lifecycle.fail_with(task, error)
        self.calls_ended(route)

    def job_ended(self, job: Job) -> None:
        """Fail calls of a finished job on routes without a home.

        The job's driver, on another node, is gone, perhaps together with the node.  The shard may never hear of an
        actor to be created there.  Or the shard has forgotten an actor after the loss of all handles except a handle
        under way.  Then no home is ever announced, and the calls would wait for ever.
        """
        for route in list(self.by_actor.values()):
            over = route.take_queued(lambda task: task.job is job) if not route.home else []
            if over:
                for task in over:
                    task.ended()
                error = encode_system_error("WorkerCrashedError", "The driver of this call has ended.")
                self.node.undoing.end_tasks(over, error)
                self.calls_ended(route)

    def made_anew(self, actor_id: bytes) -> None:
        """Replace an actor whose creator was re-executed: the copy placed first is killed."""
        route = self.by_actor.get(actor_id)
        if route is not None:
            if route.home:
                self.node.send(route.home, actors.KillActor(actor_id))
            self.fail_route(route, gone_error(f"{route.in_words()} {MADE_ANEW}."))

    def come_here(self, route: Route) -> None:
        """Move the route's calls to the actor, which lives on the local node from now on."""
        self._fail_begun(route)
        route.repeat()
        self.node.names.weak.routes.pop(route.actor_id, None)
        actor = self.node.calls.actors.get(route.actor_id)
        for task in route.take_all():
            spec = task.spec
            if type(task) is Asked and actor is not None and actor.shipping is not None:
                actor.shipping.answers.comes_again(spec.task_id)
            self.node.calls.submit(task)
            self.node.objects.drop_all((*spec.deps, *spec.holds))
        self.calls_ended(route)

    def node_lost(self, lost: str, *, is_drained: bool) -> None:
        """Handle the loss of a node: the shards report whether its actors are dead or restarted elsewhere."""
        for object_ids in self.lent.pop(lost, {}).values():
            self.node.objects.drop_all(object_ids)
        for route in self.by_actor.values():
            is_home = route.node_lost(lost)
            asked = self.unpulled.home_lost(route.actor_id, lost, is_asked=is_home and not is_drained)
            if asked:
                route.asks_first(asked)
                self._retain(route)
            if is_home:
                if not is_drained:
                    self.node.ends.restarts.home_lost(route, self.node.now)
                self.locate(route, lost=lost)
