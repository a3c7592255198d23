"""Board: the async actor at which members on several nodes meet, and which passes their short messages.

Small tensors are added up here: two steps between nodes, for any number of ranks.

Values larger than a message are put into the object store, and only their refs pass the board: they travel from node to
node on the links of the cluster, encrypted, without a port of their own.

A member holds a generator of the board, `attend`, for as long as it is a member.  The end of its process ends the
generator, so that the board tells the others.  A board serves all groups of one name, one after the other.  No handle
keeps it: it ends a second after its last member.  A handle that is taken at the moment in which the last one is dropped
would reach an actor that ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ...api.actor_class import exit_actor
from ...api.runtime_context import get_runtime_context
from .errors import PAIRED, mismatch
from .meeting import Join, why_not

# Members that call at once.
CALLS_MAX = 100_000
# A board ends so long after its last member, or without one.
GRACE_SECONDS, FIRST_SECONDS = 1.0, 20.0
# In place of a rank, in payloads: for all others; and bytes of which all get the result of the call's operation.
EVERYONE, TOGETHER = -1, -2
# The key of a call of all ranks; that of a pair is the pair.
ALL = "all"


class Meeting:
    """Calls of ranks that wait for one another.  payloads: by rank, what each has for each rank."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.payloads: dict[int, tuple[Any, dict[int, Any]]] = {}
        self.result: bytes | None = None  # of what is `TOGETHER`
        self.is_complete = asyncio.Event()


class Team:
    """Entry of a group: gathering, then complete, then over."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.joined: dict[int, Join] = {}
        self.seen: set[int] = set()  # ranks that have come, though they may wait no longer
        self.left: set[int] = set()
        self.is_complete = asyncio.Event()
        self.over = ""  # why
        self.meetings: dict[Any, Meeting] = {}

    def end(self, text: str) -> None:
        """End the group: all calls that wait are told why."""
        self.over = self.over or text
        self.is_complete.set()
        for meeting in self.meetings.values():
            meeting.is_complete.set()

    def end_of(self, rank: int, what: str) -> str:
        """The text on a member that is gone."""
        return f"Group {self.name!r} is over: {self.joined[rank].name} {what}."


class Board:
    """Teams of one group's name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gathering: Team | None = None
        self.teams: dict[int, Team] = {}  # by number
        self.count = 0
        self.me: Any = get_runtime_context().current_actor
        self.attending = 0  # members of all teams
        # The task that ends the board when there are none; also if its maker dies before it is a member.
        self.ending = asyncio.create_task(self._end_after(FIRST_SECONDS))

    async def attend(self, me: Join) -> AsyncIterator[tuple[str, int, tuple[Join, ...]]]:
        """Join the group, and stay until this generator is closed.

        Yields:
            A refusal, or "" with the number of the team and all members, once they are there.
        """
        team = self.gathering
        if team is None:
            self.count += 1
            team = self.gathering = self.teams[self.count] = Team(self.name, me.size)
        number = self.count
        if not team.joined:
            team.size, team.seen = me.size, set()
        if refusal := why_not(self.name, me, team.joined.values()):
            yield refusal, number, ()
            return
        team.joined[me.rank] = me
        team.seen.add(me.rank)
        self.attending += 1
        try:
            if len(team.joined) == team.size:
                self.gathering = None
                team.is_complete.set()
            await team.is_complete.wait()
            yield team.over, number, tuple(team.joined[rank] for rank in sorted(team.joined))
            await asyncio.Event().wait()
        finally:
            self._gone(number, team, me.rank)
            self.attending -= 1
            if self.attending == 0:
                self.ending.cancel()
                self.ending = asyncio.create_task(self._end_after(GRACE_SECONDS))

    def _gone(self, number: int, team: Team, rank: int) -> None:
        """Note the end of a member's generator."""
        if not team.is_complete.is_set():
            del team.joined[rank]
            return
        if rank not in team.left:
            team.end(team.end_of(rank, "has ended: its process is gone"))
        team.left.add(rank)
        if len(team.left) == team.size:
            self.teams.pop(number, None)

    async def _end_after(self, seconds: float) -> None:
        """End the board, unless it has members then."""
        await asyncio.sleep(seconds)
        self.me.end_if_unused.remote()

    async def end_if_unused(self) -> None:
        """End the board, unless it has members.  A call of its own: the exit of a call is in order."""
        if self.attending == 0:
            exit_actor()

    async def present(self) -> tuple[int, ...]:
        """The ranks that have come to a group that is not complete."""
        return tuple(sorted(self.gathering.seen)) if self.gathering is not None else ()

    async def leave(self, number: int, rank: int, failure: str) -> None:
        """Leave a group, in order, or with the failure that the others are to hear of."""
        team = self.teams.get(number)
        if team is None or rank in team.left:
            return
        team.left.add(rank)
        if failure:
            team.end(failure)
        for meeting in list(team.meetings.values()):
            if rank in meeting.ranks and rank not in meeting.payloads:
                meeting.is_complete.set()

    async def why_over(self, number: int) -> str:
        """Why a group is over; "" if it goes on."""
        team = self.teams.get(number)
        if team is None:
            return f"Group {self.name!r} is over."
        return team.over or next((team.end_of(rank, "has left it") for rank in sorted(team.left)), "")

    async def exchange(
        self, number: int, rank: int, peer: int | None, header: Any, payloads: dict[int, Any]
    ) -> tuple[str, dict[int, tuple[Any, Any]]]:
        """Wait until all ranks, or a peer, have called, and return what each of them has for this rank.

        Args:
            number: of the team.
            rank: the caller.
            peer: the other rank of a send or recv; None: all ranks.
            header: of the caller's collective call; None: it goes on.
            payloads: by rank, or for `EVERYONE`, what the caller has for it.

        Returns:
            Why the group is over, or ""; and by other ranks, a header and a payload; by `TOGETHER`, the result.
        """
        team = self.teams.get(number)
        if team is None or team.over:
            return (team.over if team is not None else f"Group {self.name!r} is over."), {}
        wanted = tuple(range(team.size)) if peer is None else (min(rank, peer), max(rank, peer))
        key = ALL if peer is None else wanted
        meeting = team.meetings.get(key)
        if meeting is None:
            meeting = team.meetings[key] = Meeting(wanted)
        meeting.payloads[rank] = header, payloads
        if len(meeting.payloads) == len(wanted):
            del team.meetings[key]
            meeting.result = together(meeting)
            meeting.is_complete.set()
        elif gone := [other for other in wanted if other in team.left and other not in meeting.payloads]:
            return team.end_of(gone[0], "has left it"), {}
        elif text := conflict(team):
            team.end(text)
        await meeting.is_complete.wait()
        if len(meeting.payloads) < len(wanted):
            missing = next((other for other in wanted if other not in meeting.payloads), rank)
            return team.over or team.end_of(missing, "has left it"), {}
        answer = {
            other: (found, parts.get(rank, parts.get(EVERYONE)))
            for other, (found, parts) in meeting.payloads.items()
            if other != rank
        }
        return "", answer if meeting.result is None else {**answer, TOGETHER: (header, meeting.result)}


