"""What is replicated: a shard, and what its clients have asked and been told (see chain.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import MsgspecError, Struct, field
from msgspec.msgpack import Decoder, Encoder

from ...wire.chain import ShardReply, ShardRequest, Update
from ...wire.gcs import NodeLost
from ..effects import Effect, Send
from ..latest import LOST_MAX, Latest
from .shard import GcsShard

# Words for roles that have asked for nothing yet: a chain that is late may hear of a node by another one first.
EARLY_MAX = 10_000


class Result(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """Something that the shard has said to a role of a client, because of update `sequence`."""

    number: int
    sequence: int
    target: str
    message: ShardReply


class Session(Struct, array_like=True, forbid_unknown_fields=True):
    """What the chain knows of one client (one host's roles)."""

    client: str
    received: int = 0  # the number of its last request
    produced: int = 0  # the number of the last result for it
    results: list[Result] = field(default_factory=list)  # that it has not confirmed
    roles: dict[str, None] = {}  # of that host, as far as they have asked for something

    def confirm(self, number: int) -> None:
        """It has the results up to this one."""
        results = self.results
        if results and results[0].number <= number:
            del results[: number - results[0].number + 1]

    def unconfirmed(self, number: int) -> int:
        """How many are left when it has confirmed up to this one."""
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
    """What is replicated: a shard, and its sessions.  The same updates in the same order lead to the same replica."""

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
        """One step.  Returns the clients for whom there are results now."""
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
        """What a client has to say."""
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
        """Of this client; a new one for a client not heard of."""
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
        """Until it asks for something; not of a node that is lost."""
        if role in self.shard.lost or sum(map(len, self.early.values())) >= EARLY_MAX:
            self.undeliverable += 1
        else:
            self.early.setdefault(role, []).append(message)

    def _forget(self, role: str) -> None:
        """The node of this role is lost, and with it all that its host was."""
        self.early.pop(role, None)
        client = self.client_by_role.get(role)
        if client is not None:
            self.lost[client] = None
            for other in self.sessions.pop(client).roles:
                del self.client_by_role[other]

    @property
    def is_dumping(self) -> bool:
        """Whether there is a Dump of it already."""
        return self.shard.tasks.frozen is not None

    def dump(self, epoch: int = 0) -> Iterator[bytes]:
        """In parts; ends before the next `apply`."""
        yield self.dump_sessions(epoch)
        yield from self.shard.dump()

    def dump_sessions(self, epoch: int) -> bytes:
        """The first part."""
        sessions, lost = list(self.sessions.values()), list(self.lost)
        return _encode(Sessions(self.sequence, epoch, self.clock, sessions, lost, self.early))

    @classmethod
    def load(
        cls, shard: str, parts: list[bytes], pages: Mapping[int, list[bytes]] | None = None
    ) -> tuple[Replica, int]:
        """The replica whose parts these are, and its epoch.  pages: as in state.load.

        Raises:
            ValueError: they are none.
        """
        if not parts:
            raise ValueError("no state of a replica: no part of one")
        replica = cls(shard)
        epoch = replica.load_sessions(parts[0])
        replica.shard.load(parts[1:], pages)
        return replica, epoch

    def load_sessions(self, data: bytes) -> int:
        """The first part, into a new one.  Returns its epoch.

        Raises:
            ValueError: it is none.
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
    """A replica's state as it is when this is made, in parts, while the replica goes on.  One at a time."""

    def __init__(self, replica: Replica, epoch: int = 0) -> None:
        self.sequence = replica.sequence
        self._frozen = replica.shard.freeze()
        self._next: bytes | None = replica.dump_sessions(epoch)

    def take(self) -> tuple[bytes, bool]:
        """The next part, and whether it is the last: then this is closed."""
        assert self._next is not None, "there is no more"
        part, self._next = self._next, next(self._frozen.parts, None)
        if self._next is None:
            self.close()
        return part, self._next is None

    @property
    def pages(self) -> dict[int, None]:
        """In which specs of the parts so far lie."""
        return self._frozen.pages

    @property
    def new_pages(self) -> deque[int]:
        """The same, but for those that were taken from here."""
        return self._frozen.new_pages

    def close(self) -> None:
        """Nobody wants more of it."""
        self._frozen.close()


def speaks_for(client: str, requests: list[tuple[str, ShardRequest]]) -> bool:
    """Whether all requests are of roles of the client's own host."""
    host, slash, _ = client.partition("/")
    own = host + slash
    return all(source.startswith(own) or "/" not in source for source, _ in requests)
