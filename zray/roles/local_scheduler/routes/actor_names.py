"""Names of actors: the name's shard knows the owner.

FindActor -> LookUpActor -> LookUpActorReply -> FindActorReply

FindActorNames -> LookUpActorNames -> ActorNamesListed -> ActorNamesFound all shards

Actors of other nodes found by name, without a local handle yet.

An actor's shard reports the end of the last hold to the actor's node, which then ends the actor.  A later handle does
not keep the actor alive.  So the shard holds the actor for the local node only while another node holds the actor:

    HoldAtNode (are_inside) -> HoldAtNodeReply    are_gone: no node holds the actor, which is about to end
    SeekNamed -> NamedFound                       is_gone: only actors that nothing can reach held it (traces)

Weak handles, as get_actor() returns them: they keep no actor alive, and are not counted as references.

Calls by a weak handle say where the actor was found.  The actor's shard is asked for its home, and answers at once.  An
actor unknown to the shard still lives where it was found, or has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ....exceptions import encode_system_error
from ....ids import FIRST_RETURN, name_key
from ....wire import actors, limits
from ....wire.actors import FindActor, FindActorReply, LookUpActorReply
from ....wire.handles import NamedFound, SeekNamed
from ...kept import Latest
from ...role import on
from ..objects.table import ObjectEntry
from ..tables import Actor, ActorState, Process
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Process
    from .route import Route


class FoundElsewhere:
    """Pending holds of actors found by name."""

    PASSING = {"asked unsure": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.asked: dict[int, bool] = {}  # request to the shard -> whether nobody holds the actor
        # Requests to homes of actors -> the home, and what is told whether the actor is gone.
        self.unsure: dict[int, tuple[str, Callable[[bool], None]]] = {}

    def is_held_here(self, actor_id: bytes) -> bool:
        """Whether this node holds the actor, and the shard knows."""
        entry = self.node.objects.entries.get(actor_id + FIRST_RETURN)
        return entry is not None and entry.shared is not None and not entry.shared.is_released

    def ask(self, process: Process, question: FindActor, found: LookUpActorReply) -> None:
        """Answer the process when the shard holds the actor for this node and its home knows, or one has refused."""
        node, object_id = self.node, found.actor_id + FIRST_RETURN
        request = node.acks.next_request()
        self.asked[request] = False
        is_held = self.is_held_here(found.actor_id)
        expected = 0 if is_held else node.remote._hold_at_shards([object_id], request, are_inside=True)
        node.objects.retain(object_id).share()  # what others here let go of meanwhile is not released at the shard
        node.acks.expect(request, expected, lambda: self._is_held(request, process, question, found))

    def _is_held(self, request: int, process: Process, question: FindActor, found: LookUpActorReply) -> None:
        answer = partial(self._answer, process, question, found)
        is_gone = self.asked.pop(request)
        if is_gone or found.node not in self.node.members.peers:
            answer(is_gone)
        else:
            self.unsure[request] = found.node, answer
            self.node.send(found.node, SeekNamed(request, found.actor_id))

    @on(SeekNamed)
    def on_seek_named(self, message: SeekNamed) -> None:
        """SeekNamed."""
        self._tell(self.node.sender, message)

    def _tell(self, asker: str, message: SeekNamed) -> None:
        node, actor_id = self.node, message.actor_id
        if node.traces.is_found(actor_id, partial(self._tell, asker, message)):
            return
        actor = node.calls.actors.get(actor_id)
        is_gone = node.ends.is_ending(actor) if actor is not None else actor_id in node.ends.graves
        if asker not in node.recovery.lost:
            node.send(asker, NamedFound(message.request, is_gone))

    @on(NamedFound)
    def on_named_found(self, message: NamedFound) -> None:
        """NamedFound."""
        home, answer = self.unsure.get(message.request, ("", None))
        if home != self.node.sender or answer is None:
            self.node.reject("an answer about a name to no question")
            return
        del self.unsure[message.request]
        answer(message.is_gone)

    def node_lost(self, lost: str) -> None:
        """Take actors of a lost node as found: their shards know what becomes of them."""
        for request, (home, answer) in list(self.unsure.items()):
            if home == lost:
                del self.unsure[request]
                answer(False)

    def is_gone(self, request: int) -> None:
        """HoldAtNodeReply: if pending, the request's actor was held by no node."""
        if request in self.asked:
            self.asked[request] = True

    def _answer(self, process: Process, question: FindActor, found: LookUpActorReply, is_gone: bool) -> None:
        node, actor_id, home = self.node, found.actor_id, found.node
        if is_gone:
            node.names.ends_elsewhere(actor_id)
        if process.address in node.processes:
            if not is_gone:
                node.routes.name_found(actor_id, home)
                node.objects.hold(node.objects.entries[actor_id + FIRST_RETURN], process)
            reply = FindActorReply(question.request, b"" if is_gone else actor_id, found.handle)
            node.send(process.address, reply)
        node.objects.drop(actor_id + FIRST_RETURN)


