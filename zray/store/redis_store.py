"""A `durable.Store` on a Redis or Valkey server, under a prefix of keys; pages stay in a folder of this machine.

    <prefix>:head      owner, epoch, base (the record before the first in the log), coming (what the snapshot under way
                       covers), who (the owner in words), place (owner.py)
    <prefix>:log       the records base+1, base+2, ...
    <prefix>:snapshot  the parts of the state after record `base`
    <prefix>:coming    the parts of an unfinished snapshot
    <folder>/page-<n>  pages (log.py): Redis holds all in memory
    <folder>/acknowledged  the last acknowledged record, against a server that comes back with fewer

Each change is one script, which the server carries out as a whole.  It first compares owner, epoch and the number of
the last record.  The owner is drawn by each RedisStore.  The epoch grows with each connection, so a command that the
server still has from a lost connection does nothing.

After a lost connection the store asks for the number of the last record.  Either the append under way was carried out,
or it was not.  Any other number means that acknowledged records are gone (FLUSHALL, an older copy, a failover): the
store is broken then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from zlib import crc32

from .durable import Entry, StoreAway, StoreBroken, StoreDamaged, StoreFull, StoreLocked, StoreUnfit
from .log import Log
from .owner import has_ended, in_words, place
from .redis_address import RedisAddress
from .redis_server import Script, Server

MARK = "acknowledged"
MARK_BYTES = 20
SEAL_BYTES = 4
RECORDS_READ, PARTS_READ = 1_000, 16
POLL_SECONDS = 0.02
NO_SNAPSHOT = -1

# All scripts have KEYS head, log, snapshot, coming; ARGV owner, epoch.
_CHECK = """
local head = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'base', 'coming', 'who')
local base = tonumber(head[3]) or 0
local last = base + redis.call('LLEN', KEYS[2])
if head[1] ~= ARGV[1] or head[2] ~= ARGV[2] then return {'other', last, head[5] or '', head[2] or '0'} end
"""
# ARGV[2] is 0 for an owner that comes for the first time; a lower epoch is an older copy's.  The first write is one
# that a full memory permits.
TAKE = Script("""
local head = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'base', 'coming', 'who')
local last = (tonumber(head[3]) or 0) + redis.call('LLEN', KEYS[2])
local epoch, own = tonumber(head[2]) or 0, tonumber(ARGV[2])
if own > 0 and epoch >= own and head[1] ~= ARGV[1] then return {'other', last, head[5] or '', head[2]} end
epoch = math.max(epoch, own) + 1
redis.call('UNLINK', KEYS[4])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', epoch, 'base', head[3] or 0, 'who', ARGV[3], 'place', ARGV[4])
return {'done', last, tostring(epoch)}
""")
APPEND = Script(
    _CHECK
    + """
