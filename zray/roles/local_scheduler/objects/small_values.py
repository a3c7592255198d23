"""Values and arguments that travel in messages lie in this process's memory: how much of it they may take.

What is larger than SMALL_BYTES_MAX is counted, while an object or a task has it here (`ObjectTable.inline_bytes`).
With INLINE_BYTES_TOTAL of that, our processes write all that is larger into the arena (InlineLimit), until it is half
as much; the arena has room of its own, holds writers back when it is full, and says so in the end.  What is smaller is
as many as objects and tasks are, and each of these has records here that weigh more.

Other nodes are told too: of what our tasks and calls return there, they send only the smallest unasked.  What is larger
lies there, counted there, as large results do, until somebody here wants it: who waits has room for it, and a task that
takes it is to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....exceptions import is_error_value
from ....wire.objects import InlineLimit
from ....wire.task_spec import StoredValue
from ...role import on

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Process
    from ..task import Task
    from .table import ObjectEntry

# Of one node, in bytes: a program that keeps more small values than that has some hundred thousand of a few kilobytes,
# which its processes have in memory too; their place is the arena, where all share them.
INLINE_BYTES_TOTAL = 512 << 20


class SmallValues:
    """Of one node."""

    LASTING = {"limits": None} | {"node.objects.inline_bytes": lambda it: None if it.are_many else INLINE_BYTES_TOTAL}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.are_many = False  # processes are told to write more of them into the arena
        self.limits: dict[str, int] = {}  # other nodes that have many -> bytes of what they are sent unasked

    @property
    def bytes_max(self) -> int:
        """Of values that our processes send in messages, and that come from other nodes unasked."""
        usual: int = self.node.inline_bytes_max
        return min(self.node.objects.small_max, usual) if self.are_many else usual

    def end_turn(self) -> None:
        """Tell our processes and the other nodes, if it is another rule now."""
        total = self.node.objects.inline_bytes
        if self.are_many != (total > (INLINE_BYTES_TOTAL // 2 if self.are_many else INLINE_BYTES_TOTAL)):
            self.are_many = not self.are_many
            for process in self.node.processes.values():
                self.tell(process)
            for peer in self.node.members.peers:
                self.node.send(peer, InlineLimit(self.bytes_max))

    def tell(self, process: Process) -> None:
        """One that has joined with the usual rule, or all."""
        self.node.send(process.address, InlineLimit(self.bytes_max))

    def node_joined(self, peer: str) -> None:
        """It goes by the usual rule."""
        if self.are_many:
            self.node.send(peer, InlineLimit(self.bytes_max))

    @on(InlineLimit)
    def on_inline_limit(self, message: InlineLimit) -> None:
        """InlineLimit, of another node."""
        node = self.node
        self.limits.pop(node.sender, None)
        if message.bytes_max < node.inline_bytes_max and node.sender not in node.recovery.lost:
            self.limits[node.sender] = message.bytes_max

    def node_lost(self, lost: str) -> None:
        """Nothing is sent there any more."""
        self.limits.pop(lost, None)

    def replaced(self, entry: ObjectEntry, value: bytes | StoredValue) -> bytes | StoredValue:
        """Its task has run again, and the rule is another one; or it has failed this time.  What stands there now."""
        known = entry.value
        if type(known) is StoredValue and not entry.is_lost:
            return known
        self.node.objects.forget_value(entry)  # the one that stands there is counted again
        has_failed = is_error_value(value) and not is_error_value(known)
        return known if has_failed and known is not None else value

    def forget_task(self, task_id: bytes) -> Task | None:
        """It is none of this node's tasks any more."""
        task: Task | None = self.node.tasks.pop(task_id, None)
        if task is not None and len(task.spec.args) > self.node.objects.small_max:
            self.node.objects.inline_bytes -= len(task.spec.args)
        return task

    def check_everything(self) -> None:
        """Assert that what is counted is there."""
        objects = self.node.objects
        values = (entry.value for entry in objects.entries.values() if type(entry.value) is bytes)
        arguments: Any = (task.spec.args for task in self.node.tasks.values())
        counted = sum(len(data) for data in (*values, *arguments) if len(data) > objects.small_max)
        assert objects.inline_bytes == counted, f"{objects.inline_bytes} bytes of small values counted, {counted} here"
