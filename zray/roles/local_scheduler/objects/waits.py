"""Waits of processes for objects; a blocked worker lends its CPU meanwhile.

A wait is in its process's `wait_by_request` until the reply, and in the `watchers` of each missing entry.  A wait
counts as a reference to all its objects.  A blocked worker gets the answer only after its level has a CPU again
(`Lending.resume` grants it), so resources are never oversubscribed.  The exception is a worker with an expired timeout,
or interrupted by a signal.  The worker then continues at once (`Lending.go_on`), and has its CPU back before anything
new starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ....exceptions import ProtocolError
from ....wire.task_spec import StoredValue
from ....wire.tasks import AwaitRoom, CancelWait, WaitObjects, WaitReply
from ...role import on
from ..tables import Process
from ..task import FORWARDED
from .table import ObjectEntry

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# The limit for a process: waiting threads, and awaited references, at some 300 bytes each.
WAITS_MAX = 100_000


class Wait(Struct, gc=False, eq=False):
    """One WaitObjects."""

    process: Any
    request: int
    pending: dict[bytes, None]  # ids not here, in order
    ready: list[bytes]
    count: int
    fetch: bool
    block: bool
    aside: bool = False
    limited: bool = False
    is_over: bool = False  # satisfied or cancelled: only the CPU is awaited, if at all
    outer: Any = None  # the wait of the same level inside which this one began, in a signal's handler

    def lacks(self, object_id: bytes) -> None:
        """Wait for an object."""
        self.pending[object_id] = None

    def has(self, object_id: bytes) -> None:
        """Count an object as ready from the beginning."""
        self.ready.append(object_id)

    def gets(self, object_id: bytes) -> None:
        """Count a missing object as ready."""
        del self.pending[object_id]
        self.ready.append(object_id)

    def is_inside(self, outer: Wait | None) -> None:
        """Go on with another wait of the level after this one."""
        self.outer = outer

    def ends(self) -> None:
        """Await no objects any more."""
        self.is_over = True


class Waits:
    """All waits of a node's processes."""

    PASSING = {"replies": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.replies: list[tuple[Process, WaitReply]] = []

    @on(WaitObjects)
    def begin(self, message: WaitObjects) -> None:
        """WaitObjects."""
        node = self.node
        process = self._who_waits(message.request)
        if process is None:
            return
        block, aside, limited = message.block, message.aside, message.limited
        wait = Wait(process, message.request, {}, [], message.count, message.fetch, block, aside, limited)
        items: list[ObjectEntry] = []  # of generators, not here yet
        for object_id in message.object_ids:
            if object_id in wait.pending:
                continue
            entry = node.objects.retain(object_id)
            is_made_here = entry.task is not None and entry.task.state < FORWARDED
            if entry.is_on_disk and not message.fetch:
                wait.has(object_id)
                continue
            if entry.value is None and not is_made_here:
                if node.generators.is_item(entry):
                    items.append(entry)
                else:
                    node.remote.want(entry, is_urgent=True)
            if entry.value is not None:
                wait.has(object_id)
                self._fetch(wait, entry)
                continue
            wait.lacks(object_id)
            entry.watched(wait)
        process.begins(wait)
        if self._is_satisfied(wait):
            wait.ends()
            self.finish(wait)
        elif message.block and process.worker is not None:
            node.dispatch.lending.block(process.worker, wait)
        for entry in items if not wait.is_over else ():  # else the end of the generator is here, and has no such item
            node.generators.look_for(entry)

    def _who_waits(self, request: int) -> Process | None:
        process = self.node.processes.get(self.node.sender)
        if process is None or request in process.wait_by_request:
            self.node.reject("a wait of a process that is gone, or twice the same")
            return None
        if len(process.wait_by_request) >= WAITS_MAX:
            raise ProtocolError(f"more than {WAITS_MAX:,} waits of one process at once")
        return process

    @on(AwaitRoom)
    def await_room(self, message: AwaitRoom) -> None:
        """AwaitRoom: a wait without objects, ended by CancelWait."""
        process = self._who_waits(message.request)
        if process is None:
            return
        wait = Wait(process, message.request, {}, [], 1, False, True)
        process.begins(wait)
        if process.worker is not None:
            self.node.dispatch.lending.await_room(process.worker, wait)

    def _is_satisfied(self, wait: Wait) -> bool:
        return len(wait.ready) >= wait.count or not wait.pending

    def _fetch(self, wait: Wait, entry: ObjectEntry) -> None:
        """Send the value with the reply, unless the process was sent it unasked."""
        if wait.fetch and entry.pushed_to is not wait.process:
            process = wait.process
            value = entry.value
            if type(value) is StoredValue:
                self.node.objects.pin(entry.object_id, process)
            if not process.results:
                self.node.talkative.append(process)
            process.results.append((entry.object_id, value))

    def object_is_here(self, entry: ObjectEntry, *, is_pushed: bool = True) -> None:
        """Update the waits for an object that has arrived.

        is_pushed: processes that hold the object are sent the value.
        """
        for wait in entry.take_watchers():
            if wait.is_over or entry.object_id not in wait.pending:
                continue
            wait.gets(entry.object_id)
            holders = entry.holders
            expects_it = holders is wait.process or (type(holders) is set and wait.process in holders)
            if not (expects_it and is_pushed):
                self._fetch(wait, entry)
            if self._is_satisfied(wait):
                self.end(wait)

    @on(CancelWait)
    def cancel(self, message: CancelWait) -> None:
        """CancelWait: answered with the ready objects; a blocked worker still waits for a CPU, unless it goes on."""
        process = self.node.processes.get(self.node.sender)
        if process is None:
            return
        wait = process.wait_by_request.get(message.request)
        if not message.goes_on:
            if wait is not None and not wait.is_over:
                self.end(wait)
            return
        if wait is not None:
            wait.ends()
            if wait.block and process.worker is not None:
                self.node.dispatch.lending.go_on(process.worker, wait)
            else:
                self.finish(wait)
        # The reply leaves ahead of all nested tasks of the worker's next wait: it throws out what comes before.
        self.node.let_values_out()

    def end(self, wait: Wait) -> None:
        """End a wait: only the CPU of a blocked worker is still awaited."""
        wait.ends()
        if wait.block and wait.process.worker is not None:
            self.node.dispatch.lending.wait_is_over(wait.process.worker, wait)
        else:
            self.finish(wait)

    def finish(self, wait: Wait) -> None:
        """Answer a wait, and release its objects."""
        process = wait.process
        process.ends(wait)
        self.replies.append((process, WaitReply(wait.request, list(wait.ready))))
        self._let_go(wait)

    def _let_go(self, wait: Wait) -> None:
        objects = self.node.objects
        for object_id in wait.pending:
            objects.entries[object_id].unwatched(wait)
            objects.drop(object_id)
        objects.drop_all(wait.ready)

    def forget_process(self, process: Process) -> None:
        """End all waits of a process that is gone."""
        for wait in list(process.wait_by_request.values()):
            wait.ends()
            self._let_go(wait)
            process.ends(wait)

    def lies_elsewhere(self, entry: ObjectEntry) -> None:
        """Tell the holders of a large result on other nodes that the value stays remote until requested."""
        for process in self.node.objects.processes_that_hold(entry):
            self.node.send(process.address, WaitReply(0, [entry.object_id]))

    def send_replies(self) -> None:
        """Send the replies at the end of the turn, after the values."""
        for process, reply in self.replies:
            self.node.send(process.address, reply)
        self.replies.clear()
