"""A replica whose disk takes nothing, and for which the clients wait, says so: to the chain master, and that to them.

Nothing is decided by it.  It is for people: for the reasons of a wait that takes long, and for `zray status`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire.chain import STALL_CHARACTERS_MAX, ChainStalled

if TYPE_CHECKING:
    from .chain import ChainMember


class Stalls:
    """Of one member."""

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.told = ""  # what the master knows

    def why(self) -> str:
        """What its disk says; "": it takes what it is given, or nobody waits for it."""
        member = self.member
        if (log := member.journal) is not None and log.trouble and member.is_awaited:
            return log.trouble
        return member.flushing.trouble if member.flushing.is_over else ""

    def end_turn(self) -> None:
        """Say what is new."""
        member, why = self.member, self.why()
        if why != self.told:
            self.told = why
            member.send(member.master, ChainStalled(member.shard, [why[:STALL_CHARACTERS_MAX]] if why else []))

    def forget(self) -> None:
        """The master is another one, or has taken us out: it knows of nothing."""
        self.told = ""