if last ~= tonumber(ARGV[3]) then return {'count', last} end
for first = 4, #ARGV, 1000 do
    redis.call('RPUSH', KEYS[2], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
return {'done', last + #ARGV - 3}
"""
)
BEGIN = Script(
    _CHECK
    + """
if last ~= tonumber(ARGV[3]) then return {'count', last} end
redis.call('UNLINK', KEYS[4])
redis.call('HSET', KEYS[1], 'coming', last)
return {'done', last}
"""
)
ADD = Script(
    _CHECK
    + """
redis.call('RPUSH', KEYS[4], ARGV[3])
return {'done', last}
"""
)
END = Script(
    _CHECK
    + """
redis.call(unpack(redis.call('EXISTS', KEYS[4]) == 1 and {'RENAME', KEYS[4], KEYS[3]} or {'UNLINK', KEYS[3]}))
redis.call('LTRIM', KEYS[2], tonumber(head[4]) - base, -1)
redis.call('HSET', KEYS[1], 'base', head[4])
return {'done', last}
"""
)


class RedisStore:
    """A store.  folder: for pages; prefix: of the keys.  Used by one thread at a time."""

    def __init__(
        self,
        folder: str,
        address: RedisAddress,
        prefix: str,
        password: str = "",
        *,
        is_lasting: bool = True,
        patience: float = 0.0,
    ) -> None:
        """Connect, and become the owner.

        patience: the seconds to wait for another owner's end: a server hears of it a little later than the system.

        Raises:
            StoreLocked: another process is the owner, and connected.
            StoreAway, StoreUnfit: the server; says what to set.
            StoreBroken: the server has fewer records than were acknowledged.
            StoreDamaged, PermissionError: the folder, as Log.
        """
        self.address = address
        self.prefix = prefix
        self.last = 0
        self.cut_bytes = 0
        self.broken = ""
        self._keys = [f"{prefix}:{name}" for name in ("head", "log", "snapshot", "coming")]
        self._owner = os.urandom(8).hex()
        self._epoch = 0
        self._coming = NO_SNAPSHOT  # parts of the snapshot under way
        self._is_away = False  # a command was lost: connect, and find out what came of it
        self._unknown: list[bytes] = []  # the records of that command, if it was an append
        self._found: list[bytes] = []  # the same, once it is known that they are stored
        self._server = Server(address, password, prefix)
        self._pages = Log(folder, is_lasting=is_lasting)
        self._mark = -1
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._mark = os.open(os.path.join(folder, MARK), flags, 0o600)
            self._open(patience)
        except BaseException:
            self.close()
            raise

    # --- the owner ---

    def _open(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        self._server.connect()
        while other := self._server.older_owner():
            if has_ended(self._server.field(self._keys[0], "place")):
                break  # its machine could not close the connection
            if time.monotonic() >= deadline:
                raise StoreLocked(f"{self.address.text} is in use under {self.prefix} by {other}", other)
            time.sleep(POLL_SECONDS)
        noted = os.pread(self._mark, MARK_BYTES, 0)
        known = int(noted) if noted.isdigit() else 0  # zeros, after a loss of power
        self.last = self._take()
        if self.last < known:
            raise self._break(self._lacks(self.last, known))
        self._note(self.last)
        os.fsync(self._mark)

    def _take(self) -> int:
        """Become the owner, or be it again.  Returns the number of the last record."""
        arguments = [self._owner, self._epoch, in_words(), place()]
        status, last, *said = self._server.run(TAKE, self._keys, arguments)
        if status != b"done":
            raise self._break(self._lacks_or_fenced(last, *said))
        self._epoch = int(said[0])
        return int(last)

    def _come_back(self) -> None:
        """Connect again, and find out whether the last append was carried out.

        Raises:
            StoreAway: the server is still away.
            StoreFull: it has come back with settings under which it could lose records.
            StoreBroken: acknowledged records are missing, or this owner was replaced.
        """
        place = self.address.text
        try:
            self._server.connect()
            last = self._take()
        except StoreUnfit as error:
            raise StoreFull(str(error), str(error).removeprefix(f"{place} "), place, "it is set so, and") from error
        records = self._unknown
        if last == self.last + len(records):
            self._found = records
        elif last != self.last:
            raise self._break(self._lacks(last, self.last))
        self._unknown = []
        self._is_away = False
        self._coming = NO_SNAPSHOT
        self._acknowledge(last)

    def _lacks(self, last: int, known: int) -> str:
        if last > known:
            return f"it has {last} records, where {known} belong: another program has written under {self.prefix}"
        return (
            f"it has {last} records of {self.prefix}, and {known} were acknowledged, so it was emptied, or has come "
            "back with an older copy: restore its data.  A new cluster begins with another --state-dir"
        )

    def _lacks_or_fenced(self, last: int, who: bytes, epoch: bytes) -> str:
        if int(epoch) >= self._epoch:
            return f"{who.decode(errors='replace')} keeps {self.prefix} there now, so this head has been replaced"
        return self._lacks(last, self.last)

    def _break(self, text: str) -> StoreBroken:
        self.broken = f"{self.address.text}: {text}"
        return StoreBroken(self.broken)

    # --- commands ---

    def _run(self, script: Script, *arguments: object) -> int:
        """Run a script as the owner.  Returns the number of the last record."""
        if self.broken:
            raise StoreBroken(self.broken)
        try:
            status, last, *said = self._server.run(script, self._keys, [self._owner, self._epoch, *arguments])
        except StoreAway:
            self._is_away = True
            raise
        except StoreBroken as error:
            self.broken = str(error)
            raise
        if status == b"other":
            raise self._break(self._lacks_or_fenced(last, *said))
        if status == b"count":
            raise self._break(self._lacks(last, self.last))
        return int(last)

    def _acknowledge(self, last: int) -> int:
        if last != self.last:
            self.last = last
            self._note(last)
        return last

    def _note(self, last: int) -> None:
        """Write the mark, without waiting for the disk: it outlives the process, and is a safeguard only."""
        with suppress(OSError):
            os.pwrite(self._mark, b"%0*d" % (MARK_BYTES, last), 0)

    # --- records ---

    def append(self, records: Sequence[bytes]) -> int:
        """See durable.Store.  A connection that is closed is made again at once."""
        given = list(records)
        if not given:
            return self.last
        for is_again in (False, True):
            if self._is_away and not self.broken:
                self._come_back()
            found, self._found = self._found, []
            if found == given:
                return self.last
            try:
                return self._acknowledge(self._run(APPEND, self.last, *_sealed(given, self.last + 1)))
            except StoreAway as error:
                self._unknown = given
                if is_again or error.is_silent:
                    raise
        raise AssertionError

    def records(self) -> Iterator[Entry]:
        """All records after the last snapshot."""
        return self._read(self._keys[1], int(self._server.field(self._keys[0], "base") or 0), RECORDS_READ)

    def snapshot(self) -> Iterator[Entry]:
        """Yield the parts of the last snapshot, if any."""
        return self._read(self._keys[2], 0, PARTS_READ)

    def _read(self, key: str, before: int, step: int) -> Iterator[Entry]:
        start = 0
        while found := self._server.read(key, start, step):
            for number, data in enumerate(found, before + start + 1):
                payload = data[SEAL_BYTES:]
                if data[:SEAL_BYTES] != _seal(number, payload):
                    raise StoreDamaged(f"{self.address.text} {key} record {number}", 0, "its checksum is wrong")
                yield Entry(number, payload, f"{self.address.text} {key} record {number}")
            start += len(found)

    # --- snapshots ---

    def begin_snapshot(self) -> None:
        """See durable.Store."""
        self._coming = NO_SNAPSHOT
        if self._is_away and not self.broken:
            self._come_back()
        self._run(BEGIN, self.last)
        self._coming = 0

    def add_to_snapshot(self, part: bytes) -> None:
        """See durable.Store."""
        self._check_begun()
        self._run(ADD, *_sealed([part], self._coming + 1))
        self._coming += 1

    def end_snapshot(self) -> None:
        """See durable.Store."""
        self._check_begun()
        self._run(END)
        self._coming = NO_SNAPSHOT

    def _check_begun(self) -> None:
        """Refuse to go on with a snapshot whose connection was lost: the server has dropped it."""
        if self._is_away and not self.broken:
            self._come_back()
        if self._coming == NO_SNAPSHOT and not self.broken:
            place = self.address.text
            raise StoreFull(f"{place}: the connection was lost in the middle of a snapshot", "it was cut off", place)

    # --- pages ---

    def write_page(self, data: bytes) -> int:
        """See durable.Store."""
        return self._pages.write_page(data)

    def read_page(self, number: int) -> bytes:
        """See durable.Store."""
        return self._pages.read_page(number)

    def keep_pages(self, numbers: Iterable[int], newest: int) -> None:
        """See durable.Store."""
        self._pages.keep_pages(numbers, newest)

    def close(self) -> None:
        """Release the store for another process."""
        self._server.close()
        self._pages.close()
        if self._mark >= 0:
            os.close(self._mark)
            self._mark = -1


def _seal(number: int, payload: bytes) -> bytes:
    """Return the checksum of a record, or of a part, and its number."""
    return crc32(payload, number & 0xFFFFFFFF).to_bytes(SEAL_BYTES, "little")


def _sealed(payloads: Sequence[bytes], first: int) -> list[bytes]:
    return [_seal(number, payload) + payload for number, payload in enumerate(payloads, first)]
