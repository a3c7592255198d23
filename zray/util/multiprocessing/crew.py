"""Crew: the workers of a Pool, and the two threads that give them tasks and take their results.

The crew does not refer to its Pool, which ends the crew when nobody refers to the Pool any more.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from multiprocessing.pool import IMapIterator, MapResult, MaybeEncodingError  # type: ignore[attr-defined]
from queue import SimpleQueue
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from ...api import actors, objects, sessions
from ...api.decorator import remote
from ...exceptions import RayActorError, SerializationError, TaskError, ZrayError
from ..mapping import name_of
from ..pace import PAIR_SECONDS, Pace
from .worker import CALL, KIND_BY_FUNCTION, Worker

# Functions that a worker keeps; a program calls a handful again and again.
FUNCTIONS_MAX = 100
# Options that say where an actor goes; without them, workers spread over the nodes.
PLACING = {"scheduling_strategy", "placement_group", "label_selector"}
# A worker that has been told to leave has so long for its exit functions.
LEAVE_SECONDS = 5.0

# As Python's Pool makes them: job, index in the job, function, arguments.
Task = tuple[int, int, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class PoolTerminatedError(ZrayError, RuntimeError):
    """The pool was terminated before the call had ended (indefinite: the call may have had effects)."""


class Member:
    """A worker as the crew sees it."""

    def __init__(self, actor: Any, calls_left: int | None) -> None:
        self.actor = actor
        self.calls_left = calls_left
        self.running: deque[tuple[Any, list[Task]]] = deque()  # calls and their tasks, in the actor's order
        self.load = 0  # number of these tasks
        self.methods: dict[tuple[str, str], Any] = {}  # of the actor, with the names of functions that they call
        self.known: dict[int, Any] = {}  # by tokens of functions that the actor was told: the refs of these calls
        self.head_since = 0.0  # since when the first of them has been the first, and may run
        self.is_watched = False  # a future of the first running call will wake the crew
        self.is_gone = False
        self._pid: int | None = None

    def method(self, method: str, function: Any) -> Any:
        """Return a method of the actor whose calls have the name of a function."""
        key = method, name_of(function)
        found = self.methods.get(key)
        if found is None:
            if len(self.methods) >= FUNCTIONS_MAX:
                self.methods.clear()
            found = self.methods[key] = getattr(self.actor, method).options(name=key[1])
        return found

    @property
    def pid(self) -> int:
        """Id of the process, on its node."""
        if self._pid is None:
            found: int = objects.get(self.actor.pid.remote())
            self._pid = found
        return self._pid

    def is_alive(self) -> bool:
        """Whether the actor answers calls."""
        try:
            objects.get(self.actor.pid.remote())
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
        default = {} if options.keys() & PLACING else {"scheduling_strategy": "SPREAD"}
        self.actor_class = remote(**{"num_cpus": 0, **default, **options})(Worker)
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
            for group in self._groups(iter(tasks)):
                count = group[-1][1] + 1
                if self.is_ended:
                    break
                self._give(group)
            if set_length is not None and not self.is_ended:
                set_length(count)
            job = tasks = group = set_length = None  # type: ignore[assignment]
        with self.lock:
            self.is_complete = True
        self._finish_if_done()

    def _groups(self, tasks: Iterator[Task]) -> Iterator[list[Task]]:
        """Return tasks for a single call: several short chunks of one map(), with all results at the same time."""
        kept: list[Task] = []  # one of another kind than those before it
        while True:
            group = kept or list(islice(tasks, 1))
            kept = []
            if not group:
                return
            job, _, function, *_ = group[0]
            if function in KIND_BY_FUNCTION and type(self.cache.get(job)) is MapResult and self.calls_max is None:
                for task in islice(tasks, self.pace.depth // 2 - 1 if self.pace.depth > 3 else 0):
                    if task[2] is not function:
                        kept = [task]
                        break
                    group.append(task)
            yield group

    def _give(self, group: list[Task]) -> None:
        with self.has_room:
            while (member := self._member_with_room()) is None and not self.is_ended:
                self.has_room.wait()
            if member is None or self.is_ended:
                return
            self._begin(member, group)

    def _member_with_room(self) -> Member | None:
        """The worker with the fewest calls, if it may have another.  Nothing is put behind a long call."""
        earliest = time.monotonic() - PAIR_SECONDS
        found = min(
            (
                member
                for member in self.workers
                if member.calls_left != 0 and (not member.running or member.head_since > earliest)
            ),
            key=lambda member: member.load,
            default=None,
        )
        return found if found is not None and found.load < self.pace.depth else None

    def _begin(self, member: Member, group: list[Task]) -> None:
        """Begin the call in the worker; an unsendable call has failed.  With the lock."""
        if member.calls_left is not None:
            member.calls_left -= 1
        try:
            ref = self._send(member, group)
        except Exception as error:
            ref = error.__cause__ if isinstance(error, SerializationError) and error.__cause__ else error
        member.running.append((ref, group))
        member.load += len(group)
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

    def _send(self, member: Member, group: list[Task]) -> Any:
        job, _, function, args, kwargs = group[0]
        kind = KIND_BY_FUNCTION.get(function, CALL)
        actor = member.actor
        if kind != CALL:
            ((function, items),) = args
        elif _is_lasting(function):
            items = args
        else:
            return member.method("run_once", function).remote(function, args, kwargs)
        token = self._token_of(function, job)
        if token not in member.known:
            is_full = len(member.known) >= FUNCTIONS_MAX
            if is_full:
                member.known.clear()
            member.known[token] = actor.learn.remote(token, function, is_full)
        if len(group) > 1:
            return member.method("run_chunks", function).remote(token, kind, [task[3][0][1] for task in group])
        run = member.method("run", function).remote
        return run(token, kind, items, kwargs) if kwargs else run(token, kind, items)

    def _token_of(self, function: Any, job: int) -> int:
        """Return the number of a function kept by workers: permanent for a constant function, else one for each job."""
        key = function if _is_lasting(function) else (job, id(function))
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
            done = 0
            for ref, group in running[: self._count_ended([ref for ref, _ in running])]:
                outcomes, error = self._outcomes(member, ref, len(group))
                if error is not None:
                    self._replace(member)
                else:
                    self._note_end(member)
                for task, outcome in zip(group, outcomes, strict=True):
                    self._settle(task, *outcome)
                done += len(group)
                outcomes = outcome = task = None  # type: ignore[assignment]
                if error is not None:
                    break
            running = ref = group = error = None  # type: ignore[assignment]
            with self.has_room:
                self.pace.ended(done)
                self._watch(member)
                self.has_room.notify()
            member = None
            self._finish_if_done()
        error = PoolTerminatedError("The pool was terminated before this call had ended.")
        for result in list(self.cache.values()):
            _fail(result, error)

    @staticmethod
    def _count_ended(refs: list[Any]) -> int:
        """Return the number of ended calls among one worker's, which end in order."""
        if not refs or isinstance(refs[0], BaseException):  # the first one was never sent
            return len(refs[:1])
        sent = list(takewhile(lambda ref: not isinstance(ref, BaseException), refs))
        ready, _ = objects.wait(sent, num_returns=len(sent), timeout=0)
        return len(ready)

    @staticmethod
    def _outcomes(member: Member, ref: Any, count: int) -> tuple[list[Any], BaseException | None]:
        """Return the outcome of each task of a call: success, result or error; and the reason of the worker's end."""
        if isinstance(ref, BaseException):
            return [(False, ref)] * count, None
        try:
            found = objects.get(ref)
            if found[0] is None:  # the worker does not know the function: why?
                objects.get(member.known[found[1]])
                found = False, RuntimeError("The worker has lost the function that it was to call.")
            return (found if count > 1 and type(found) is list else [found] * count), None
        except RayActorError as error:
            return [(False, error)] * count, error
        except Exception as error:
            return [(False, _as_of_pool(error))] * count, None

    def _replace(self, member: Member) -> None:
        """Replace a dead worker by a new one, which gets the calls behind the failed call."""
        with self.lock:
            if member.is_gone or self.is_ended:
                return
            member.is_gone = True
            new = self.workers[self.workers.index(member)] = self._new_member()
            member.running.popleft()
            for _, group in member.running:
                self._begin(new, group)
            member.running.clear()

    def _note_end(self, member: Member) -> None:
        with self.lock:
            if member.running:
                member.load -= len(member.running.popleft()[1])
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
        """End all workers at once, and fail all their work."""
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
        if sessions.is_initialized():
            for member in self.workers:
                for ref, _ in list(member.running):
                    if not isinstance(ref, BaseException):
                        objects.cancel(ref)  # with the tasks that the call has submitted, which outlive the actor
                actors.kill(member.actor)

    def join(self) -> None:
        """Wait for the threads and for the end of the workers."""
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join()
        end = time.monotonic() + LEAVE_SECONDS
        for actor in self.former:
            ref = actor.pid.remote()
            objects.wait([ref], timeout=max(0.0, end - time.monotonic()))
        self.former.clear()


def _is_lasting(function: Any) -> bool:
    """Whether a function is plain, a class or a built-in of a module, and therefore without changing state."""
    if isinstance(function, BuiltinFunctionType):
        return isinstance(function.__self__, ModuleType)
    return isinstance(function, (FunctionType, type))


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
