"""The log of a replica that this process hosts: recovery before its first turn, then its orders, in a thread.

    log = ShardLog(folder, member, reactor.deliver_from_thread)      recovers; raises StoreLocked, StoreDamaged
    effects: ORDERS of that member -> log.perform
    member.start()

A thread of its own: an fsync stalls neither the reactor nor what else is slow.  Where nothing waits for the disk,
orders are carried out at once: that costs less than to wake a thread, and a thread beside one that computes gets no
further than a system call in each switch interval (5 ms), so that specs would leave a busy replica's memory more slowly
than they come.  Orders are carried out in the order in which they were given.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..roles.effects import (
    AppendToLog,
    LogAppended,
    LogBroken,
    LogRefused,
    PageLost,
    PageRead,
    PageRefused,
    PageWritten,
    ReadPage,
    SaveSnapshot,
    WritePage,
)
from ..roles.gcs.chain import ChainMember
from ..store.durable import Entry, Store, StoreBroken, StoreDamaged, StoreError, StoreFull
from ..store.log import Log

Order = AppendToLog | SaveSnapshot | WritePage | ReadPage
ORDERS = (AppendToLog, SaveSnapshot, WritePage, ReadPage)


class ShardLog:
    """Of one member.  folder: where it lies; deliver: gives a message to a role, from any thread."""

    def __init__(
        self,
        folder: str,
        member: ChainMember,
        deliver: Callable[[str, Any], None],
        open_store: Callable[..., Store] = Log,
        *,
        is_lasting: bool = True,
    ) -> None:
        """is_lasting: as in Log.

        Raises:
        StoreLocked, StoreDamaged: with the place; PermissionError.
        """
        self.member = member.address
        self._deliver = deliver
        self._store = open_store(folder, is_lasting=is_lasting)
        self._is_lasting = is_lasting
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last_place = folder
        try:
            member.recover(self._payloads(self._store.snapshot()), self._payloads(self._store.records()))
        except ValueError as error:
            self._store.close()
            # The checksums are right: somebody has written what no shard writes.
            file, _, offset = self._last_place.rpartition(" at byte ")
            raise StoreDamaged(file or folder, int(offset or 0), str(error)) from error
        except BaseException:
            self._store.close()
            raise

    def _payloads(self, entries: Iterator[Entry]) -> Iterator[bytes]:
        for entry in entries:
            self._last_place = entry.place
            yield entry.payload

    def perform(self, role: str, order: Order) -> None:
        """One of ORDERS."""
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
        if type(order) is ReadPage:
            try:
                return PageRead(order.page, self._store.read_page(order.page))
            except StoreError as error:
                return PageLost(order.page, str(error))
        try:
            if type(order) is WritePage:
                return PageWritten(order.token, self._store.write_page(order.data))
            if type(order) is AppendToLog:
                self._store.append(order.records)
            elif type(order) is SaveSnapshot:
                if order.number == 1:
                    self._store.begin_snapshot()
                self._store.add_to_snapshot(order.part)
                if order.is_last:
                    self._store.end_snapshot()
                    self._store.keep_pages(order.pages, order.newest_page)
        except StoreFull as error:
            kind = PageRefused if type(order) is WritePage else LogRefused
            return kind(order.token, str(error))  # type: ignore[union-attr]
        except StoreBroken as error:
            return LogBroken(str(error))
        return LogAppended(order.token)  # type: ignore[union-attr]

    def close(self) -> None:
        """What has been ordered is carried out first."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join()
        self._store.close()
