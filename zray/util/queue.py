"""Queue: items for any number of producers and consumers, on all nodes of the cluster.

    queue = Queue(maxsize=100)
    producers = [produce.remote(queue, part) for part in parts]
    while True:
        consume(queue.get(timeout=60))

An actor holds the items (`queue_actor.py`).  Small items are fast for two reasons.  A put that follows another at once,
and surely has room, does not wait for the actor.  A consumer that asks again at once, and is alone, gets some items
ahead (`queue_ahead.py`).
"""

from __future__ import annotations

import queue as python_queue
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from ..api import actors, objects
from ..api.decorator import remote
from ..options.checks import check_timeout
from .queue_actor import WAIT_SECONDS, QueueActor
from .queue_ahead import Ahead

__all__ = ["Empty", "Full", "Queue"]

# Calls at a time: each blocked consumer or producer is one.
CALLS_MAX = 100_000
# Puts that were sent and not acknowledged, at most.
UNACKNOWLEDGED_MAX = 256
# A put waits for its acknowledgement unless the one before was so short a time ago.
QUICK_SECONDS = 0.005
# Texts and containers above this are not small.
SMALL_LENGTH = 1_000
SMALL_COUNT = 20
SCALARS = frozenset({int, float, bool, type(None)})


class Empty(python_queue.Empty):
    """Error of a get from an empty queue."""


class Full(python_queue.Full):
    """Error of a put into a full queue."""


