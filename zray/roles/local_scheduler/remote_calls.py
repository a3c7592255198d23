"""Actors of other nodes: calls that leave, and calls that come.

    call:   ForwardCalls -> the actor's node runs it as its own -> CallsFinished.  Small values come with that; what is
            large, or has refs inside, stays there until the caller's node has joined its holders (ResultsHeld).
            Refs that a call takes are held here until the other node has joined theirs (CallsAccepted).

Calls of one caller stay in order: they leave in the order in which they came, on one link.  A route keeps the handle's
object while calls are under way, so that the actor does not end before they do.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ...exceptions import encode_system_error
from ...ids import FIRST_RETURN, return_id
from ...wire.actors import (
    ActorLocated,
    CallResult,
    CallsAccepted,
    CallsFinished,
    ForwardCalls,
    KillActor,
    LocateActor,
    ResultsHeld,
)
from ...wire.gcs import HoldAtNodeReply
from ...wire.scheduling import JobFacts
from ...wire.task_spec import StoredValue, parse_options
from .tables import Actor, Job, ObjectEntry, Task, TaskState

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# One message of calls or results holds at most so much.
BATCH_BYTES_MAX = 1 << 20
BATCH_COUNT_MAX = 1000


class Leaving(Struct, gc=False, eq=False):
    """A call that waits for its turn."""

    task: Task
    unacknowledged: int = 0  # replies of shards that are missing


class Route:
    """The way to an actor of another node."""

    __slots__ = ("actor_id", "hint", "home", "is_forgotten", "is_killed", "is_retaining", "queue", "sent")

    def __init__(self, actor_id: bytes) -> None:
        self.actor_id = actor_id
        self.home = ""  # the local scheduler there; "": asked for
        self.hint = ""  # where its name was registered: good if the directory knows nothing
        self.queue: deque[Leaving] = deque()
        self.sent: dict[bytes, Task] = {}
        self.is_forgotten = False  # nothing here refers to its handle
        self.is_retaining = False  # calls under way keep its handle
        self.is_killed = False  # by kill(), before it was located


class RemoteCalls:
    """Everything of a local scheduler that has to do with actors of other nodes."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.routes: dict[bytes, Route] = {}
        self.leaving: dict[int, Any] = {}  # Leaving or Ask, by request to the shards
        self.arriving: dict[int, list[Any]] = {}  # replies missing, origin, what it is told then
        self.holding: dict[int, list[Any]] = {}  # replies missing, home, its results that we join the holders of
        self.lent: dict[bytes, tuple[bytes, ...]] = {}  # sent calls -> refs that they take, held until accepted
        self.unheld: dict[str, list[bytes]] = {}  # caller's node -> results kept here until it holds them
        self.touched: dict[bytes, None] = {}  # routes to look at, at the end of the turn
        self.results: dict[str, list[CallResult]] = {}  # by origin, of this turn

    def next_request(self) -> int:
        """Numbers of requests to shards are shared with `remote`."""
        self.node.remote.request += 1
        return self.node.remote.request

    # --- calls that leave ---

    def route(self, actor_id: bytes) -> Route:
        route = self.routes.get(actor_id)
        if route is None:
            route = self.routes[actor_id] = Route(actor_id)
            route.is_forgotten = True
            self._locate(route, wait=True)
        if route.is_forgotten:
            entry = self.node.objects.entries.get(actor_id + FIRST_RETURN)
            if entry is not None and entry.actor is None:
                entry.actor = route
                route.is_forgotten = False
        return route

    def _locate(self, route: Route, *, wait: bool) -> None:
        node = self.node
        node.send(node.addresses.shard_of(route.actor_id), LocateActor(route.actor_id, node.address, wait))

    def submit(self, task: Task) -> None:
        """A call of a process of this node on an actor that is not here."""
        node, spec = self.node, task.spec
        route = self.route(task.options.actor_id)
        for object_id in (*spec.deps, *spec.holds):
            node.objects.retain(object_id)
        self.queue(route, task)

    def queue(self, route: Route, task: Task) -> None:
        node, spec = self.node, task.spec
        if not route.is_retaining:
            route.is_retaining = True
            node.objects.retain(route.actor_id + FIRST_RETURN)
        item = Leaving(task)
        route.queue.append(item)
        self.touched[route.actor_id] = None
        if spec.deps or spec.holds:
            node.lineage.flush()
            request = self.next_request()
            item.unacknowledged = node.remote._share([*spec.deps, *spec.holds], request)
            if item.unacknowledged:
                self.leaving[request] = item

    def located(self, message: ActorLocated) -> None:
        """ActorLocated."""
        route = self.routes.get(message.actor_id)
        if route is None or route.home:
            return
        home = message.node or ("" if message.lost else route.hint)
        if not home or home == self.node.address:
            text = f"its node {message.lost} is lost" if message.lost else "it has ended, or never was"
            self.fail_route(route, self._error(f"The actor is not there: {text}."))
            return
        self.settle(route, home)

    def settle(self, route: Route, home: str) -> None:
        route.home = home
        self.touched[route.actor_id] = None

    def name_found(self, actor_id: bytes, hint: str) -> None:
        """An actor of another node was found by name: its handle's object is held here from now on."""
        node = self.node
        entry = node.objects.require(actor_id + FIRST_RETURN)
        if entry.shared is None:
            node.remote.adopt(entry)
        if actor_id not in self.routes:
            route = self.routes[actor_id] = Route(actor_id)
            route.is_forgotten = True
            route.hint = hint
            self._locate(route, wait=False)
        self.route(actor_id)

    def kill(self, message: KillActor) -> None:
        """KillActor, by a process of this node."""
        if self.node.objects.entries.get(message.actor_id + FIRST_RETURN) is None:
            return
        route = self.route(message.actor_id)
        if route.home:
            self._send_calls(route)
            self.node.send(route.home, message)
        elif message.no_restart:
            route.is_killed = True

    def pump(self) -> None:
        """End of a turn: calls leave, and results."""
        if self.touched:
            touched, self.touched = self.touched, {}
            for actor_id in touched:
                route = self.routes.get(actor_id)
                if route is not None and route.home:
                    self._send_calls(route)
                    if route.is_killed:
                        route.is_killed = False
                        self.node.send(route.home, KillActor(actor_id))
        if self.results:
            results, self.results = self.results, {}
            for origin, batch in results.items():
                self.node.send(origin, CallsFinished(batch))

    def _send_calls(self, route: Route) -> None:
        queue, specs, size = route.queue, [], 0
        while queue and not queue[0].unacknowledged:
            task = queue.popleft().task
            spec = task.spec
            specs.append(spec)
            route.sent[spec.task_id] = task
            if spec.deps or spec.holds:
                self.lent[spec.task_id] = (*spec.deps, *spec.holds)
                task.spec = replace(spec, deps=(), holds=())
            size += len(spec.args)
            if size > BATCH_BYTES_MAX or len(specs) == BATCH_COUNT_MAX:
                self.node.send(route.home, ForwardCalls(specs))
                specs, size = [], 0
        if specs:
            self.node.send(route.home, ForwardCalls(specs))

    def accepted(self, message: CallsAccepted) -> None:
        """CallsAccepted."""
        for task_id in message.task_ids:
            self.node.objects.drop_all(self.lent.pop(task_id, ()))

    def finished(self, message: CallsFinished) -> None:
        """CallsFinished."""
        home = self.node.sender
        for result in message.results:
            task = self.node.tasks.get(result.task_id)
            route = self.routes.get(task.options.actor_id) if task is not None else None
            if task is None or route is None or route.home != home or route.sent.pop(result.task_id, None) is None:
                # Made anew meanwhile.
                ids = [return_id(result.task_id, n) for n, value in enumerate(result.values, 1) if type(value) is int]
                if ids:
                    self.node.send(home, ResultsHeld(ids))
                continue
            self._finish_here(task, result.values, home)
            self.calls_ended(route)

    def _finish_here(self, task: Task, values: list[bytes | int], home: str) -> None:
        node = self.node
        task.state = TaskState.DONE
        del node.tasks[task.spec.task_id]
        node.finished_count += 1
        elsewhere: list[tuple[ObjectEntry, int]] = []
        for entry, value in zip(node.lifecycle.returns_of(task), values or [b""], strict=False):
            entry.task = None
            if type(value) is int:
                elsewhere.append((entry, value))
            elif entry.value is None:
                node.object_is_here(entry, value)  # type: ignore[arg-type]
            else:
                node.objects.free_if_unreferenced(entry)
        if elsewhere:
            request = self.next_request()
            ids = [entry.object_id for entry, _ in elsewhere]
            for entry, _ in elsewhere:
                entry.share()
            self.holding[request] = [node.remote._hold_at_shards(ids, request), home, ids]
            for entry, size in elsewhere:
                if entry.value is None:
                    self._lies_at(entry, size, home)
                else:
                    node.objects.free_if_unreferenced(entry)

    def _lies_at(self, entry: ObjectEntry, size: int, home: str) -> None:
        node, shared = self.node, entry.share()
        shared.size = size
        shared.locations = (home,)
        if entry.waiting or entry.watchers or (entry.holders is not None and size <= node.inline_bytes_max):
            node.remote._fetch(entry, shared)
        elif entry.holders is not None:
            node.waits.lies_elsewhere(entry)
        elif not entry.count:
            node.objects.free_if_unreferenced(entry)

    def calls_ended(self, route: Route) -> None:
        if route.sent or route.queue:
            return
        if route.is_retaining:
            route.is_retaining = False
            self.node.objects.drop(route.actor_id + FIRST_RETURN)
        if route.is_forgotten:
            self.routes.pop(route.actor_id, None)

    def fail_route(self, route: Route, error: bytes) -> None:
        """All its calls get the error."""
        self.routes.pop(route.actor_id, None)
        entry = self.node.objects.entries.get(route.actor_id + FIRST_RETURN)
        if entry is not None and entry.actor is route:
            entry.actor = None
        route.is_forgotten = True
        for task_id, task in list(route.sent.items()):
            self.node.objects.drop_all(self.lent.pop(task_id, ()))
            self.node.lifecycle.fail_with(task, error)
        for item in list(route.queue):
            item.task.missing = 0
            self.node.lifecycle.fail_with(item.task, error)
        self.leaving = {
            request: item
            for request, item in self.leaving.items()
            if type(item) is not Leaving or item not in route.queue
        }
        route.sent.clear()
        route.queue.clear()
        self.calls_ended(route)

    def handle_gone(self, route: Route) -> None:
        """Nothing here refers to the handle any more."""
        route.is_forgotten = True
        self.calls_ended(route)

    # --- calls that come ---

    def on_forward_calls(self, message: ForwardCalls) -> None:
        """ForwardCalls."""
        node, origin = self.node, self.node.sender
        for spec in message.specs:
            options = parse_options(spec.options)
            known = node.tasks.get(spec.task_id)
            if known is not None:
                known.origin = origin  # its caller runs again, on another node
                node.reject("a call forwarded twice")
                if spec.deps or spec.holds:
                    node.send(origin, CallsAccepted([spec.task_id]))
                continue
            actor = node.calls.actors.get(options.actor_id)
            job = actor.job if actor is not None else Job(b"", JobFacts())
            task = node.lifecycle.accept_placed(spec, options, job, origin)
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
        request = self.next_request()
        expected = node.remote._hold_at_shards(list(dict.fromkeys(arguments)), request)
        if expected:
            self.arriving[request] = [expected, origin, reply]
        else:
            node.send(origin, reply)

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
        if len(batch) == BATCH_COUNT_MAX or sum(len(value) for value in back if type(value) is bytes) > 1000:
            del self.results[task.origin]
            node.send(task.origin, CallsFinished(batch))

    def results_held(self, message: ResultsHeld) -> None:
        """ResultsHeld."""
        kept = self.unheld.get(self.node.sender, [])
        for object_id in message.object_ids:
            if object_id in kept:
                kept.remove(object_id)
                self.node.objects.drop(object_id)
        if not kept:
            self.unheld.pop(self.node.sender, None)

    # --- acknowledgements ---

    def acknowledged(self, message: HoldAtNodeReply) -> None:
        """HoldAtNodeReply: to a request of this room, or of `remote`."""
        request = message.request
        item = self.leaving.get(request)
        if item is not None:
            item.unacknowledged -= 1
            if not item.unacknowledged:
                del self.leaving[request]
                if type(item) is Leaving:
                    self.touched[item.task.options.actor_id] = None
                else:
                    self.node.moves.may_leave(item)
            return
        for table in (self.arriving, self.holding):
            pending = table.get(request)
            if pending is None:
                continue
            pending[0] -= 1
            if not pending[0]:
                del table[request]
                _, target, what = pending
                self.node.send(target, what if table is self.arriving else ResultsHeld(what))
            return
        self.node.remote.on_held(message)

    # --- ends ---

    def made_anew(self, actor_id: bytes) -> None:
        """Its creator runs again: where it was placed first it goes."""
        route = self.routes.get(actor_id)
        if route is not None:
            if route.home:
                self.node.send(route.home, KillActor(actor_id))
            self.fail_route(route, self._error("The task that made the actor died, and made it anew."))

    def come_here(self, route: Route, actor: Actor) -> None:
        """Calls on it have waited here already."""
        items = list(route.queue)
        route.queue.clear()
        route.is_forgotten = True
        for item in items:
            spec = item.task.spec
            self.node.calls.submit(item.task)
            self.node.objects.drop_all((*spec.deps, *spec.holds))
        self.calls_ended(route)

    def node_lost(self, lost: str, reason: str) -> None:
        """Its actors are dead; what it was promised, nobody waits for.  Those of ours that asked for room ask again."""
        node = self.node
        error = self._error(f"The actor died: its node {lost} is lost ({reason}).")
        for route in list(self.routes.values()):
            if route.home == lost:
                self.fail_route(route, error)
        for pending in (self.arriving, self.holding):
            for request in [request for request, item in pending.items() if item[1] == lost]:
                del pending[request]
        node.objects.drop_all(self.unheld.pop(lost, []))
        self.results.pop(lost, None)
        node.moves.node_lost(lost, error)

    @staticmethod
    def _error(text: str) -> bytes:
        return encode_system_error("ActorDiedError", text)


HANDLERS: dict[type, Any] = {
    ActorLocated: lambda self, message: self.remote_calls.located(message),
    HoldAtNodeReply: lambda self, message: self.remote_calls.acknowledged(message),
    ForwardCalls: lambda self, message: self.remote_calls.on_forward_calls(message),
    CallsAccepted: lambda self, message: self.remote_calls.accepted(message),
    CallsFinished: lambda self, message: self.remote_calls.finished(message),
    ResultsHeld: lambda self, message: self.remote_calls.results_held(message),
}
