"""The memory limit for values and arguments that travel in messages, and lie in the node process's memory.

Values larger than SMALL_BYTES_MAX are counted, while held by a local object or task (`ObjectTable.inline_bytes`).
Above INLINE_BYTES_TOTAL, local processes write all larger values into the arena (InlineLimit), until the count has
halved.  The arena has a limit of its own, holds writers back when full, and reports a failure in the end.  Smaller
values are as many as objects and tasks, and weigh less than the records.

Other nodes are told too, and then send only the smallest results of our tasks and calls unasked.  A larger result stays
with its maker, and is counted there like a large result, until requested by a local process.  A waiting process has
room for the value, and a task that takes it is about to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....exceptions import is_error_value
from ....wire.objects import InlineLimit
from ....wire.task_spec import StoredValue
from ...role import on

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Process
    from .table import ObjectEntry

# The limit of a node, in bytes: a program with more small values has some hundred thousand of a few kilobytes, which
# its processes hold in memory too.  The arena, which all processes share, is the place for these.
INLINE_BYTES_TOTAL = 512 << 20


class SmallValues:
    """The limit of small values on a node."""

    LASTING = {"limits": None} | {"node.objects.inline_bytes": lambda it: None if it.are_many else INLINE_BYTES_TOTAL}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.are_many = False  # processes are told to write more of them into the arena
        self.limits: dict[str, int] = {}  # other nodes that have many -> bytes of what they are sent unasked

    @property
    def bytes_max(self) -> int:
        """Return the largest value that local processes send in messages, and other nodes send unasked."""
        usual: int = self.node.inline_bytes_max
        return min(self.node.objects.small_max, usual) if self.are_many else usual

    def end_turn(self) -> None:
        """Announce a changed limit to local processes and other nodes."""
        total = self.node.objects.inline_bytes
        if self.are_many != (total > (INLINE_BYTES_TOTAL // 2 if self.are_many else INLINE_BYTES_TOTAL)):
            self.are_many = not self.are_many
            for process in self.node.processes.values():
                self.tell(process)
            for peer in self.node.members.peers:
                self.node.send(peer, InlineLimit(self.bytes_max))

    def tell(self, process: Process) -> None:
        """Send the limit to a process."""
        self.node.send(process.address, InlineLimit(self.bytes_max))

    def node_joined(self, peer: str) -> None:
        """Send the limit to a new node, if it is not the default."""
        if self.are_many:
            self.node.send(peer, InlineLimit(self.bytes_max))

    @on(InlineLimit)
    def on_inline_limit(self, message: InlineLimit) -> None:
        """InlineLimit, from another node."""
        node = self.node
        self.limits.pop(node.sender, None)
        if message.bytes_max < node.inline_bytes_max and node.sender not in node.recovery.lost:
            self.limits[node.sender] = message.bytes_max

    def node_lost(self, lost: str) -> None:
        """Forget the limit of a lost node."""
        self.limits.pop(lost, None)

    def replaced(self, entry: ObjectEntry, value: bytes | StoredValue) -> bytes | StoredValue:
        """Replace the value of a task that has run again, or keep the known one.  Returns the value to store.

        The known value stays if it is in the arena, or if the new run has failed.
        """
        known = entry.value
        if type(known) is StoredValue and not entry.is_lost:
            return known
        self.node.objects.forget_value(entry)  # the one that stands there is counted again
        has_failed = is_error_value(value) and not is_error_value(known)
        return known if has_failed and known is not None else value

    def check_everything(self) -> None:
        """Assert that the count of bytes matches the values."""
        objects = self.node.objects
        counted, small_max = 0, objects.small_max
        for entry in objects.entries.values():
            if type(entry.value) is bytes and len(entry.value) > small_max:
                counted += len(entry.value)
        for task in self.node.tasks.values():
            if len(task.spec.args) > small_max:
                counted += len(task.spec.args)
        assert objects.inline_bytes == counted, f"{objects.inline_bytes} bytes of small values counted, {counted} here"