class Queue:
    """First-in, first-out queue, whose handle may be passed to tasks and actors.

        queue = Queue(maxsize=10)
        queue.put(1)
        print(queue.get(timeout=5))

    An item whose consumer is killed before `get` returns goes to another one, some seconds later.  So may an item
    whose consumer is killed within milliseconds after that.

    Args:
        maxsize: number of items at most; 0: no limit.  Default: 0.
        actor_options: options of the actor that holds the items, as {"num_cpus": 1, "name": "jobs"}.  Default: none.
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        options = {"max_concurrency": CALLS_MAX, "num_cpus": 0, **(actor_options or {})}
        self._begin(maxsize, remote(**options)(QueueActor).remote(maxsize), options.get("lifetime") == "detached")

    def _begin(self, maxsize: int, actor: Any, is_detached: bool) -> None:
        self.maxsize = maxsize
        self.actor = actor
        self._is_detached = is_detached
        self._ahead = Ahead(actor)
        self._unacknowledged: deque[Any] = deque()
        self._put_at = 0.0
        self._room = 0  # items that surely have room

    def __reduce__(self) -> Any:
        return _handle, (type(self), self.maxsize, self._require_actor(), self._is_detached)

    def _require_actor(self) -> Any:
        if self.actor is None:
            raise RuntimeError("The queue has been shut down: it takes no further calls.")
        return self.actor

    # --- sizes ---

    def __len__(self) -> int:
        return self.qsize()

    def size(self) -> int:
        """Number of items in the queue."""
        return self.qsize()

    def qsize(self) -> int:
        """Number of items in the queue."""
        found: int = objects.get(self._require_actor().qsize.remote())
        return found + self._ahead.count

    def empty(self) -> bool:
        """Whether the queue has no items."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether the queue has as many items as it may."""
        return 0 < self.maxsize <= self.qsize()

    # --- put ---

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item at the end.

        Args:
            item: any value.  A ref stands for its value.
            block: wait while the queue is full.  Default: True.
            timeout: seconds to wait at most; None: no limit.

        Raises:
            Full: the queue is full, and was so until the timeout.
            ValueError: the timeout is negative.
        """
        _check(timeout)
        actor = self._require_actor()
        now = time.monotonic()
        is_quick = now - self._put_at <= QUICK_SECONDS and not self._is_detached and _is_small(item)
        if self.maxsize > 0:
            if is_quick and self._room > 0:
                self._room -= 1
                self._note(actor.put.remote(self._ahead.consumer, item, None))
            else:
                self._settle()
                self._require_room(objects.get(actor.put.remote(self._ahead.consumer, item, timeout if block else 0.0)))
        elif is_quick:
            self._note(actor.put_now.remote(item))
        else:
            objects.get(actor.put_now.remote(item))
        self._put_at = time.monotonic()

    def _note(self, ref: Any) -> None:
        """Remember an unawaited put; wait for some of them if they are many."""
        self._unacknowledged.append(ref)
        if len(self._unacknowledged) >= UNACKNOWLEDGED_MAX:
            objects.get([self._unacknowledged.popleft() for _ in range(UNACKNOWLEDGED_MAX // 2)])

    def _settle(self) -> None:
        """Wait for all puts that were not waited for."""
        waiting, self._unacknowledged = self._unacknowledged, deque()
        if waiting:
            objects.get(list(waiting))

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item at the end, in asyncio.

        Args:
            item, block, timeout: as for put.

        Raises:
            Full: the queue is full, and was so until the timeout.
        """
        _check(timeout)
        actor = self._require_actor()
        if self.maxsize > 0:
            self._require_room(await actor.put.remote(self._ahead.consumer, item, timeout if block else 0.0))
        else:
            await actor.put_now.remote(item)

    def _require_room(self, room: int) -> None:
        """Take note of the actor's reply: for how many further items there is room."""
        self._room = room
        if room < 0:
            raise Full(f"The queue has {self.maxsize} items, as many as it may.")

    def put_nowait(self, item: Any) -> None:
        """Add an item at the end, without waiting for room.

        Raises:
            Full: the queue is full.
        """
        self.put(item, block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add several items at the end, in one message: all of them, or none.

        Args:
            items: any iterable.

        Raises:
            Full: the queue has no room for all.
            TypeError: items is no iterable.
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"items must be an iterable, not {type(items).__name__}.")
        batch = list(items)
        size = objects.get(self._require_actor().put_batch.remote(self._ahead.consumer, batch))
        self._room = 0
        if size is not None:
            raise Full(f"Cannot add {len(batch)} items: the queue has {size}, and may have {self.maxsize}.")

    # --- get ---

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item.

        Args:
            block: wait while the queue is empty.  Default: True.
            timeout: seconds to wait at most; None: no limit.

        Raises:
            Empty: the queue is empty, and was so until the timeout.
            ValueError: the timeout is negative.
        """
        _check(timeout)
        actor, ahead = self._require_actor(), self._ahead
        if ahead.count:
            items = ahead.use()
            if items:
                return items[0]
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            asked_at = time.monotonic()
            wait, is_last = _part_of(block, deadline, asked_at)
            number, wanted = ahead.ask(asked_at)
            items = objects.get(actor.get.remote(ahead.consumer, number, wait, wanted))
            if items and ahead.take(number, items, asked_at + wait):
                return items[0]
            if is_last and not items:
                raise Empty("The queue is empty.")

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item, in asyncio.

        Args:
            block, timeout: as for get.

        Raises:
            Empty: the queue is empty, and was so until the timeout.
        """
        _check(timeout)
        actor, ahead = self._require_actor(), self._ahead
        items = ahead.use() if ahead.count else []
        if items:
            return items[0]
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            asked_at = time.monotonic()
            wait, is_last = _part_of(block, deadline, asked_at)
            number = ahead.next_number()
            items = await actor.get.remote(ahead.consumer, number, wait, 1)
            if items and ahead.take(number, items, asked_at + wait):
                return items[0]
            if is_last and not items:
                raise Empty("The queue is empty.")

    def get_nowait(self) -> Any:
        """Take the first item, without waiting for one.

        Raises:
            Empty: the queue is empty.
        """
        return self.get(block=False)

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Take several items in one message: so many, or none.

        Args:
            num_items: number of items.

        Raises:
            Empty: the queue has fewer items.
            TypeError: num_items is no int.
            ValueError: num_items is negative.
        """
        if isinstance(num_items, bool) or not isinstance(num_items, int):
            raise TypeError(f"num_items must be an int, not {type(num_items).__name__}.")
        if num_items < 0:
            raise ValueError(f"num_items must not be negative, but is {num_items}.")
        actor, ahead = self._require_actor(), self._ahead
        ahead.give_back()
        while True:
            number, asked_at = ahead.next_number(), time.monotonic()
            size, items = objects.get(actor.get_batch.remote(ahead.consumer, number, num_items))
            if size < num_items:
                raise Empty(f"Cannot take {num_items} items: the queue has {size}.")
            if not items or ahead.take(number, items, asked_at, is_batch=True):
                return list(items)

    # --- the end ---

    def shutdown(self, force: bool = False, grace_period_s: int = 5) -> None:
        """End the actor that holds the items.  Further calls fail, here and elsewhere.

        Args:
            force: end the actor at once, in the middle of calls.  Default: False.
            grace_period_s: seconds that the actor has to finish calls.  Default: 5.
        """
        actor, self.actor = self.actor, None
        if actor is None:
            return
        if not force:
            ended, _ = objects.wait([actor.__ray_terminate__.remote()], timeout=grace_period_s)
            if ended:
                return
        actors.kill(actor)


def _handle(kind: type[Queue], maxsize: int, actor: Any, is_detached: bool) -> Queue:
    queue = kind.__new__(kind)
    queue._begin(maxsize, actor, is_detached)
    return queue


def _check(timeout: float | None) -> None:
    if timeout is not None:
        check_timeout(timeout)


def _part_of(block: bool, deadline: float | None, now: float) -> tuple[float, bool]:
    """Return the seconds to wait in the next call, and whether the call is the last."""
    if not block:
        return 0.0, True
    left = WAIT_SECONDS if deadline is None else max(0.0, deadline - now)
    return min(left, WAIT_SECONDS), deadline is not None and left <= WAIT_SECONDS


def _is_small(item: Any, *, may_contain: bool = True) -> bool:
    """Whether an item surely travels in a short message, by itself."""
    kind = type(item)
    if kind in SCALARS:
        return kind is not int or item.bit_length() <= SMALL_LENGTH
    if kind is str or kind is bytes:
        return len(item) <= SMALL_LENGTH
    if not may_contain or kind not in (tuple, list, dict) or len(item) > SMALL_COUNT:
        return False
    parts = [*item, *item.values()] if kind is dict else item
    return all(_is_small(part, may_contain=False) for part in parts)
