"""The roster: admitted keys, members and lost hosts of a cluster, on disk beyond the life of its head.

    <state folder>/members/     a log (store/log.py), compacted at each start and now and then

It holds everything that the key ring and the head's roles must remember: keys handed out, uses of tokens, revoked keys,
members (RegisterNode, in order of arrival), nodes declared dead, replicas on other nodes and their ends, members of
chains (roles/gcs/master.py).  Each record is on disk before anyone is told of it; records are few.  Keys of the head's
own processes are absent: they end with the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from ...exceptions import ZrayError
from ...roles.kept import Latest
from ...store.durable import StoreBroken, StoreError, StoreFull
from ...store.log import Log
from ...wire import gcs, hosting
from ..security.keyring import Key, KeyRing

# A death is kept until the shards have been told; older ones concern hosts that are refused anyway.
LOST_MAX = 1_000
# The addresses of hosts at their joins: more than there are hosts at a time.
SEEN_MAX = 10_000
# A log of this many records, of some 300 bytes each, is compacted: some milliseconds of the head's time.
LOG_RECORDS_MAX = 10_000


class KeyEntered(Struct, array_like=True, tag=1, forbid_unknown_fields=True):
    """A key is admitted. seen_at: the address of its host at the join."""

    key: Key
    seen_at: str = ""


class KeySpent(Struct, array_like=True, tag=2, forbid_unknown_fields=True):
    """A use of a token's key is spent."""

    public: bytes


class KeyRevoked(Struct, array_like=True, tag=3, forbid_unknown_fields=True):
    """A key is revoked."""

    public: bytes


class Registered(Struct, array_like=True, tag=4, forbid_unknown_fields=True):
    """A member."""

    node: gcs.RegisterNode


class Lost(Struct, array_like=True, tag=5, forbid_unknown_fields=True):
    """A node was declared dead."""

    node: str
    reason: str


class Hosted(Struct, array_like=True, tag=6, forbid_unknown_fields=True):
    """A node runs a replica, and the replica's key is admitted."""

    node: str
    replica: hosting.HostedReplica


class Unhosted(Struct, array_like=True, tag=7, forbid_unknown_fields=True):
    """A replica on another node is gone."""

    host: str


class Chained(Struct, array_like=True, tag=8, forbid_unknown_fields=True):
    """Members of a chain, as in NoteChain."""

    shard: str
    members: dict[str, str]
    full: list[str]


Record = KeyEntered | KeySpent | KeyRevoked | Registered | Lost | Hosted | Unhosted | Chained

_encode = Encoder().encode
_decode = Decoder(Record).decode


