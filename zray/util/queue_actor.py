"""QueueActor: the async actor that holds the items of a Queue.

An item that a consumer was given is *leased* until the consumer says that it was used.  A consumer that was killed says
nothing: its items go back to the front.  A lease is longer than any consumer may take until it uses an item, so no
item is used twice.

A consumer that is alone is given items *ahead*.  Another one that comes waits until they are used or given back, for
as long as it may wait: items that come back are before those behind them, for each consumer.  Producers find no room
in place of items ahead, which may come back; a bounded queue gives half of its size ahead at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

# A consumer waits so long at most in one call, and asks again.
WAIT_SECONDS = 2.0
# It uses items of a reply until so long after the longest wait.
HOLD_SECONDS = 2.0
# The actor gives them to others after so long, which is more than both together.
LEASE_SECONDS = 5.0
TIMER_SECONDS_MIN = 0.1
# A handle is alone if no other has called for so long.
ALONE_SECONDS = 0.1


class Company:
    """The callers: a single handle, or several in turn."""

    def __init__(self) -> None:
        self.last = b""
        self.other_at = -ALONE_SECONDS  # when another than the last one has called

    def is_alone(self, caller: bytes, now: float) -> bool:
        """Note a call, and tell whether no other handle has called for a while."""
        if caller != self.last:
            if self.last:
                self.other_at = now
            self.last = caller
        return now - self.other_at > ALONE_SECONDS


class QueueActor:
    """Items of one queue, waiting consumers and producers, and leases."""

    lease_seconds = LEASE_SECONDS

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.items: deque[Any] = deque()
        self.getters: deque[tuple[asyncio.Future[list[Any]], Any]] = deque()  # with the keys of their leases
        self.putters: deque[tuple[asyncio.Future[int], Any]] = deque()  # with their items
        self.leases: dict[Any, tuple[float, list[Any]]] = {}  # by consumer and number: until when, and unused items
        self.ahead: set[Any] = set()  # the leases of them whose items are used one by one
        self.is_timed = False  # _expire will be called
        self.unfinished = 0  # items put, less those of which task_done() was told
        self.joiners: list[asyncio.Future[None]] = []
        self.consumers, self.producers = Company(), Company()
        self.loop = asyncio.get_running_loop()

    # --- put ---

    def has_room(self, count: int) -> bool:
        """Whether so many further items fit."""
        return self.maxsize <= 0 or self._room() >= count

    def _room(self) -> int:
        """Room for further items in a queue with a bound.  Items ahead of a consumer count: they may come back."""
        return self.maxsize - len(self.items) - sum(len(self.leases[key][1]) for key in self.ahead)

    def put_now(self, item: Any) -> None:
        """Add an item, whatever the size."""
        self.unfinished += 1
        self._add(item)

    def _add(self, item: Any) -> None:
        self.items.append(item)
        if self.getters:
            self._serve()

    async def put(self, producer: bytes, item: Any, timeout: float | None) -> int:
        """Add an item as soon as the queue has room.

        Args:
            producer: id of the handle that puts.
            item: any value.
            timeout: seconds; None waits without limit.

        Returns:
            Number of further items that surely have room, since the producer is alone; 0 if it is not, and -1 if
            there was no room until the timeout.
        """
        if self.has_room(1):
            self.put_now(item)
            return self._room() if self.producers.is_alone(producer, self.loop.time()) else 0
        if timeout is not None and timeout <= 0:
            return -1
        waiting: asyncio.Future[int] = self.loop.create_future()
        self.putters.append((waiting, item))
        if timeout is not None:
            self.loop.call_later(timeout, _settle, waiting, -1)
        return await waiting

    def put_batch(self, producer: bytes, items: list[Any]) -> int | None:
        """Add all items, if they fit; otherwise return the number of items in the queue."""
        self.producers.is_alone(producer, self.loop.time())
        if not self.has_room(len(items)):
            return len(self.items)
        for item in items:
            self.put_now(item)
        return None

    def _admit(self) -> None:
        """Let waiting producers in, as far as there is room."""
        while self.putters and self.has_room(1):
            waiting, item = self.putters.popleft()
            if not waiting.done():
                waiting.set_result(0)
                self.put_now(item)

    # --- get ---

    async def get(self, consumer: bytes, number: int, timeout: float, wanted: int) -> list[Any]:
        """Lease the first item, or several to a consumer that is alone.  Returns none after the timeout, in seconds."""
        if self.items and (timeout <= 0 or self._is_next(consumer)):
            count = min(self._most_ahead(wanted), len(self.items)) if self._may_have(consumer, wanted) else 1
            key = (consumer, number)
            items = self._lease(key, [self.items.popleft() for _ in range(count)])
            if count > 1:
                self.ahead.add(key)
            if self.putters:
                self._admit()
            return items
        if timeout <= 0:
            return []
        waiting: asyncio.Future[list[Any]] = self.loop.create_future()
        self.getters.append((waiting, (consumer, number)))
        end = self.loop.call_later(timeout, self._end_wait, waiting, (consumer, number))
        found = await waiting
        end.cancel()
        return found

    def _is_next(self, consumer: bytes) -> bool:
        """Whether no other consumer has asked before, or has items ahead."""
        while self.getters and self.getters[0][0].done():
            self.getters.popleft()
        return not self.getters and not self._is_behind(consumer)

    def _is_behind(self, consumer: bytes) -> bool:
        return any(holder != consumer for holder, _ in self.ahead)

    def _serve(self) -> None:
        """Give items to waiting consumers, in the order of their calls."""
        while self.items and self.getters:
            waiting, key = self.getters[0]
            if not waiting.done():
                if self._is_behind(key[0]):
                    return
                waiting.set_result(self._lease(key, [self.items.popleft()]))
            self.getters.popleft()

    def _end_wait(self, waiting: asyncio.Future[list[Any]], key: Any) -> None:
        """A consumer waits no longer, for items ahead of another one either."""
        if not waiting.done():
            waiting.set_result(self._lease(key, [self.items.popleft()]) if self.items else [])
            self._admit()

    def get_batch(self, consumer: bytes, number: int, count: int) -> tuple[int, list[Any]]:
        """Lease `count` items, or none if fewer exist.  Returns the number of items before, and the items."""
        size = len(self.items)
        if size < count:
            return size, []
        items = [self.items.popleft() for _ in range(count)]
        self._admit()
        return size, self._lease((consumer, number), items)

    def _most_ahead(self, wanted: int) -> int:
        return wanted if self.maxsize <= 0 else min(wanted, max(1, self.maxsize // 2))

    def _may_have(self, consumer: bytes, wanted: int) -> bool:
        return self.consumers.is_alone(consumer, self.loop.time()) and wanted > 1

    # --- leases ---

    def _lease(self, key: Any, items: list[Any]) -> list[Any]:
        if not self.is_timed:
            self.is_timed = True
            self.loop.call_later(self.lease_seconds, self._expire)
        self.leases[key] = (self.loop.time() + self.lease_seconds, items)
        return items

    def used(self, consumer: bytes, number: int, count: int, is_over: bool) -> None:
        """Take note of used items of a lease.

        Args:
            consumer, number: the lease.
            count: how many were used since the last such note, from the front.
            is_over: the consumer gives the others back.
        """
        key = (consumer, number)
        _, items = self.leases.pop(key, (0.0, []))
        rest = items[count:]
        if rest and not is_over:
            self.leases[key] = (self.loop.time() + self.lease_seconds, rest)
        else:
            self._give_back(key, rest)
        if self.putters:
            self._admit()

    def _give_back(self, key: Any, items: list[Any]) -> None:
        """A lease ends, and the items go back to the front."""
        self.ahead.discard(key)
        self.items.extendleft(reversed(items))
        if self.getters:
            self._serve()
            self._admit()

    def _expire(self) -> None:
        """Take items back from consumers that have said nothing for long."""
        now = self.loop.time()
        late = [key for key, (until, _) in self.leases.items() if until <= now]
        for key in reversed(late):
            self._give_back(key, self.leases.pop(key)[1])
        self.is_timed = bool(self.leases)
        if self.is_timed:
            first = min(until for until, _ in self.leases.values())
            self.loop.call_later(max(TIMER_SECONDS_MIN, first - now), self._expire)

    # --- the rest ---

    def qsize(self) -> int:
        """Number of items that no consumer has."""
        return len(self.items)

    def task_done(self) -> bool:
        """Count an item as finished.  Returns False if there are no others."""
        if not self.unfinished:
            return False
        self.unfinished -= 1
        if not self.unfinished:
            for waiting in self.joiners:
                _settle(waiting, None)
            self.joiners.clear()
        return True

    async def join(self) -> None:
        """Wait until all items are finished."""
        if self.unfinished:
            waiting: asyncio.Future[None] = self.loop.create_future()
            self.joiners.append(waiting)
            await waiting


def _settle(waiting: asyncio.Future[Any], value: Any) -> None:
    if not waiting.done():
        waiting.set_result(value)
