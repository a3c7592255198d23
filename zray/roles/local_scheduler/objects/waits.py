"""Waits: a process wants to know when objects are there; a blocked worker lends its CPU meanwhile.

A wait is in its process's `wait_by_request` until it is answered, and in the `watchers` of each entry that it
still waits for.  It counts as a reference on all its objects.  A wait of a blocked worker is answered when it
is satisfied AND its level of the worker has its CPU again (`Lending.resume` grants it): so resources are
never oversubscribed.  The exception is a worker whose time is over, or that a signal has called away: it goes on at
once (`Lending.go_on`), and has its CPU back before anything new starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....exceptions import ProtocolError
from ....wire.task_spec import StoredValue
from ....wire.tasks import AwaitRoom, CancelWait, WaitObjects, WaitReply
from ...role import on
from ..tables import Process, Wait
from ..task import FORWARDED
from .table import ObjectEntry

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Of one process at once: threads that wait, and references that are awaited.  Each costs some 300 bytes.
WAITS_MAX = 100_000


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
        for object_id in message.object_ids:
            if object_id in wait.pending:
                continue
            entry = node.objects.retain(object_id)
            if entry.value is None and (entry.task is None or entry.task.state >= FORWARDED):
                node.remote.want(entry, is_urgent=True)
            if entry.value is not None:
                wait.ready.append(object_id)
                self._fetch(wait, entry)
                continue
            wait.pending[object_id] = None
            entry.watched(wait)
        process.wait_by_request[message.request] = wait
        if self._is_satisfied(wait):
            wait.is_over = True
            self.finish(wait)
        elif message.block and process.worker is not None:
            node.dispatch.lending.block(process.worker, wait)

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
        """AwaitRoom: a wait for no object, which CancelWait ends."""
        process = self._who_waits(message.request)
        if process is None:
            return
        wait = process.wait_by_request[message.request] = Wait(process, message.request, {}, [], 1, False, True)
        if process.worker is not None:
            self.node.dispatch.lending.await_room(process.worker, wait)

    def _is_satisfied(self, wait: Wait) -> bool:
        return len(wait.ready) >= wait.count or not wait.pending

    def _fetch(self, wait: Wait, entry: ObjectEntry) -> None:
        """Send the value along, unless the process was given it unasked."""
        if wait.fetch and entry.pushed_to is not wait.process:
            process = wait.process
            value = entry.value
            if type(value) is StoredValue:
                self.node.objects.pin(entry.object_id, process)
            if not process.results:
                self.node.talkative.append(process)
            process.results.append((entry.object_id, value))

    def object_is_here(self, entry: ObjectEntry) -> None:
        """Tell those that wait for it."""
        for wait in entry.take_watchers():
            if wait.is_over or entry.object_id not in wait.pending:
                continue
            del wait.pending[entry.object_id]
            wait.ready.append(entry.object_id)
            holders = entry.holders
            expects_it = holders is wait.process or (type(holders) is set and wait.process in holders)
            if not expects_it:
                self._fetch(wait, entry)
            if self._is_satisfied(wait):
                self.end(wait)

    @on(CancelWait)
    def cancel(self, message: CancelWait) -> None:
        """CancelWait: answered with what is there; a blocked worker still waits for its CPU, unless it goes on."""
        process = self.node.processes.get(self.node.sender)
        if process is None:
            return
        wait = process.wait_by_request.get(message.request)
        if not message.goes_on:
            if wait is not None and not wait.is_over:
                self.end(wait)
            return
        if wait is not None:
            wait.is_over = True
            if wait.block and process.worker is not None:
                self.node.dispatch.lending.go_on(process.worker, wait)
            else:
                self.finish(wait)
        # The reply leaves ahead of all nested tasks of the worker's next wait: it throws out what comes before.
        self.node.let_values_out()

    def end(self, wait: Wait) -> None:
        """Nothing more is awaited but, for a blocked worker, its CPU."""
        wait.is_over = True
        if wait.block and wait.process.worker is not None:
            self.node.dispatch.lending.wait_is_over(wait.process.worker, wait)
        else:
            self.finish(wait)

    def finish(self, wait: Wait) -> None:
        """Answer, and let go of the objects."""
        process = wait.process
        del process.wait_by_request[wait.request]
        self.replies.append((process, WaitReply(wait.request, list(wait.ready))))
        self._let_go(wait)

    def _let_go(self, wait: Wait) -> None:
        objects = self.node.objects
        for object_id in wait.pending:
            objects.entries[object_id].unwatched(wait)
            objects.drop(object_id)
        objects.drop_all(wait.ready)

    def forget_process(self, process: Process) -> None:
        """It is gone: nobody waits."""
        for wait in list(process.wait_by_request.values()):
            wait.is_over = True
            self._let_go(wait)
        process.wait_by_request.clear()

    def lies_elsewhere(self, entry: ObjectEntry) -> None:
        """A large result is on other nodes, and stays there until somebody here wants it: tell who has refs on it."""
        for process in self.node.objects.processes_that_hold(entry):
            self.node.send(process.address, WaitReply(0, [entry.object_id]))

    def send_replies(self) -> None:
        """At the end of the turn, behind the values."""
        for process, reply in self.replies:
            self.node.send(process.address, reply)
        self.replies.clear()
