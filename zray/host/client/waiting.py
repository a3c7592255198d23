"""Waits of `get` and `wait` for missing values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...exceptions import GetTimeoutError
from ...ids import task_of
from ...object_ref import refuse_nil
from ...store.errors import deserialize_error
from ...store.values import ERROR_TAGS, is_error
from ..context import ref_of_ended_session
from .recursion_guard import require_room
from .slow_wait_report import Question, wait_and_explain, why_late

if TYPE_CHECKING:
    from .runtime import Runtime


# A busy node is given this much time for its answer, beyond the wait's own deadline.
ANSWER_SECONDS = 0.05


class Waiting:
    """The waits of a process's threads."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.client = runtime.client
        self.blocked = 0  # waits for which a worker has lent its CPU
        self.looked_for: list[list[bytes]] = []  # ids of wait() calls that do not block a worker
        self.lent_for: list[list[bytes]] = []  # ids of get() calls that block one, the innermost last

    # --- get ---

    def for_values(self, missing: list[bytes], timeout: float | None) -> None:
        """Wait until all values have arrived.

        Raises:
            GetTimeoutError: the time is over.
            the first failure to arrive, whatever else is still missing.
        """
        require_room()
        if timeout is None or timeout > 0:
            self.runtime.refuse_blocking()
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.runtime.wait_for_room(deadline):
            raise GetTimeoutError(f"The node of this session has accepted no messages for {timeout:g} s.")
        with Question(self.runtime, missing, deadline) as question:
            self._for_values(missing, timeout, deadline, question)

    def _for_values(
        self, missing: list[bytes], timeout: float | None, deadline: float | None, question: Question
    ) -> None:
        runtime, client = self.runtime, self.client
        # New arrivals are checked once: a failure need not wait for values ahead of it in the list.
        arrived: list[list[tuple[bytes, Any]]] = []
        if len(missing) > 1:
            with runtime.lock:
                client.arrived_lists.append(arrived)
        try:
            if runtime.is_worker and runtime.blocks():
                refuse_nil(missing)
                if timeout is not None and timeout <= 0:
                    self._look(missing, len(missing), fetch=True)
                else:
                    self._blocked_for_values(missing, deadline, arrived, question)
            else:
                self._receive_values(missing, deadline, arrived, question)
        finally:
            if len(missing) > 1:
                with runtime.lock:
                    # By identity: two lists of the same arrivals are equal.
                    client.arrived_lists = [other for other in client.arrived_lists if other is not arrived]
        if timeout is None:
            return
        values = client.values
        late = [object_id for object_id in missing if object_id not in values]
        if late:
            which = f"{len(late)} of {len(missing)} objects"
            text = f"{which} were not ready after {timeout:g} s.  A later get() may find them."
            raise GetTimeoutError(text + why_late(runtime, late, timeout, question))

    def _receive_values(
        self, missing: list[bytes], deadline: float | None, arrived: list[Any], question: Question
    ) -> None:
        runtime, client = self.runtime, self.client
        values, held = client.values, client.held
        with runtime.lock:  # the receiving thread looks through the waits
            client.waits.append(missing)
            if client.borrowed:
                client.ask(missing)
                runtime.send_buffered()
        remaining = iter(missing)
        current = next(remaining)
        seen = -1

        def is_done() -> bool:
            nonlocal current, seen
            while current in values:
                following = next(remaining, None)
                if following is None:
                    return True
                current = following
            if client.arrivals != seen:
                seen = client.arrivals
                if current not in held and current not in values:
                    refuse_nil((current,))
                    raise ref_of_ended_session(current)
                if arrived:
                    self._raise_arrived(arrived, missing)
            return False

        try:
            wait_and_explain(runtime, is_done, deadline, missing, "get", question)
        finally:
            with runtime.lock:
                # By identity: two threads may wait for the same.
                client.waits = [wait for wait in client.waits if wait is not missing]
        if arrived:
            self._raise_arrived(arrived, missing)

    def _blocked_for_values(
        self, missing: list[bytes], deadline: float | None, arrived: list[Any], question: Question
    ) -> None:
        """Wait in a worker's only thread: the node lends the CPU out, and grants it again with its reply."""
        runtime, client = self.runtime, self.client
        with runtime.lock:
            limited = deadline is not None
            request = client.wait(missing, len(missing), fetch=True, block=True, limited=limited)
            client.waits.append(missing)
            self.lent_for.append(missing)
            runtime.send_buffered()
            self.blocked += 1
        replies = client.replies

        def is_done() -> bool:
            if arrived:
                self._raise_arrived(arrived, missing)
            return replies[request] is not None

        try:
            self._until_resumed(request, is_done, deadline, missing, "get", question)
        finally:
            with runtime.lock:
                self.lent_for.pop()
                client.waits = [wait for wait in client.waits if wait is not missing]
        if arrived:
            self._raise_arrived(arrived, missing)

    def _until_resumed(
        self,
        request: int,
        is_done: Callable[[], bool],
        deadline: float | None,
        missing: list[bytes],
        what: str,
        question: Question | None = None,
    ) -> None:
        """Wait for the node's reply, which grants the CPU again.  An expired or interrupted wait resumes without the
        grant: the node is told, and counts this worker as running.
        """
        replies = self.client.replies
        try:
            if not wait_and_explain(self.runtime, is_done, deadline, missing, what, question):
                self._leave(request)
                # The node's present knowledge: `wait` is to name ready objects, also after too short a time to be told
                # of them.
                self._hear(request)
        finally:
            if replies[request] is None:
                self._leave(request)
            self.blocked -= 1
            del replies[request]

    def _leave(self, request: int) -> None:
        """Let this thread resume at once, whatever else uses its CPU."""
        runtime, client = self.runtime, self.client
        if client.left == request or runtime.connection.over:
            return
        with runtime.lock:
            client.leave_wait(request)
            runtime.throw_nested_out()
            runtime.send_buffered()

    def _hear(self, request: int) -> None:
        """Receive the node's answer to an expired wait."""
        replies = self.client.replies
        self.runtime.receive_until(lambda: replies[request] is not None, time.monotonic() + ANSWER_SECONDS)

    def _look(self, missing: list[bytes], count: int, fetch: bool) -> None:
        """Ask the node for the values present by now.  No CPU is lent."""
        runtime, client = self.runtime, self.client
        with runtime.lock:
            request = client.wait(missing, count, fetch=fetch, block=False)
            client.cancel_wait(request)
            runtime.send_buffered()
        try:
            self._hear(request)
        finally:
            del client.replies[request]

    def for_room(self, is_done: Callable[[], bool], is_refused: Callable[[], bool]) -> None:
        """Wait for space in a full store, in a worker's only thread: the CPU may be lent to work that frees space.

        A writer that is refused or interrupted resumes at once.
        """
        self._lent_until(self.client.await_room, is_done, is_refused)

    def for_word(self, object_id: bytes, is_done: Callable[[], bool]) -> None:
        """Wait for a message of the node; the CPU is lent meanwhile, as in a wait for an object.

        object_id: an object that does not come before the message.
        """
        if self.runtime.blocks():
            wait = self.client.wait
            self._lent_until(lambda: wait([object_id], 1, fetch=False, block=True), is_done, lambda: False)
        else:
            self.runtime.receive_until(is_done, None)

    def _lent_until(self, ask: Callable[[], int], is_done: Callable[[], bool], is_refused: Callable[[], bool]) -> None:
        """Lend the CPU by a request, and get the CPU back once that is done."""
        runtime, client = self.runtime, self.client
        replies = client.replies
        with runtime.lock:
            request = ask()
            runtime.send_buffered()
            self.blocked += 1
        try:
            runtime.receive_until(is_done, None)
            if not is_refused():
                with runtime.lock:
                    client.cancel_wait(request)
                    runtime.send_buffered()
                runtime.receive_until(lambda: replies[request] is not None, None)
        finally:
            if replies[request] is None:
                self._leave(request)
            self.blocked -= 1
            del replies[request]

    def _raise_arrived(self, arrived: list[list[tuple[bytes, Any]]], missing: Sequence[bytes]) -> None:
        """Raise the first failure among values that arrived since the last look."""
        while arrived:
            for object_id, value in arrived.pop():
                # The object of an actor's creation is of no bytes.
                if type(value) is bytes and value and value[0] in ERROR_TAGS and object_id in missing:
                    raise deserialize_error(value)

    def raise_failure(self, object_ids: Iterable[bytes]) -> None:
        """Raise the first failure among the present values."""
        values = self.client.values
        for object_id in object_ids:
            value = values.get(object_id)
            if type(value) is bytes and is_error(value):
                raise deserialize_error(value)

    # --- wait ---

    def until_ready(self, ids: list[bytes], count: int, timeout: float | None, fetch: bool) -> Callable[[bytes], bool]:
        """Wait until `count` ids are ready, or the time is over.  Returns a predicate for readiness."""
        require_room()
        runtime, client = self.runtime, self.client
        values, located = client.values, client.located

        def is_ready(object_id: bytes) -> bool:
            return object_id in values or object_id in located

        ready = 0
        for object_id in ids:
            if object_id in values or object_id in located:
                ready += 1
                if ready >= count:
                    return is_ready
        deadline = None if timeout is None else time.monotonic() + timeout
        missing = [i for i in ids if i not in values and i not in located]
        needed = count - (len(ids) - len(missing))
        if not runtime.wait_for_room(deadline):
            return is_ready  # no further messages from polls of a suspended node
        if runtime.is_worker and runtime.blocks():
            if timeout is not None and timeout <= 0:
                self._look(missing, needed, fetch)
            else:
                self._blocked_until_ready(missing, needed, deadline, fetch)
            return is_ready
        self._ask(missing, fetch)
        due = 0

        def is_done() -> bool:
            nonlocal due
            arrivals = client.arrivals  # read before the look, so that arrivals during the look lead to another
            if arrivals < due:
                return False
            found = 0
            for object_id in missing:
                if object_id in values or object_id in located:
                    found += 1
                    if found >= needed:
                        return True
            # Set only after the look: present values are found in a second look too, as by a following thread.
            # A wait for very many objects looks again when as many have come as are missing.
            due = arrivals + needed - found
            return False

        with runtime.lock:
            self.looked_for.append(missing)
        try:
            wait_and_explain(runtime, is_done, deadline, missing, "wait")
        finally:
            with runtime.lock:
                self.looked_for = [other for other in self.looked_for if other is not missing]
        return is_ready

    def _ask(self, missing: list[bytes], fetch: bool) -> None:
        """Have the node report on objects that are not this process's own tasks' results."""
        runtime, client = self.runtime, self.client
        held = client.held
        for object_id in missing:
            if object_id not in held and task_of(object_id) not in client.streams:
                raise ref_of_ended_session(object_id)
        borrowed = [i for i in missing if i in client.borrowed]
        if not borrowed:
            return
        with runtime.lock:
            if fetch:
                client.ask(borrowed)
            else:
                client.ask_whether(borrowed)
            runtime.send_buffered()

    def _blocked_until_ready(self, missing: list[bytes], needed: int, deadline: float | None, fetch: bool) -> None:
        runtime, client = self.runtime, self.client
        with runtime.lock:
            request = client.wait(missing, needed, fetch=fetch, block=True, limited=deadline is not None)
            runtime.send_buffered()
            self.blocked += 1
        replies = client.replies
        self._until_resumed(request, lambda: replies[request] is not None, deadline, missing, "wait")
