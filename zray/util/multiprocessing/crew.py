"""Crew: the workers of a Pool, and the two threads that give them tasks and take their results.

The crew does not refer to its Pool, which ends the crew when nobody refers to the Pool any more.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.pool import IMapIterator, MapResult, MaybeEncodingError  # type: ignore[attr-defined]
from queue import SimpleQueue
from types import FunctionType
from typing import Any

from ... import api
from ...decorator import remote
from ...exceptions import RayActorError, SerializationError, TaskError
from ..pace import PAIR_SECONDS, Pace
from .worker import CALL, KIND_BY_FUNCTION, Worker

# Functions that a worker keeps; a program calls a handful again and again.
FUNCTIONS_MAX = 100
# A worker that has been told to leave has so long for its exit functions.
LEAVE_SECONDS = 5.0

# As Python's Pool makes them: job, index in the job, function, arguments.
Task = tuple[int, int, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Member:
    """One worker as the crew sees it."""

    def __init__(self, actor: Any, calls_left: int | None) -> None:
        self.actor = actor
        self.calls_left = calls_left
        self.running: deque[tuple[Any, Task]] = deque()  # refs and tasks, in the order in which the actor runs them
        self.known: dict[int, Any] = {}  # by tokens of functions that the actor was told: the refs of these calls
        self.head_since = 0.0  # since when the first of them has been the first, and may run
        self.is_watched = False  # a future of the first running call will wake the crew
        self.is_gone = False
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """Id of the process, on its node."""
        if self._pid is None:
            found: int = api.get(self.actor.pid.remote())
            self._pid = found
        return self._pid

    def is_alive(self) -> bool:
        """Whether the actor answers calls."""
        try:
            api.get(self.actor.pid.remote())
        except RayActorError:
            return False
        return True

    def leave(self) -> None:
        """Tell the actor to end in order, after its calls."""
        self.is_gone = True
        self.actor.__ray_terminate__.remote()


class Crew:
    """Workers of one Pool."""

    def __init__(
        self,
        count: int,
        initializer: Callable[..., Any] | None,
        initargs: tuple[Any, ...],
        calls_max: int | None,
        options: dict[str, Any],
    ) -> None:
        self.start_with = (initializer, initargs)
        self.calls_max = calls_max
        self.actor_class = remote(**{"num_cpus": 0, **options})(Worker)
        self.cache: dict[int, Any] = {}  # results by job, until they are there
        self.jobs: SimpleQueue[Any] = SimpleQueue()  # of tasks and a function that takes their number; None: no more
        self.woken: SimpleQueue[Member | None] = SimpleQueue()  # workers whose first call has ended; None: the end
        self.tokens: dict[Any, int] = {}  # of functions that workers may know; the crew keeps these alive
        self.next_token = 0
        self.pace = Pace(count)
        self.lock = threading.Lock()
        self.has_room = threading.Condition(self.lock)
        self.is_ended = False  # no call is begun or waited for
        self.is_complete = False  # all jobs have been given out, and there are no more
        self.workers = [self._new_member() for _ in range(count)]
        self.former: list[Any] = []  # actors that have been told to leave
        self.threads = [
            threading.Thread(target=run, name=f"zray-pool-{run.__name__}", daemon=True)
            for run in (self.feed, self.take)
        ]
        for thread in self.threads:
            thread.start()

    def _new_member(self) -> Member:
        return Member(self.actor_class.remote(*self.start_with), self.calls_max)

    # --- tasks to workers ---

    def feed(self) -> None:
        """Give out the tasks of all jobs in turn, as workers have room.  In a thread."""
        while (job := self.jobs.get()) is not None:
            tasks, set_length = job
            count = 0
            for task in tasks:
                count = task[1] + 1
                if self.is_ended:
                    break
                self._give(task)
            if set_length is not None and not self.is_ended:
                set_length(count)
            job = tasks = task = set_length = None
        with self.lock:
            self.is_complete = True
        self._finish_if_done()

    def _give(self, task: Task) -> None:
        with self.has_room:
            while (member := self._member_with_room()) is None and not self.is_ended:
                self.has_room.wait()
            if member is None or self.is_ended:
                return
            self._begin(member, task)

    def _member_with_room(self) -> Member | None:
        """The worker with the fewest calls, if it may have another.  Nothing is put behind a long call."""
        earliest = time.monotonic() - PAIR_SECONDS
        found = min(
            (
                member
                for member in self.workers
                if member.calls_left != 0 and (not member.running or member.head_since > earliest)
            ),
            key=lambda member: len(member.running),
            default=None,
        )
        return found if found is not None and len(found.running) < self.pace.depth else None

    def _begin(self, member: Member, task: Task) -> None:
        """Begin the call in the worker; one that cannot be sent has failed.  With the lock."""
        if member.calls_left is not None:
            member.calls_left -= 1
        try:
            ref = self._send(member, task[2], task[3], task[4])
        except Exception as error:
            ref = error.__cause__ if isinstance(error, SerializationError) and error.__cause__ else error
        member.running.append((ref, task))
        self._watch(member)

    def _watch(self, member: Member) -> None:
        """Have the crew woken when the first running call of the worker has ended.  With the lock."""
        if member.is_watched or not member.running:
            return
        member.is_watched = True
        member.head_since = time.monotonic()
        ref = member.running[0][0]
        if isinstance(ref, BaseException):
            self.woken.put(member)
        else:
            ref.future().add_done_callback(lambda done: self.woken.put(member))

    def _send(self, member: Member, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = KIND_BY_FUNCTION.get(function, CALL)
        actor = member.actor
        if kind != CALL:
            ((function, items),) = args
        elif isinstance(function, FunctionType):
            items = args
        else:
            return actor.run_once.remote(function, args, kwargs)
        token = self._token_of(function)
        if token not in member.known:
            is_full = len(member.known) >= FUNCTIONS_MAX
            if is_full:
                member.known.clear()
            member.known[token] = actor.learn.remote(token, function, is_full)
        return actor.run.remote(token, kind, items, kwargs) if kwargs else actor.run.remote(token, kind, items)

    def _token_of(self, function: Any) -> int:
        """Number of a function that workers keep.  Plain functions have one for good, others one for each use."""
        key = function if isinstance(function, FunctionType) else _Once(function)
        found = self.tokens.get(key)
        if found is None:
            if len(self.tokens) >= FUNCTIONS_MAX:
                self.tokens.clear()
            self.next_token += 1
            found = self.tokens[key] = self.next_token
        return found

    # --- results of workers ---

    def take(self) -> None:
        """Take results of calls that have ended, and call callbacks.  In a thread."""
        while (member := self.woken.get()) is not None:
            with self.lock:
                member.is_watched = False
                running = list(member.running)
            ended = self._first_ended([ref for ref, _ in running])
            for ref, task in running[:ended]:
                found, error = self._outcome(member, ref)
                if isinstance(error, RayActorError):
                    self._replace(member)
                    self._settle(task, False, error)
                    break
                self._note_end(member)
                self._settle(task, *found)
                found = error = None
            running = ref = task = None  # type: ignore[assignment]
            with self.has_room:
                self.pace.ended(ended)
                self._watch(member)
                self.has_room.notify()
            member = None
            self._finish_if_done()
        error = RuntimeError("The pool was terminated before this call had ended.")
        for result in list(self.cache.values()):
            _fail(result, error)

    @staticmethod
    def _first_ended(refs: list[Any]) -> int:
        """Number of calls that have ended, of those of one worker.  They end in their order."""
        for index, ref in enumerate(refs):
            if isinstance(ref, BaseException):  # it was never sent
                return index or 1
        ready, _ = api.wait(refs, num_returns=len(refs), timeout=0) if refs else ([], [])
        return len(ready)

    @staticmethod
    def _outcome(member: Member, ref: Any) -> tuple[Any, BaseException | None]:
        """Whether a call has gone well, with its result or error; and what has ended the worker, if so."""
        if isinstance(ref, BaseException):
            return (False, ref), None
        try:
            is_good, value = api.get(ref)
            if is_good is None:  # the worker does not know the function: why?
                api.get(member.known[value])
                return (False, RuntimeError("The worker has lost the function that it was to call.")), None
            return (is_good, value), None
        except RayActorError as error:
            return None, error
        except Exception as error:
            return (False, _as_of_pool(error)), None

    def _replace(self, member: Member) -> None:
        """Put a new worker in the place of one that has died, and give it the calls behind the one that has failed."""
        with self.lock:
            if member.is_gone or self.is_ended:
                return
            member.is_gone = True
            new = self.workers[self.workers.index(member)] = self._new_member()
            member.running.popleft()
            for _, task in member.running:
                self._begin(new, task)
            member.running.clear()

    def _note_end(self, member: Member) -> None:
        with self.lock:
            if member.running:
                member.running.popleft()
            if member.calls_left == 0 and not member.running and not member.is_gone:
                self.former.append(member.actor)
                member.leave()
                self.workers[self.workers.index(member)] = self._new_member()

    def _settle(self, task: Task, is_good: bool, value: Any) -> None:
        result = self.cache.get(task[0])
        if result is None:
            return
        try:
            result._set(task[1], (is_good, value))
        except Exception:  # of a callback: the result is there all the same
            threading.excepthook(threading.ExceptHookArgs((*_error_in_hand(), threading.current_thread())))
            result._event.set()
            self.cache.pop(task[0], None)

    # --- the end ---

    def close(self) -> None:
        """Take no more jobs; end when all have ended."""
        self.jobs.put(None)

    def _finish_if_done(self) -> None:
        with self.lock:
            if not self.is_complete or self.is_ended or any(member.running for member in self.workers):
                return
            self.is_ended = True
            for member in self.workers:
                self.former.append(member.actor)
                member.leave()
        self.woken.put(None)

    def terminate(self) -> None:
        """End all workers at once, and fail what they had to do."""
        with self.has_room:
            if self.is_ended:
                return
            self.is_ended = True
            for member in self.workers:
                member.is_gone = True
                self.former.append(member.actor)
            self.has_room.notify_all()
        self.jobs.put(None)
        self.woken.put(None)
        if api.is_initialized():
            for member in self.workers:
                api.kill(member.actor)

    def join(self) -> None:
        """Wait for the threads and for the end of the workers."""
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join()
        end = time.monotonic() + LEAVE_SECONDS
        for actor in self.former:
            ref = actor.pid.remote()
            api.wait([ref], timeout=max(0.0, end - time.monotonic()))
        self.former.clear()


class _Once:
    """Key of a function that may change between two uses."""

    def __init__(self, function: Any) -> None:
        self.function = function


def _error_in_hand() -> Any:
    import sys

    return sys.exc_info()


def _as_of_pool(error: BaseException) -> BaseException:
    """The error that Python's Pool would give."""
    if isinstance(error, TaskError) and isinstance(error, SerializationError):
        return MaybeEncodingError(error, "result of the call")
    return error


def _fail(result: Any, error: Exception) -> None:
    """Give a result of Python's Pool an error, whatever it still waits for."""
    index = 0
    if issubclass(type(result), IMapIterator):
        index = result._index
        result._set_length(index + 1)
    elif issubclass(type(result), MapResult):
        result._number_left = 1
    result._set(index, (False, error))
