"""GetNodes requests of a host's processes: passed on to a global scheduler, and again if that scheduler ends."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ..wire.hosts import GetNodes, NodesReply
from .effects import Send

# The limit for all processes of a host together.
INQUIRIES_MAX = 10_000


class Inquiry(Struct, eq=False):
    """A request without an answer."""

    asked: GetNodes
    answer: Callable[[NodesReply], None]
    scheduler: str  # that it was passed on to


class Inquiries:
    """The open requests of a host."""

    def __init__(self) -> None:
        self.open: dict[int, Inquiry] = {}
        self.count = 0

    def ask(self, scheduler: str, asked: GetNodes, answer: Callable[[NodesReply], None]) -> Send:
        """Pass a request on to a global scheduler."""
        if len(self.open) >= INQUIRIES_MAX:
            self.open.pop(next(iter(self.open)))  # whoever asked waits no longer: the answer takes a moment
        self.count += 1
        self.open[self.count] = Inquiry(asked, answer, scheduler)
        return Send(scheduler, GetNodes(self.count, asked.with_dead))

    def answered(self, reply: NodesReply) -> None:
        """Give the reply to the requester."""
        inquiry = self.open.pop(reply.request, None)
        if inquiry is not None:
            inquiry.answer(NodesReply(inquiry.asked.request, reply.nodes))

    def ask_again(self, scheduler: str, gone: str = "") -> list[Send]:
        """Ask another scheduler again for all requests to a scheduler that is gone; gone "": all requests."""
        again = []
        for number, inquiry in self.open.items():
            if not gone or inquiry.scheduler == gone:
                inquiry.scheduler = scheduler
                again.append(Send(scheduler, GetNodes(number, inquiry.asked.with_dead)))
        return again