# Routes that no strong handle here refers to stay for the next call, so many: some 500 bytes each.
ROUTES_MAX = 1_000
# Actors with names whose handles had gone when they died: so many are remembered, some 500 bytes each, for whoever has
# a weak handle.
DEATHS_MAX = 1_000


class WeakHandles:
    """Routes and deaths of actors called by weak handles of local processes."""

    LASTING = {"routes": "ROUTES_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.routes: dict[bytes, None] = {}  # those that calls by weak handles have taken, the latest last
        self.deaths: Latest[bytes, bytes] = Latest(DEATHS_MAX)  # actor -> the error value that its calls get

    def died(self, actor_id: bytes, error: bytes) -> None:
        """Keep the error of an actor that died."""
        self.deaths[actor_id] = error

    def note(self, route: Route) -> None:
        """Note the use of a route by a weak handle; the oldest unused route may end."""
        self.routes.pop(route.actor_id, None)
        self.routes[route.actor_id] = None
        if len(self.routes) > ROUTES_MAX:
            oldest = next(iter(self.routes))
            del self.routes[oldest]
            if (unused := self.node.routes.by_actor.get(oldest)) is not None:
                self.node.routes.calls_ended(unused)

    def keeps(self, route: Route) -> bool:
        """Whether the route is kept even without pending calls."""
        return route.actor_id in self.routes or route.is_killed


# An actor of another node that a process of ours has killed is not found here by its name any more, whatever its shard
# has heard; its name is free when its node has said so.  Far longer than that takes; then its maker may have made it
# anew.  So many of them, some 100 bytes each.
KILLED_SECONDS, KILLED_MAX = 10.0, 10_000
# An unheld actor of another node frees its name as soon as its node has been told.
ENDING_SECONDS = 2.0
# Actors with names that have left lately, some 150 bytes each: a question takes less than so many take to leave.
LEFT_MAX = 10_000
REGISTER_AGAIN_SECONDS = 0.02
# The value behind the handles of a living actor: None, as the store writes it.
NOTHING = b"\xc0"


class Listing(Struct, eq=False):
    """A process's FindActorNames, which shards answer in part."""

    process: Process
    request: int
    silent: dict[str, None]  # shards that have not answered
    found: list[tuple[str, str]] = []


class ActorNames:
    """Pending requests for names."""

    PASSING = {"finding listings": None, "last_calls": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.finding: dict[tuple[str, str], list[tuple[Process, actors.FindActor]]] = {}
        self.listings: dict[int, Listing] = {}
        self.killed: Latest[bytes, float] = Latest(KILLED_MAX)  # actors of other nodes, by processes of ours -> when
        self.last_calls: dict[bytes, Task] = {}  # unfinished calls that end a local actor
        self.count = 0  # of listings, so far
        # Actors that have left for another node -> which: an answer that names this one may have been on its way.
        self.left: Latest[bytes, str] = Latest(LEFT_MAX)
        self.weak = WeakHandles(node)
        self.elsewhere = FoundElsewhere(node)

    def is_here(self, actor_id: bytes) -> None:
        """Note that an actor with a name lives here."""
        self.left.pop(actor_id, None)

    def has_left(self, actor_id: bytes, home: str) -> None:
        """Note where an actor with a name has gone."""
        self.left[actor_id] = home
        self.last_calls.pop(actor_id, None)

    def kills(self, actor_id: bytes) -> None:
        """Note that a process here kills an actor of another node."""
        self.killed[actor_id] = self.node.now

    def register(self, actor: Actor, home: str = "", guardian: str = "") -> None:
        """Register the actor's name with a home: the local node, unless `home` is given."""
        options, node = actor.options, self.node
        shard = node.addresses.shard_of(name_key(options.namespace, options.name))
        if not home:
            home, guardian = node.address, actor.guardian if actor.is_guarded else ""
        node.send(shard, actors.RegisterActor(actor.actor_id, options, home, guardian))

    @on(actors.ActorRegistered)
    def registered(self, message: actors.ActorRegistered) -> None:
        """ActorRegistered: the name is granted."""
        if actor := self._registering(message.actor_id):
            self.node.calls.want_worker(actor)

    @on(actors.ActorNameTaken)
    def name_taken(self, message: actors.ActorNameTaken) -> None:
        """ActorNameTaken."""
        actor = self._registering(message.actor_id)
        if actor is not None and self._is_ending(message.holder):
            self.node.after(REGISTER_AGAIN_SECONDS, self.register_again, message.actor_id)
        elif actor is not None:
            name = actor.options.name
            text = f"An actor named {name!r} exists already in namespace {actor.options.namespace!r}."
            self.node.ends.bury(actor, encode_system_error("ActorAlreadyExistsError", text), was_named=False)

    def register_again(self, actor_id: bytes) -> None:
        """Register the name again: the killed owner may have ended by now."""
        if actor := self._registering(actor_id):
            self.register(actor)

    def _registering(self, actor_id: bytes) -> Actor | None:
        """Return the actor if local and without a name yet."""
        actor: Actor | None = self.node.calls.actors.get(actor_id)
        return actor if actor is not None and actor.state == ActorState.REGISTERING else None

    def _is_ending(self, actor_id: bytes) -> bool:
        """Whether a process of ours has killed the actor, or a call that ends it has come."""
        if actor_id in self.last_calls:
            return True
        at = self.killed.get(actor_id)
        return at is not None and self.node.now - at < KILLED_SECONDS

    def call_failed(self, task: Task) -> None:
        """Forget the last call of an actor: it was cancelled, or the actor has ended, and its name is free soon."""
        actor_id = task.options.actor_id
        if self.last_calls.get(actor_id) is task:
            del self.last_calls[actor_id]
            if actor_id not in self.node.calls.actors:
                self.ends_elsewhere(actor_id)

    def ends_elsewhere(self, actor_id: bytes) -> None:
        """Note that another node's actor is about to end: no longer found, with a name soon free."""
        self.killed[actor_id] = self.node.now - KILLED_SECONDS + ENDING_SECONDS

    @on(actors.FindActor)
    def find(self, message: actors.FindActor) -> None:
        """FindActor: the name's shard is asked."""
        process = self.node.processes.get(self.node.sender)
        if process is None:
            return
        key = (message.namespace, message.name)
        self.finding.setdefault(key, []).append((process, message))
        shard = self.node.addresses.shard_of(name_key(*key))
        self.node.send(shard, actors.LookUpActor(*key))

    @on(actors.LookUpActorReply)
    def found(self, message: actors.LookUpActorReply) -> None:
        """LookUpActorReply."""
        askers = self.finding.get((message.namespace, message.name))
        if not askers:
            return
        process, question = askers.pop(0)
        if not askers:
            del self.finding[(message.namespace, message.name)]
        self._answer(process, question, message)

    def _answer(self, process: Process, question: actors.FindActor, message: LookUpActorReply) -> None:
        """Answer a process: it holds the actor from now on, unless its handle is weak."""
        if process.address not in self.node.processes:
            return
        actor_id, home = message.actor_id, message.node
        here = self.node.calls.actors.get(actor_id)
        if home == self.node.address and here is None:
            home = self.left.get(actor_id, home)
        is_here = home == self.node.address and actor_id not in self.node.guards.guarded
        if is_here if here is None else self.node.ends.is_ending(here):
            actor_id = b""  # it died, or began to leave, while we asked
        if self._is_ending(actor_id):
            actor_id = b""
        if question.is_weak:
            home = home if here is None else self.node.address
            self.node.send(process.address, actors.FindActorReply(question.request, actor_id, message.handle, home))
            return
        if actor_id and here is None:
            if not message.is_detached:
                self.elsewhere.ask(process, question, replace(message, node=home))
                return
            self.node.routes.name_found(actor_id, home)
        elif actor_id and self.node.traces.is_found(actor_id, partial(self._answer, process, question, message)):
            return
        if actor_id:
            entry: ObjectEntry = self.node.objects.require(actor_id + FIRST_RETURN)
            self.node.objects.hold(entry, process)
            actor = self.node.calls.actors.get(actor_id)
            if actor is not None and entry.actor is None:
                actor.is_found(entry)  # it had calls to end before it left
                if actor.state == ActorState.ALIVE:
                    self.node.objects.place(entry, NOTHING)
        self.node.send(process.address, actors.FindActorReply(question.request, actor_id, message.handle))

    @on(actors.FindActorNames)
    def list_names(self, message: actors.FindActorNames) -> None:
        """FindActorNames: all shards are asked, because each knows only its own names."""
        node = self.node
        process = node.processes.get(node.sender)
        if process is None:
            return
        self.count += 1
        shards = dict.fromkeys(node.addresses.shards)
        self.listings[self.count] = Listing(process, message.request, shards)
        for shard in shards:
            node.send(shard, actors.LookUpActorNames(self.count, message.namespace, message.in_all))

    @on(actors.ActorNamesListed)
    def listed(self, message: actors.ActorNamesListed) -> None:
        """ActorNamesListed: the requester receives all names at once."""
        listing = self.listings.get(message.request)
        if listing is None or self.node.sender not in listing.silent:
            return
        del listing.silent[self.node.sender]
        listing.found.extend(message.names)
        if not listing.silent:
            del self.listings[message.request]
            if listing.process.address in self.node.processes:
                reply = actors.ActorNamesFound(listing.request, sorted(listing.found)[: limits.ITEMS_MAX])
                self.node.send(listing.process.address, reply)
