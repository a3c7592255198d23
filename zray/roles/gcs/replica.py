"""The replicated state: a shard, and its clients' requests and results (see chain.py).

Messages from a tail to the clients: finished requests, and the shard's messages to their roles (see chain.py).

An outside view of a replica, with invariants and counters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import MsgspecError, Struct, field
from msgspec.msgpack import Decoder, Encoder

from ...wire.chain import ChainResults, ShardReply, ShardRequest, Update
from ...wire.gcs import NodeLost
from ...wire.limits import portions
from ..effects import Effect, Send
from ..kept import LOST_MAX, Latest
from .shard import GcsShard

if TYPE_CHECKING:
    from .chain import ChainMember

# Words for roles that have asked for nothing yet: a chain that is late may hear of a node by another one first.
EARLY_MAX = 10_000


class Result(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A message from the shard to a role of a client, caused by update `sequence`."""

    number: int
    sequence: int
    target: str
    message: ShardReply


class Session(Struct, array_like=True, forbid_unknown_fields=True):
    """The chain's record of a client (a host's roles)."""

    client: str
    received: int = 0  # the number of its last request
    produced: int = 0  # the number of the last result for it
    results: list[Result] = field(default_factory=list)  # that it has not confirmed
    roles: dict[str, None] = {}  # of that host, as far as they have asked for something

    def confirm(self, number: int) -> None:
        """Drop the results up to `number`, which the client has confirmed."""
        results = self.results
        if results and results[0].number <= number:
            del results[: number - results[0].number + 1]

    def unconfirmed(self, number: int) -> int:
        """Return how many results remain after the client has confirmed those up to `number`."""
        return min(len(self.results), max(0, self.produced - number))


class Sessions(Struct, array_like=True, forbid_unknown_fields=True):
    """The first part of a member's state: all but the shard itself."""

    sequence: int  # of the last update
    epoch: int  # in which it was applied; 0 where that is not asked for
    clock: float
    sessions: list[Session]
    lost: list[str]
    early: dict[str, list[ShardReply]] = {}


_encode = Encoder().encode
_decode = Decoder(Sessions).decode


