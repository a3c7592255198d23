"""Members whose processes are stopped, by SIGSTOP or by Ctrl-Z in a terminal: they neither end nor answer.

A member may calculate for as long as it likes, so that silence says nothing.  The kernel knows the difference.  A
member that waits therefore asks for the state of the others' processes: here, or by a short task on their node.  Two
looks in a row have to agree, since a program may stop a process for a moment.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api import objects
from ...api.decorator import remote
from ...exceptions import ZrayError
from ..scheduling_strategies import NodeAffinitySchedulingStrategy

if TYPE_CHECKING:
    from .meeting import Join

# Between two looks of one member.  They begin with the second one after so long.
LOOK_SECONDS = 1.0
FAR_LOOK_SECONDS = 2.0
STOPPED = "T"  # not "t": a debugger holds that one


def stopped_among(pids: Collection[int]) -> list[int]:
    """Return those of some processes of this node that are stopped."""
    return [pid for pid in pids if _state_of(pid) == STOPPED]


def _state_of(pid: int) -> str:
    """Return the letter of a process's state; "" for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class Suspects:
    """Processes of one node that were stopped at the last look."""

    def __init__(self) -> None:
        self._pids: set[int] = set()

    def confirmed(self, stopped: Iterable[int]) -> set[int]:
        """Return those that are stopped now, and were at the last look."""
        now = set(stopped)
        before, self._pids = self._pids, now
        return now & before


class Looks:
    """Looks of one member at the processes of all others.  members: these; node: of this one."""

    def __init__(self, members: Sequence[Join], node: str) -> None:
        self._members, self._node = members, node
        self._suspects = {member.node: Suspects() for member in members}
        self._asked: dict[Any, str] = {}  # node of each task that has not answered
        self._asked_at = time.monotonic()

    def stopped(self) -> Join | None:
        """Return a member whose process is stopped; None: there is none, as far as known.  For each LOOK_SECONDS."""
        found = {self._node: stopped_among(self._pids_on(self._node))}
        if self._asked:
            for ref in objects.wait(list(self._asked), num_returns=len(self._asked), timeout=0)[0]:
                node = self._asked.pop(ref)
                try:
                    found[node] = objects.get(ref)
                except ZrayError:
                    found[node] = []  # the look has failed: that says nothing
        elif time.monotonic() - self._asked_at >= FAR_LOOK_SECONDS:
            self._ask()
        for node, pids in found.items():
            for pid in self._suspects[node].confirmed(pids):
                return next(member for member in self._members if member.node == node and member.pid == pid)
        return None

    def _pids_on(self, node: str) -> list[int]:
        return [member.pid for member in self._members if member.node == node]

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        look: Any = remote(num_cpus=0, max_retries=0)(stopped_among)
        for node in self._suspects.keys() - {self._node}:
            there = NodeAffinitySchedulingStrategy(node)
            self._asked[look.options(scheduling_strategy=there).remote(self._pids_on(node))] = node


def text_of(group: str, name: str) -> str:
    """The text on a member that is stopped."""
    return (
        f"Group {group!r} is over: {name} is stopped, by SIGSTOP or Ctrl-Z: it does not answer until it is continued."
    )
