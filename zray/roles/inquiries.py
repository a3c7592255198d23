"""What processes of a host ask of a global scheduler (GetNodes): passed on, and again when that one is gone."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ..wire.hosts import GetNodes, NodesReply
from .effects import Send

# Of all processes of a host together.
INQUIRIES_MAX = 10_000


class Inquiry(Struct, eq=False):
    """One that is not answered."""

    asked: GetNodes
    answer: Callable[[NodesReply], None]
    scheduler: str  # that it was passed on to


class Inquiries:
    """Of one host."""

    def __init__(self) -> None:
        self.open: dict[int, Inquiry] = {}
        self.count = 0

    def ask(self, scheduler: str, asked: GetNodes, answer: Callable[[NodesReply], None]) -> Send:
        """Pass one on."""
        if len(self.open) >= INQUIRIES_MAX:
            self.open.pop(next(iter(self.open)))  # whoever asked waits no longer: the answer takes a moment
        self.count += 1
        self.open[self.count] = Inquiry(asked, answer, scheduler)
        return Send(scheduler, GetNodes(self.count, asked.with_dead))

    def answered(self, reply: NodesReply) -> None:
        """Tell whoever it is for."""
        inquiry = self.open.pop(reply.request, None)
        if inquiry is not None:
            inquiry.answer(NodesReply(inquiry.asked.request, reply.nodes))

    def ask_again(self, scheduler: str, gone: str = "") -> list[Send]:
        """What that one was asked is asked of another scheduler; gone "": what any was asked."""
        again = []
        for number, inquiry in self.open.items():
            if not gone or inquiry.scheduler == gone:
                inquiry.scheduler = scheduler
                again.append(Send(scheduler, GetNodes(number, inquiry.asked.with_dead)))
        return again
