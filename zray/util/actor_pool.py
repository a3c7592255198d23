"""ActorPool: values given to actors as these become free.

    pool = ActorPool([Worker.remote() for _ in range(4)])
    for result in pool.map(lambda actor, value: actor.work.remote(value), values):
        print(result)

`submit` gives an actor one call at a time.  `map` gives an actor several when calls are short, so that the actor need
not wait for this process between two calls.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import Any

from ..api import objects
from ..api.actor_handle import ActorHandle, ActorProxy
from .pace import Pace

__all__ = ["ActorPool"]

# map() fetches so many results at a time at most.
RESULTS_MAX = 256
# map() waits at most so long for a group of results when the next one may be there.
GROUP_SECONDS = 0.01


class ActorPool:
    """Pool of actors: values wait until an actor is free, and results come in order or as they are ready.

        pool = ActorPool([Worker.remote() for _ in range(4)])
        squares = list(pool.map(lambda actor, value: actor.square.remote(value), range(100)))

    Args:
        actors: handles of actors.
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._actors: list[Any] = list(actors)
        self._slots: deque[Any] = deque(self._actors)  # an actor as often as it may be given a call
        self._pace = Pace(len(self._actors))
        self._lively: set[int] = set()  # by id(), actors that have ended a call since the slots were counted
        self._calls: dict[Any, Any] = {}  # actor by first ref of a call that is not known to have ended
        self._ended: dict[Any, None] = {}  # first refs of calls that have, whose results nobody has fetched
        self._values: deque[Any] = deque()  # results of older calls than these, which map() has fetched ahead
        self._lists: dict[Any, list[Any]] = {}  # all refs of a call with several results, by first ref
        self._order: deque[Any] = deque()  # keys of _calls and _ended, oldest first, and some that were fetched
        self._begun = 0  # number of calls
        self._pending: deque[tuple[Callable[[Any, Any], Any], Any]] = deque()
        self._source: Iterator[Any] | None = None  # values of map() that no actor has been given
        self._function: Callable[[Any, Any], Any] = lambda actor, value: None

    # --- results of many values ---

    def map(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """Call `fn(actor, value)` for each value, and iterate over results in the order of the values.

            list(pool.map(lambda actor, value: actor.double.remote(value), range(100)))

        The first calls begin at once.  Values are drawn as results are fetched, so they may be endless.
        Results of earlier calls that nobody has fetched are dropped.

        Args:
            fn: function of an actor and a value that calls the actor and returns the ref.
            values: any iterable.

        Raises:
            TaskError: a call raised, in place of its result.
        """
        return self._map(fn, values, self._next_in_order)

    def map_unordered(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """Call `fn(actor, value)` for each value, and iterate over results as they become ready.

        Args:
            fn: function of an actor and a value that calls the actor and returns the ref.
            values: any iterable.

        Raises:
            TaskError: a call raised, in place of its result.
        """
        return self._map(fn, values, self._next_ready)

    def _map(
        self, fn: Callable[[Any, Any], Any], values: Iterable[Any], find: Callable[[], list[Any]]
    ) -> Iterator[Any]:
        source = iter(values)
        if not self._actors:
            raise ValueError("The pool has no actors: push() one first.")
        self._drop_results()
        self._function, self._source = fn, source
        self._begin_anew()
        self._fill()
        return self._results(find)

    def _results(self, find: Callable[[], list[Any]]) -> Iterator[Any]:
        """Yield results of ended calls, many at a time; each is fetched for good when yielded."""
        values, ended, lists, order = self._values, self._ended, self._lists, self._order
        try:
            while values or ended or self._calls or self.has_next():
                if values or self._fetch_group():
                    while values:
                        yield values.popleft()
                    continue
                for ref in find():
                    if ref not in ended:
                        break  # the consumer has fetched it otherwise
                    del ended[ref]
                    if order and order[0] is ref:
                        order.popleft()
                    yield objects.get(lists.pop(ref, ref))
        finally:
            self._begin_anew()

    def _fetch_group(self) -> bool:
        """Fetch results of the oldest calls into _values, if the calls are short, end soon and do not raise.

        One get() for many calls costs less than a wait() and the bookkeeping of each.
        """
        calls, order = self._calls, self._order
        if self._pace.depth == 1 or self._ended or self._lists or not calls:
            return False
        group = list(islice(calls, min(RESULTS_MAX, len(calls) // 2 + 1)))
        try:
            self._values.extend(objects.get(group, timeout=GROUP_SECONDS))
        except Exception:
            return False  # an error, or a late call: each in its turn
        self._take_slots_of(group)
        if len(order) == len(calls) + len(group):
            for _ in group:
                order.popleft()
        else:
            self._forget_fetched()
        self._fill()
        return True

    def _drop_results(self) -> None:
        """Forget all earlier calls: pending ones do not run, and actors are free, as after an ignored timeout."""
        self._source = None
        for forgotten in (self._pending, self._values, self._calls, self._ended, self._lists, self._order):
            forgotten.clear()  # type: ignore[attr-defined]

    # --- single calls ---

    def submit(self, fn: Callable[[Any, Any], Any], value: Any) -> None:
        """Call `fn(actor, value)` as soon as an actor is free.  Returns at once.

        Args:
            fn: function of an actor and a value that calls the actor and returns the ref.
            value: any value.
        """
        self._pending.append((fn, value))
        self._fill()

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the oldest result that nobody has fetched.

        Args:
            timeout: seconds; None waits without limit.
            ignore_if_timedout: after the timeout, drop the result, and free the actor for another call.

        Raises:
            StopIteration: there are no more results.
            TimeoutError: the result is not ready in time.
            TaskError: the call raised.
        """
        self._require_next()
        if self._values:
            return self._values.popleft()
        order = self._order
        while order[0] not in self._calls and order[0] not in self._ended:
            order.popleft()
        ref = order[0]
        if ref not in self._ended:
            self._wait_for(ref, timeout)
        if ref not in self._ended:
            if ignore_if_timedout:
                order.popleft()
                self._free(self._calls.pop(ref))
                self._lists.pop(ref, None)
                self._fill()
                raise TimeoutError(f"The result was not ready after {timeout:g} s, and {ref} is ignored from now on.")
            raise TimeoutError(f"The result was not ready after {timeout:g} s.  Call get_next() again to wait further.")
        order.popleft()
        del self._ended[ref]
        return objects.get(self._lists.pop(ref, ref))

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return a result that is ready, whichever call it is of.

        Args:
            timeout: seconds; None waits without limit.
            ignore_if_timedout: accepted for symmetry with get_next; there is no single result to ignore.

        Raises:
            StopIteration: there are no more results.
            TimeoutError: no result is ready in time.
            TaskError: the call raised.
        """
        self._require_next()
        if self._values:
            return self._values.popleft()
        if not self._ended:
            self._note_ended(timeout)
        if not self._ended:
            raise TimeoutError(f"No result was ready after {timeout:g} s.")
        ref = next(iter(self._ended))
        del self._ended[ref]
        self._trim_order()
        return objects.get(self._lists.pop(ref, ref))

    def has_next(self) -> bool:
        """Whether unfetched results exist."""
        if not self._calls and not self._ended:
            self._fill()  # the values of map() may be over
        return bool(self._values or self._calls or self._ended or self._pending)

    def _require_next(self) -> None:
        if not self.has_next():
            raise StopIteration("There are no more results: every value has been fetched.")
        if not self._values and not self._calls and not self._ended:
            raise ValueError("The pool has no actors: push() one, since values wait for it.")

    # --- actors ---

    def has_free(self) -> bool:
        """Whether an actor is free, and no value waits."""
        return not self._pending and len(set(self._calls.values())) < len(self._actors)

    def pop_idle(self) -> Any:
        """Take a free actor out of the pool, and return it.  None if all actors are busy."""
        if not self.has_free():
            return None
        busy = set(self._calls.values())
        actor = next(actor for actor in self._actors if actor not in busy)
        self._actors.remove(actor)
        self._slots = deque(other for other in self._slots if other != actor)
        self._pace.workers = len(self._actors)
        return actor

    def push(self, actor: ActorHandle[Any] | ActorProxy[Any]) -> None:
        """Add an actor to the pool.

        Raises:
            ValueError: the pool has the actor already.
        """
        if actor in self._actors:
            raise ValueError(f"The pool has {actor!r} already.")
        self._actors.append(actor)
        self._pace.workers = len(self._actors)
        self._slots.extend([actor] * self._pace.depth)
        self._fill()

    # --- the names by which libraries written for Ray look into a pool ---

    @property
    def _idle_actors(self) -> list[Any]:
        """Actors without a call."""
        busy = set(self._calls.values())
        return [actor for actor in self._actors if actor not in busy]

    @property
    def _future_to_actor(self) -> dict[Any, tuple[int, Any]]:
        """Index and actor of each call that runs, by ref."""
        found = self._index_to_future.items()
        return {ref: (index, self._calls[ref]) for index, ref in found if ref in self._calls}

    @property
    def _index_to_future(self) -> dict[int, Any]:
        """Return refs of calls with unfetched results, by their number in the order of submission."""
        first = self._begun - len(self._order)
        known = enumerate(self._order, first)
        return {index: ref for index, ref in known if ref in self._calls or ref in self._ended}

    @property
    def _next_task_index(self) -> int:
        """Number of calls that have begun."""
        return self._begun

    @property
    def _pending_submits(self) -> list[tuple[Callable[[Any, Any], Any], Any]]:
        """Functions and values that wait for an actor."""
        return list(self._pending)

    # --- the flow of calls ---

    def _fill(self) -> None:
        """Begin calls: what was submitted first, then values of map(), as far as unfetched results are few."""
        slots, pending = self._slots, self._pending
        while slots and pending:
            function, value = pending.popleft()
            self._begin(function, value)
        source = self._source
        if source is None:
            return
        function, calls, order, pop = self._function, self._calls, self._order, slots.popleft
        room = min(len(slots), 2 * self._pace.in_all - len(calls) - len(self._ended) - len(self._values))
        before = len(order)
        try:
            for _ in range(room):
                try:
                    value = next(source)
                except BaseException as error:
                    self._source = None
                    if isinstance(error, StopIteration):
                        return
                    raise
                actor = pop()
                try:
                    ref = function(actor, value)
                except BaseException:
                    slots.append(actor)
                    raise
                if type(ref) is list:
                    ref = self._first_of(ref)
                calls[ref] = actor
                order.append(ref)
        finally:
            self._begun += len(order) - before

    def _begin(self, function: Callable[[Any, Any], Any], value: Any) -> None:
        actor = self._slots.popleft()
        try:
            ref = function(actor, value)
        except BaseException:
            self._slots.append(actor)
            raise
        if type(ref) is list:
            ref = self._first_of(ref)
        self._calls[ref] = actor
        self._order.append(ref)
        self._begun += 1

    def _first_of(self, refs: list[Any]) -> Any:
        self._lists[refs[0]] = refs
        return refs[0]

    def _free(self, actor: Any) -> None:
        """Give the actor's slot back, unless the actor has a surplus slot by now."""
        if actor in self._actors and self._slots.count(actor) < self._pace.depth:
            self._slots.append(actor)

    def _begin_anew(self) -> None:
        """Begin anew, with one call at a time for each actor."""
        self._pace.begin()
        self._adjust_slots()

    def _adjust_slots(self) -> None:
        """Adjust each actor's slots, free and taken, to the number given by the pace.

        An actor that runs a long call gets no further ones, however short those of the others are.
        """
        depth, lively = self._pace.depth, self._lively
        if len(self._slots) + len(self._calls) == depth * len(self._actors):
            lively.clear()
            return  # each actor has its share: nothing has changed
        taken: dict[Any, int] = dict.fromkeys(self._actors, 0)
        for actor in self._calls.values():
            if actor in taken:
                taken[actor] += 1
        free = [(actor, depth - count) for actor, count in taken.items() if not count or id(actor) in lively]
        lively.clear()
        self._slots.clear()
        for turn in range(depth):  # in turn: equal shares
            self._slots.extend([actor for actor, count in free if count > turn])

    def _note_ended(self, timeout: float | None) -> None:
        """Wait for any call, note all ended calls, and begin others in their place."""
        flying = list(self._calls)
        if self._pace.depth == 1:
            ready, _ = objects.wait(flying, num_returns=1, timeout=timeout)
            if ready:
                ready, _ = objects.wait(flying, num_returns=len(flying), timeout=0)
        else:
            ready = self._ready_group(flying, timeout)
        if not ready:
            return
        self._take_slots_of(ready)
        self._ended.update(dict.fromkeys(ready))
        self._fill()

    def _take_slots_of(self, refs: list[Any]) -> None:
        """Give the actors of ended calls their slots back."""
        slots = self._slots
        actors = list(map(self._calls.pop, refs))
        slots.extend(actors)
        self._lively.update(map(id, actors))
        if self._pace.ended(len(refs)) or len(slots) > self._pace.in_all:
            self._adjust_slots()

    def _ready_group(self, refs: list[Any], timeout: float | None) -> list[Any]:
        """Wait for some calls at a time: fewer waits, and fewer messages to the actors.

        The oldest calls have ended in most cases; all others are looked at only when one of these is late.
        """
        group = refs[: max(1, len(refs) // 2)]
        ready, late = objects.wait(group, num_returns=len(group), timeout=GROUP_SECONDS)
        if not late:
            return ready
        if not ready and not objects.wait(refs, num_returns=1, timeout=timeout)[0]:
            return []
        return objects.wait(refs, num_returns=len(refs), timeout=0)[0]

    def _wait_for(self, ref: Any, timeout: float | None) -> None:
        """Until the call is known to have ended; other actors go on meanwhile."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while ref not in self._ended:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            self._note_ended(left)
            if left == 0.0:
                return

    def _next_in_order(self) -> list[Any]:
        """Return the oldest calls, as far as ended; at least one."""
        order, ended = self._order, self._ended
        while order[0] not in ended:
            if order[0] in self._calls:
                self._wait_for(order[0], None)
            else:
                order.popleft()
        return list(takewhile(ended.__contains__, islice(order, RESULTS_MAX)))

    def _next_ready(self) -> list[Any]:
        """Return ended calls; at least one."""
        while not self._ended:
            self._note_ended(None)
        self._trim_order()
        return list(islice(self._ended, RESULTS_MAX))

    def _trim_order(self) -> None:
        """Forget fetched refs in the order of submission, if many: the order may never be requested."""
        if len(self._order) > 2 * (len(self._calls) + len(self._ended)) + 100:
            self._forget_fetched()

    def _forget_fetched(self) -> None:
        kept = [ref for ref in self._order if ref in self._calls or ref in self._ended]
        self._order.clear()  # in place: an iterator over results knows it
        self._order.extend(kept)
