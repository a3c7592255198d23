"""Answers why something is not there yet (Explain): our own reasons, and those of one other node.

The question goes one hop: a node that is asked by another one says what it knows, and asks nobody.  Who does not
answer in HOP_SECONDS is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ....wire.amounts import name_of
from ....wire.reasons import EXPLAINED_MAX, LINE_CHARACTERS_MAX, LINES_MAX, Explain, ExplainReply
from ...role import on
from .reasons import Hop, Reasons

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Less than who asks at the end of a timeout waits for us (1 s, host/client/slow_wait_report.py).
HOP_SECONDS = 0.8
# Questions under way to other nodes; further ones are answered without.
ASKED_COUNT_MAX = 100


class Asked(Struct, gc=False):
    """A question that another node has part of the answer to."""

    asker: str
    request: int  # the asker's
    lines: list[str]
    hop: Hop


class Explanations:
    """The questions of one node's processes."""

    PASSING = {"asked": "ASKED_COUNT_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.asked: dict[int, Asked] = {}
        self.count = 0

    @on(Explain)
    def on_explain(self, message: Explain) -> None:
        """Explain, of a process of ours or of another node."""
        node = self.node
        process = node.processes.get(node.sender)
        if process is None and node.sender not in node.members.peers:
            node.reject("a question of a process that is gone")
            return
        reasons = Reasons(node)
        if process is not None and (silence := node.members.silence()):
            reasons.say(0, silence)
            if node.members.suspension.is_on:
                node.send(node.sender, ExplainReply(message.request, reasons.lines))
                return
        for stall in node.members.stalls() if process is not None else ():
            reasons.say(0, stall)
        worker = process.worker if process is not None else None
        if worker is None or not reasons.of_process(worker, 0):
            awaited, left_out = reasons.awaited_by(worker, message)
            for object_id in awaited[:EXPLAINED_MAX]:
                reasons.of_object(object_id, 0)
            left_out += len(awaited[EXPLAINED_MAX:])
            if left_out:
                reasons.lines.append(f"and {left_out:,} more")
        hop = reasons.hop
        if process is None or hop is None or hop.node not in node.members.peers or len(self.asked) >= ASKED_COUNT_MAX:
            node.send(node.sender, ExplainReply(message.request, reasons.lines))
            return
        self.count += 1
        self.asked[self.count] = Asked(node.sender, message.request, reasons.lines, hop)
        node.send(hop.node, Explain(self.count, [hop.object_id]))
        node.after(HOP_SECONDS, self.answer_alone, self.count)

    @on(ExplainReply)
    def on_reply(self, message: ExplainReply) -> None:
        """ExplainReply, of the other node."""
        asked = self.asked.get(message.request)
        if asked is not None and self.node.sender == asked.hop.node:
            self._answer(message.request, message.lines[:LINES_MAX])

    def answer_alone(self, request: int) -> None:
        """The other node has not answered in time."""
        if request in self.asked:
            self._answer(request, [f"no answer within {HOP_SECONDS:g} s"])

    def _answer(self, request: int, heard: list[str]) -> None:
        asked = self.asked.pop(request)
        hop, node = asked.hop, self.node
        indent = "  " * hop.depth
        theirs = [f"{indent}{line}"[:LINE_CHARACTERS_MAX] for line in heard]
        if theirs:
            theirs[0] = f"{indent}on node {name_of(hop.node)}: {heard[0]}"[:LINE_CHARACTERS_MAX]
        if asked.asker in node.processes:
            lines = [*asked.lines[: hop.line], *theirs, *asked.lines[hop.line :]]
            node.send(asked.asker, ExplainReply(asked.request, lines[: 2 * LINES_MAX]))
