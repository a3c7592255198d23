"""An outside view of a replica: its invariants, and its counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .chain import ChainMember


def check_member(member: ChainMember) -> None:
    """Assert every invariant of a member's state."""
    if member.replica is None:
        return
    member.replica.shard.check_everything()
    for session in member.replica.sessions.values():
        numbers = [result.number for result in session.results]
        assert numbers == list(range(session.produced + 1 - len(numbers), session.produced + 1)), "results missing"
    sequences = [update.sequence for update in member.history]
    assert sequences == list(range(member.forgotten + 1, member.forgotten + 1 + len(sequences))), "history with gaps"
    assert not sequences or sequences[-1] == member.replica.sequence, "a history that ends too early"


def count_member(member: ChainMember) -> dict[str, Any]:
    """Return the counters for status and load reports."""
    counts = member.replica.shard.statistics() if member.replica is not None else {}
    if member.journal is not None and member.journal.refused:
        counts["refuses"] = member.journal.refused
    refusals = (("does not flush", member.flushing.refused), ("hands nothing over", member.handover.refused))
    counts.update({what: why for what, why in refusals if why})
    return {"epoch": member.epoch, "sequence": member.sequence, "history": len(member.history), **counts}
