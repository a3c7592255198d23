"""Code of functions and classes on a node: what its processes publish, and what comes from shards.

    PublishFunction -> known to its job here, and on to its shard
    a task whose code is not here waits for it: FetchFunction -> FetchFunctionReply

A job may publish so much from one node: whoever defines a remote function in a loop makes a new one in each round, and
each stays as long as its job.  What no unfinished task here needs is a cache, as it can be had from its shard again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...wire.gcs import FetchFunction, FetchFunctionReply
from ...wire.message import Local
from ...wire.tasks import FUNCTIONS_BYTES_MAX, FUNCTIONS_COUNT_MAX, Function, PublishFunction, why_too_many
from .tables import Actor, Task, TaskState

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# A shard that may not keep more questions for code is asked again so soon.
FETCH_AGAIN_SECONDS = 1.0
# Kept although no task needs them: more than a program has, and little beside what its workers take.
IDLE_COUNT_MAX = 10_000
IDLE_BYTES_MAX = 256 << 20


class FetchAgainTimeout(Local):
    """Ask for its code again."""

    function_id: bytes


class Functions:
    """Of one node.  What is here is `LocalScheduler.functions`."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.size = 0  # bytes of code here
        # When so much is here, what no task needs goes.
        self.count_max, self.bytes_max = IDLE_COUNT_MAX, IDLE_BYTES_MAX

    def publish(self, message: PublishFunction) -> None:
        """PublishFunction, of a process here."""
        node, function = self.node, message.function
        process = node.processes.get(node.sender)
        if process is None or process.job.is_over:
            node.reject("code of a process that is gone, or of a job that is over")
            return
        job = process.job
        if function.function_id in job.functions:
            return
        size = job.code_bytes + len(function.code)
        if len(job.functions) >= FUNCTIONS_COUNT_MAX or size > FUNCTIONS_BYTES_MAX:
            job.refused[function.function_id] = None
            node.reject("code of a job that has published as much as it may")
            return
        job.functions[function.function_id] = None
        job.code_bytes = size
        if function.function_id not in node.functions:
            node.send(node.addresses.shard_of(function.function_id), message)
            self.is_here(function)

    def why_refused(self, actor: Actor) -> str:
        """Of one that a process here makes, whose class was one too many; "": it was not."""
        function_id = actor.creation.spec.function_id
        if function_id in self.node.functions or function_id not in actor.job.refused:
            return ""
        return f"The actor {actor.options.class_name} cannot be made: its job {why_too_many()}"

    def refuse(self, task: Task) -> None:
        """Its function was one too many."""
        task.state = TaskState.DONE
        self.forget_waiters()
        self.node.lifecycle.fail(task, "TaskUnschedulableError", f"The task cannot run: its job {why_too_many()}")

    def wait_for(self, task: Task) -> None:
        """Its code is not here."""
        node, function_id = self.node, task.spec.function_id
        waiters = node.function_waiters.setdefault(function_id, [])
        waiters.append(task)
        if len(waiters) == 1:
            self._fetch(function_id)

    def _fetch(self, function_id: bytes) -> None:
        node = self.node
        node.send(node.addresses.shard_of(function_id), FetchFunction(node.address, function_id))

    def on_reply(self, message: FetchFunctionReply) -> None:
        """FetchFunctionReply."""
        function = message.function
        if function.code:
            self.is_here(function)
        else:
            self.node.set_timer(FETCH_AGAIN_SECONDS, FetchAgainTimeout(function.function_id))

    def on_fetch_again(self, message: FetchAgainTimeout) -> None:
        """FetchAgainTimeout."""
        if message.function_id in self.node.function_waiters:
            self._fetch(message.function_id)

    def is_here(self, function: Function) -> None:
        """Tasks that waited for its code wait no more."""
        node, function_id = self.node, function.function_id
        known = node.functions.pop(function_id, None)
        node.functions[function_id] = known or function
        if known is None:
            self.size += len(function.code)
        for task in node.function_waiters.pop(function_id, ()):
            node.lifecycle.argument_is_here(task)
        if len(node.functions) > self.count_max or self.size > self.bytes_max:
            self._make_room(function_id)

    def _make_room(self, newest: bytes) -> None:
        """Down to half of what may be idle, the oldest first; so the walk over all tasks is seldom."""
        functions = self.node.functions
        needed = self.needed()
        needed.add(newest)
        for function_id, function in list(functions.items()):
            if 2 * len(functions) <= IDLE_COUNT_MAX and 2 * self.size <= IDLE_BYTES_MAX:
                break
            if function_id not in needed:
                del functions[function_id]
                self.size -= len(function.code)
        self.count_max = max(IDLE_COUNT_MAX, 2 * len(functions))
        self.bytes_max = max(IDLE_BYTES_MAX, 2 * self.size)

    def needed(self) -> set[bytes]:
        """What unfinished tasks run, and what actors are made of."""
        needed = {task.spec.function_id for task in self.node.tasks.values()}
        needed.update(actor.creation.spec.function_id for actor in self.node.calls.actors.values())
        return needed

    def forget_waiters(self) -> None:
        """Tasks that are over wait for no code any more; whoever was to publish it may be gone."""
        waiters = self.node.function_waiters
        for function_id, tasks in list(waiters.items()):
            tasks[:] = [task for task in tasks if task.state != TaskState.DONE]
            if not tasks:
                del waiters[function_id]

    def check_everything(self) -> None:
        """The bytes add up; what tasks and actors need at once is here."""
        functions = self.node.functions
        assert self.size == sum(len(function.code) for function in functions.values()), "bytes of code"
        for task in self.node.tasks.values():
            is_due = task.state in (TaskState.READY, TaskState.SENT) and not task.options.actor_id
            assert not is_due or task.spec.function_id in functions, "a task that is to run, without its code"


HANDLERS: dict[type, Any] = {
    PublishFunction: lambda self, message: self.function_table.publish(message),
    FetchFunctionReply: lambda self, message: self.function_table.on_reply(message),
    FetchAgainTimeout: lambda self, message: self.function_table.on_fetch_again(message),
}