class Replica:
    """A shard and its sessions.  The same updates in the same order lead to the same replica."""

    PASSING = {"undeliverable": None}
    LASTING = {"shard": ..., "sessions client_by_role early": None}

    def __init__(self, shard: str) -> None:
        self.shard = GcsShard(shard, is_chained=True)
        self.sequence = 0
        self.clock = 0.0
        self.sessions: dict[str, Session] = {}
        self.client_by_role: dict[str, str] = {}
        self.lost: Latest[str, None] = Latest(LOST_MAX)  # clients whose nodes are; they do not come back
        self.early: dict[str, list[ShardReply]] = {}  # role that has asked for nothing yet -> what it is to be told
        self.undeliverable = 0

    def apply(self, update: Update) -> list[str]:
        """Apply an update.  Returns the clients that have results now."""
        assert update.sequence == self.sequence + 1, "an update out of order"
        self.sequence = update.sequence
        self.clock = update.now
        touched: dict[str, None] = {}
        if update.client:
            self._ask(update, touched)
        for found in update.found:
            self._keep(self.shard.lineage_found(found, update.now), touched)
        self._keep(self.shard.end_turn(update.now), touched)
        return list(touched)

    def _ask(self, update: Update, touched: dict[str, None]) -> None:
        """Handle a client's requests and confirmations."""
        touched[update.client] = None
        session = self.session(update.client)
        session.confirm(update.taken)
        for source, request in update.requests:
            session.received += 1
            if source not in session.roles:
                session.roles[source] = None
                self.client_by_role[source] = update.client
                self._keep([Send(source, message) for message in self.early.pop(source, ())], touched)
            effects = self.shard.handle(source, request, update.now)
            if type(request) is NodeLost:
                self._forget(request.node)
            self._keep(effects, touched)

    def session(self, client: str) -> Session:
        """Return the client's session; a new session for a new client."""
        session = self.sessions.get(client)
        if session is None:
            session = self.sessions[client] = Session(client)
        return session

    def _keep(self, effects: list[Effect], touched: dict[str, None]) -> None:
        for effect in effects:
            assert type(effect) is Send, "a shard only speaks: nothing else could be done by the tail alone"
            client = self.client_by_role.get(effect.destination)
            if client is None:
                self._keep_early(effect.destination, effect.message)  # type: ignore[arg-type]
                continue
            session = self.sessions[client]
            session.produced += 1
            result = Result(session.produced, self.sequence, effect.destination, effect.message)  # type: ignore[arg-type]
            session.results.append(result)
            touched[client] = None

    def _keep_early(self, role: str, message: ShardReply) -> None:
        """Keep a message for a role without a request yet, unless the role's node is lost."""
        if role in self.shard.lost or sum(map(len, self.early.values())) >= EARLY_MAX:
            self.undeliverable += 1
        else:
            self.early.setdefault(role, []).append(message)

    def _forget(self, role: str) -> None:
        """Forget the host of a lost node: the client, the session and all roles."""
        self.early.pop(role, None)
        client = self.client_by_role.get(role)
        if client is not None:
            self.lost[client] = None
            for other in self.sessions.pop(client).roles:
                del self.client_by_role[other]

    @property
    def is_dumping(self) -> bool:
        """Whether a Dump of the replica exists already."""
        return self.shard.tasks.frozen is not None

    def dump(self, epoch: int = 0) -> Iterator[bytes]:
        """Yield the state in parts; must be exhausted before the next `apply`."""
        yield self.dump_sessions(epoch)
        yield from self.shard.dump()

    def dump_sessions(self, epoch: int) -> bytes:
        """Encode the sessions: the first part."""
        sessions, lost = list(self.sessions.values()), list(self.lost)
        return _encode(Sessions(self.sequence, epoch, self.clock, sessions, lost, self.early))

    @classmethod
    def load(
        cls, shard: str, parts: list[bytes], pages: Mapping[int, list[bytes]] | None = None
    ) -> tuple[Replica, int]:
        """Return the replica with these parts, and its epoch.  pages: as in state.load.

        Raises:
            ValueError: the parts are not a replica's state.
        """
        if not parts:
            raise ValueError("no state of a replica: no part of one")
        replica = cls(shard)
        epoch = replica.load_sessions(parts[0])
        replica.shard.load(parts[1:], pages)
        return replica, epoch

    def load_sessions(self, data: bytes) -> int:
        """Load the first part into a new replica.  Returns the epoch.

        Raises:
            ValueError: the data is no first part.
        """
        try:
            found = _decode(data)
        except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"no state of a replica: {error}") from error
        self.sequence = found.sequence
        self.clock = found.clock
        self.sessions = {session.client: session for session in found.sessions}
        self.client_by_role = {role: session.client for session in found.sessions for role in session.roles}
        self.lost.update(dict.fromkeys(found.lost))
        self.early = found.early
        return found.epoch


class Dump:
    """A copy-on-write view of a replica's state at its creation, in parts, while updates go on; only one may exist."""

    def __init__(self, replica: Replica, epoch: int = 0) -> None:
        self.sequence = replica.sequence
        self._frozen = replica.shard.freeze()
        self._next: bytes | None = replica.dump_sessions(epoch)

    def take(self) -> tuple[bytes, bool]:
        """Return the next part, and whether it is the last; after the last, the dump is closed."""
        assert self._next is not None, "there is no more"
        part, self._next = self._next, next(self._frozen.parts, None)
        if self._next is None:
            self.close()
        return part, self._next is None

    @property
    def pages(self) -> dict[int, None]:
        """Return the pages that hold specs of the parts so far."""
        return self._frozen.pages

    @property
    def new_pages(self) -> deque[int]:
        """Return the pages that hold specs of the parts so far, except those already taken."""
        return self._frozen.new_pages

    def close(self) -> None:
        """Close the dump: no further parts are wanted."""
        self._frozen.close()