class Roster:
    """The durable membership of one head's cluster. folder: the place of the log."""

    def __init__(self, folder: str, log: Callable[[str], None] = lambda line: None) -> None:
        """Read the log.

        Raises:
            ZrayError: the log cannot be used; the text names the place.
        """
        self.ring = KeyRing()
        self.log = log
        self.seen_at: Latest[bytes, str] = Latest(SEEN_MAX)  # of keys of hosts
        self.members: dict[str, gcs.RegisterNode] = {}
        self.lost: Latest[str, str] = Latest(LOST_MAX)
        self.hosted: dict[str, Hosted] = {}  # by host
        self.chains: dict[str, Chained] = {}  # by shard
        try:
            self._store = Log(folder)
        except StoreError as error:
            raise ZrayError(str(error)) from error
        try:
            self._recover()
            self.compacted_at = self._store.last  # the number of a record
            self._forget_keys()
            self._store.save_snapshot(map(_encode, self._records()))
        except StoreFull:
            pass  # no record is lost
        except (StoreError, ValueError) as error:
            self._store.close()
            raise ZrayError(str(error)) from error

    def _recover(self) -> None:
        for entry in (*self._store.snapshot(), *self._store.records()):
            try:
                self._apply(_decode(entry.payload))
            except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise ValueError(f"{entry.place}: no record of a roster: {error}") from error

    def _apply(self, record: Record) -> None:
        keys = self.ring.keys
        if type(record) is KeyEntered:
            self.ring.add(record.key)
            self.seen_at[record.key.public] = record.seen_at
        elif type(record) is KeySpent and record.public in keys:
            self.ring.spend(keys[record.public])
        elif type(record) is KeyRevoked and record.public in keys:
            keys[record.public].is_revoked = True
        elif type(record) is Registered:
            self.members[record.node.node] = record.node
        elif type(record) is Lost:
            self.members.pop(record.node, None)
            self.lost[record.node] = record.reason
            self.ring.forget(record.node.partition("/")[0], is_lost=True)
        elif type(record) is Hosted:
            self.hosted[record.replica.host] = record
            self.ring.add(key_of_hosted(record))
        elif type(record) is Unhosted:
            self.hosted.pop(record.host, None)
            self.ring.forget(record.host)
        elif type(record) is Chained:
            self.chains[record.shard] = record

    def _forget_keys(self) -> None:
        """Forget refused keys: they are refused as unknown from now on."""
        for public in [public for public in self.ring.keys if self.ring.why_not(public)]:
            del self.ring.keys[public]

    def _records(self) -> Iterator[Record]:
        """Yield the records of the present state, without outdated ones."""
        for key in self.ring.keys.values():
            if key.name not in self.hosted and not self.ring.why_not(key.public):
                yield KeyEntered(key, self.seen_at.get(key.public, ""))
        for node in self.members.values():
            yield Registered(node)
        for name, reason in self.lost.items():
            yield Lost(name, reason)
        yield from self.hosted.values()
        yield from self.chains.values()

    def _note(self, *records: Record) -> None:
        for record in records:
            self._apply(record)
        self._store.append([_encode(record) for record in records])
        self._compact()

    def _compact(self) -> None:
        """Compact a log that has grown long.  The records are valid and on disk in any case."""
        if self._store.last - self.compacted_at < LOG_RECORDS_MAX:
            return
        self.compacted_at = self._store.last
        try:
            self._store.save_snapshot(map(_encode, self._records()))
        except (StoreFull, StoreBroken) as error:
            self.log(f"the roster's log goes on growing: {error}")

    def _note_whatever(self, *records: Record) -> None:
        """Apply records of facts that hold whether or not they can be written to disk."""
        try:
            self._note(*records)
        except (StoreFull, StoreBroken) as error:
            self.log(f"not recorded on disk, and lost when this head is started again: {error}")

    # --- what happens ---

    def hosts(self) -> list[tuple[Key, str]]:
        """Return the valid keys of hosts, and the addresses at which the hosts were seen."""
        found = [key for key in self.ring.keys.values() if key.kind in ("node", "driver")]
        return [(key, self.seen_at.get(key.public, "")) for key in found if not self.ring.why_not(key.public)]

    def enter(self, key: Key) -> None:
        """Admit a token's key.  Raises: StoreError: the change is not recorded."""
        self._note(KeyEntered(key))

    def join(self, token: Key, key: Key, seen_at: str) -> None:
        """Record that a host has joined with a token.  Raises: StoreError: the change is not recorded."""
        self._store.append([_encode(KeySpent(token.public)), _encode(KeyEntered(key, seen_at))])
        self._apply(KeySpent(token.public))
        self._apply(KeyEntered(key, seen_at))
        self._compact()

    def revoke(self, key: Key) -> None:
        """Revoke a key."""
        self._note_whatever(KeyRevoked(key.public))

    def registered(self, node: gcs.RegisterNode) -> None:
        """A member."""
        self._note_whatever(Registered(node))

    def judged(self, node: str, reason: str) -> None:
        """The verdict."""
        self._note_whatever(Lost(node, reason))

    def let_in(self, replica: hosting.HostedReplica, node: str) -> Key:
        """Admit a replica that a node runs, and return its key.  Raises: StoreError: the change is not recorded."""
        self._store.append([_encode(record := Hosted(node, replica))])
        self._apply(record)
        self._compact()
        return self.ring.keys[replica.public_key]

    def shut_out(self, host: str) -> None:
        """Record the end of a replica."""
        if host in self.hosted:
            self._note_whatever(Unhosted(host))

    def chained(self, shard: str, members: dict[str, str], full: list[str]) -> None:
        """Record the members of a chain."""
        self._note_whatever(Chained(shard, members, full))

    def close(self) -> None:
        """Release the log for another head."""
        self._store.close()


def key_of_hosted(record: Hosted) -> Key:
    """Return the key of a hosted replica: it has the rights of its member of that one shard."""
    replica = record.replica
    return Key(replica.public_key, "replica", replica.host, roles=[f"{replica.host}/{replica.shard}"], node=record.node)
