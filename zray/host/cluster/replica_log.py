"""The log of a replica in this process: recovery before its first turn, then its orders, in a thread.

    log = ShardLog(folder, member, reactor.deliver_from_thread)      recovers; raises StoreLocked, StoreDamaged
    effects: ORDERS of that member -> log.perform
    member.start()

The log has its own thread, so that an fsync does not stall the reactor.  If nothing waits for the disk, orders are
carried out at once.  Waking a thread costs more, and a thread beside a computing thread makes one system call per
switch interval (5 ms).  Specs would leave a busy replica's memory more slowly than new specs arrive.  Orders are
carried out in the order in which they were given.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ...roles import effects
from ...roles.gcs.chain import ChainMember
from ...store.durable import Entry, Store, StoreBroken, StoreDamaged, StoreError, StoreFull
from ...store.log import Log

Order = effects.AppendToLog | effects.SaveSnapshot | effects.WritePage | effects.ReadPage
ORDERS = (effects.AppendToLog, effects.SaveSnapshot, effects.WritePage, effects.ReadPage)

# A full disk is tried again each second, perhaps for days: log the first refusal, and repeat it no more often.
SAID_AGAIN_SECONDS = 60.0
# Each order that a full disk refuses, and the consequence.
_REFUSED: dict[type, tuple[str, str]] = {
    effects.AppendToLog: (
        "write its log",
        "tasks and actors wait until {until} the shard continues by itself",
    ),
    effects.SaveSnapshot: ("save its state", "its log goes on growing meanwhile"),
    effects.WritePage: ("put records of tasks", "they stay in memory, and tasks wait when they are too many there"),
}


class Refusals:
    """Log lines about orders refused by a full disk: at the first refusal, repeatedly after that, and at recovery."""

    def __init__(self, shard: str, folder: str, log: Callable[[str], None]) -> None:
        self.name = f"GCS shard {shard.rpartition('-')[2]}"
        self.folder = self.place = folder
        self.log = log
        self.since: dict[type, float] = {}  # orders refused at present
        self.said_at: dict[type, float] = {}
        self.said: set[type] = set()  # refused orders that were logged: membership only

    def refused(self, kind: type, refusal: StoreFull) -> None:
        """Note that an order of this kind was refused."""
        self.place = refusal.place or self.folder
        now = time.monotonic()
        self.since.setdefault(kind, now)
        if now - self.said_at.get(kind, -SAID_AGAIN_SECONDS) >= SAID_AGAIN_SECONDS:
            self.said_at[kind] = now
            self.said.add(kind)
            what, then = _REFUSED[kind]
            then = then.format(until=refusal.until)
            self.log(f"{self.name} cannot {what} in {self.place}: {refusal.why}; {then}")

    def taken(self, kind: type) -> None:
        """Note that an order of this kind was accepted."""
        if kind not in self.since:
            return
        seconds = time.monotonic() - self.since.pop(kind)
        if kind in self.said:
            self.said.remove(kind)
            self.log(f"{self.name} can {_REFUSED[kind][0]} in {self.place} again, after {seconds:.0f} s")


class ShardLog:
    """The log of one member. folder: its place; deliver: gives a message to a role, from any thread; log: takes a line,
    from any thread.
    """

    def __init__(
        self,
        folder: str,
        member: ChainMember,
        deliver: Callable[[str, Any], None],
        open_store: Callable[..., Store] = Log,
        *,
        is_lasting: bool = True,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        """is_lasting: as in Log.

        Raises:
        StoreLocked, StoreDamaged: with the place; PermissionError.
        """
        self.member = member.address
        self._deliver = deliver
        self._store = open_store(folder, is_lasting=is_lasting)
        self._is_lasting = is_lasting
        self._folder = folder
        self._refusals = Refusals(member.shard, folder, log)
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last_place = folder
        try:
            member.recover(self._payloads(self._store.snapshot()), self._payloads(self._store.records()))
        except ValueError as error:
            self._store.close()
            # The checksums are right, so the record was written by another program.
            file, separator, offset = self._last_place.rpartition(" at byte ")
            if not separator:
                raise StoreDamaged(self._last_place, 0, str(error)) from error
            raise StoreDamaged(file, int(offset), str(error)) from error
        except BaseException:
            self._store.close()
            raise

    def _payloads(self, entries: Iterator[Entry]) -> Iterator[bytes]:
        for entry in entries:
            self._last_place = entry.place
            yield entry.payload

    def perform(self, role: str, order: Order) -> None:
        """Carry out one of ORDERS."""
        assert role == self.member
        if not self._is_lasting:
            self._deliver(self.member, self._carry_out(order))
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="zray-log", daemon=True)
            self._thread.start()
        self._orders.put(order)

    def _run(self) -> None:
        while True:
            order = self._orders.get()
            if order is None:
                return
            self._deliver(self.member, self._carry_out(order))

    def _carry_out(self, order: Order) -> Any:
        if type(order) is effects.ReadPage:
            try:
                return effects.PageRead(order.page, self._store.read_page(order.page))
            except StoreError as error:
                return effects.PageLost(order.page, str(error))
        try:
            if type(order) is effects.WritePage:
                page = self._store.write_page(order.data)
                self._refusals.taken(effects.WritePage)
                return effects.PageWritten(order.token, page)
            if type(order) is effects.AppendToLog:
                self._store.append(order.records)
            elif type(order) is effects.SaveSnapshot:
                if order.number == 1:
                    self._store.begin_snapshot()
                self._store.add_to_snapshot(order.part)
                if order.is_last:
                    self._store.end_snapshot()
                    self._store.keep_pages(order.pages, order.newest_page)
        except StoreFull as error:
            self._refusals.refused(type(order), error)
            kind = effects.PageRefused if type(order) is effects.WritePage else effects.LogRefused
            return kind(order.token, f"{error.why} ({error.place or self._folder})")  # type: ignore[union-attr]
        except StoreBroken as error:
            return effects.LogBroken(str(error))
        self._refusals.taken(type(order))
        return effects.LogAppended(order.token)  # type: ignore[union-attr]

    def close(self) -> None:
        """Finish the pending orders, then close."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join()
        self._store.close()
