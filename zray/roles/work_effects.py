"""What becomes of a node's work where it cannot go on as ever: effects (as in effects.py)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..wire.message import Local


class HoldBack(Struct, gc=False):
    """Have our processes say no more than their links hold; or let them go on, when all who asked for it say so."""

    is_held: bool


class StopWorkers(Struct, gc=False):
    """Stop all workers where they are (SIGSTOP), with what they have started; or let them go on (SIGCONT)."""

    are_stopped: bool


class InterruptWorker(Struct, gc=False):
    """Interrupt the user code of a worker, which finds out by InterruptTask for which task that is meant."""

    worker: str


class HearAgain(Struct):
    """What a role has kept as it came: have it handle that now, in that order, ahead of anything else.

    kept: (sender, message)
    """

    kept: list[tuple[str, Any]]


class HeadIsAlone(Struct, gc=False):
    """Tell whoever looks after the head that it hears of no other machine; or that it does again."""

    is_so: bool


class OthersUnheard(Local):
    """To the head's local scheduler: no other machine is heard of, in words; "": one is."""

    words: str


class RoomWanted(Local):
    """Object manager -> local scheduler: a writer, or a value on its way here, finds no room in the store."""


class CountStore(Local):
    """Local scheduler -> object manager: how much of the store is in use?"""


class StoreCounted(Local):
    """Object manager -> local scheduler: so many bytes of it are."""

    used: int


class WriteLine(Struct, gc=False):
    """Write a line into the node's log."""

    text: str


class SessionEnds(Local):
    """To the local scheduler: have actors stop that have something to run first.  Outcome: ActorsHaveStopped."""


class ActorsHaveStopped(Struct, gc=False):
    """The session may end now (SessionEnds)."""


WorkEffect = HoldBack | StopWorkers | InterruptWorker | HearAgain | HeadIsAlone | ActorsHaveStopped | WriteLine