def speaks_for(client: str, requests: list[tuple[str, ShardRequest]]) -> bool:
    """Whether all requests are of roles of the client's own host."""
    host, slash, _ = client.partition("/")
    own = host + slash
    return all(source.startswith(own) or "/" not in source for source, _ in requests)


class Results:
    """The results of a member, while it is the tail."""

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.unsaid: deque[tuple[int, list[str]]] = deque()  # update -> the clients to whom it means something
        self.touched: dict[str, None] = {}  # clients that are to hear of something
        self.told: dict[str, int] = {}  # client -> the last result sent to it

    def clear(self) -> None:
        """Forget everything: the member has no state."""
        self.touched.clear()
        self.unsaid.clear()

    def touch_all(self) -> None:
        """Mark all clients, to send every unconfirmed result."""
        replica = self.member.replica
        assert replica is not None
        self.touched = dict.fromkeys(replica.sessions)
        self.unsaid.clear()
        self.unsaid.append((replica.sequence, list(self.touched)))

    def tell(self) -> None:
        """Send results of durable updates, and no others."""
        member = self.member
        assert member.replica is not None
        sessions = member.replica.sessions
        acknowledged = member.acknowledged
        while self.unsaid and self.unsaid[0][0] <= acknowledged:
            self.touched.update(dict.fromkeys(self.unsaid.popleft()[1]))
        if self.touched:
            self._tell_touched(sessions, acknowledged)
        if len(self.told) > len(sessions):  # nodes are lost
            self.told = {client: number for client, number in self.told.items() if client in sessions}

    def _tell_touched(self, sessions: dict[str, Session], acknowledged: int) -> None:
        member = self.member
        not_yet: dict[str, int] = {}  # client -> its first request that is not there for good
        for update in reversed(member.history):
            if update.sequence <= acknowledged:
                break
            not_yet[update.client] = update.first
        for client in self.touched:
            session = sessions.get(client)
            if session is None:
                continue  # of a node that is lost
            told = self.told.get(client, 0)
            results = [item for item in session.results if item.number > told and item.sequence <= acknowledged]
            first = results[0].number if results else 1 + max(told, session.produced - len(session.results))
            if results:
                self.told[client] = results[-1].number
            done = not_yet[client] - 1 if client in not_yet else session.received
            said = [(item.target, item.message) for item in results]
            *others, last = portions(said)
            for part in others:  # nothing is done before all that comes of it has been told
                member.send(client, ChainResults(0, first, part))
                first += len(part)
            member.send(client, ChainResults(done, first, last))
        self.touched.clear()


def check_member(member: ChainMember) -> None:
    """Assert every invariant of a member's state."""
    if member.replica is None:
        return
    member.replica.shard.check_everything()
    for session in member.replica.sessions.values():
        numbers = [result.number for result in session.results]
        assert numbers == list(range(session.produced + 1 - len(numbers), session.produced + 1)), "results missing"
    sequences = [update.sequence for update in member.history]
    assert sequences == list(range(member.forgotten + 1, member.forgotten + 1 + len(sequences))), "history with gaps"
    assert not sequences or sequences[-1] == member.replica.sequence, "a history that ends too early"


def count_member(member: ChainMember) -> dict[str, Any]:
    """Return the counters for status and load reports."""
    counts = member.replica.shard.statistics() if member.replica is not None else {}
    if member.journal is not None and member.journal.refused:
        counts["refuses"] = member.journal.refused
    refusals = (("does not flush", member.flushing.refused), ("hands nothing over", member.handover.refused))
    counts.update({what: why for what, why in refusals if why})
    return {"epoch": member.epoch, "sequence": member.sequence, "history": len(member.history), **counts}