def together(meeting: Meeting) -> bytes | None:
    """Return the result of all payloads that are `TOGETHER`, in the order of the ranks; None without such.

    The ranks find out themselves that their calls differ: then there is no result either.
    """
    header, parts = meeting.payloads[meeting.ranks[0]]
    of_all = [meeting.payloads[rank] for rank in meeting.ranks]
    if TOGETHER not in parts or any(other != header for other, _ in of_all):
        return None
    import numpy

    from .exchange import combined
    from .tensors import combiner_of
    from .types import ReduceOp

    vectors = [numpy.frombuffer(each[TOGETHER], header.dtype) for _, each in of_all]
    result = numpy.empty_like(vectors[0])
    combined(vectors, combiner_of(ReduceOp[header.detail.split()[0]], header.dtype), result)
    return result.tobytes()


def conflict(team: Team) -> str:
    """Return a text on ranks that wait for one other, which waits for all; "" if there are none."""
    of_all = team.meetings.get(ALL)
    if of_all is None:
        return ""
    for key, meeting in team.meetings.items():
        if key != ALL and any(rank in of_all.payloads for rank in key):
            ranks_by_header: dict[Any, list[int]] = {}
            for each in (meeting, of_all):
                for rank, (header, _) in sorted(each.payloads.items()):
                    if header is None or (each is meeting) != (header.function in PAIRED):
                        return ""
                    ranks_by_header.setdefault(header, []).append(rank)
            return str(mismatch(team.name, ranks_by_header))
    return ""
