"""Another host of the cluster, as this one sees it: its key, its link, what it may say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..wire.allowed import NOTHING, ROLES_OF_KEY, Types, allowed_between, kind_of
from ..wire.claims import CLAIMS
from ..wire.codec import Letter
from ..wire.link import MailLink
from ..wire.message import Local
from .dealing import Dealer
from .keys import Key
from .listener import Wire


class Retry(Local):
    """Try to reach a host again, or give up an attempt that leads nowhere."""

    host: str
    attempt: int


class Cut(Local):
    """The last word on a connection has left by now."""

    wire: Wire


class Loop(Protocol):
    """What the neighbours need of the reactor."""

    def watch(self, descriptor: int, action: Callable[[], None]) -> None: ...

    def unwatch(self, descriptor: int) -> None: ...

    def set_timer(self, delay: float, address: str, message: Local) -> None: ...


# A host whose connection answers, and which takes nothing: far longer than any pause of one that still is a member.
STUCK_SECONDS = 60
# How long a farewell may take to leave.
LAST_WORDS_MS = 200
CUT_SECONDS = 0.2
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.05, 1.0
# One that is there and does not let us in is about to be told of us, as a rule; and somebody may wait for what it has
# to say (the new tail of a chain).
DENIED_SECONDS_MIN = 0.005
# One that has let us in before, and refuses our key so often in a row: it has forgotten us.
DENIALS = 3


class Neighbour:
    """Another host."""

    __slots__ = (
        "allowed",
        "attempt",
        "backlog",
        "dealer",
        "down_since",
        "endpoint",
        "failures",
        "host",
        "identity",
        "is_detour",
        "is_up",
        "key",
        "link",
        "seen_at",
        "stuck",
        "wire",
    )

    def __init__(self, host: str, key: Key, endpoint: str, now: float) -> None:
        self.host = host
        self.key = key
        self.endpoint = endpoint  # where we connect to; "": it connects to us
        self.link = MailLink()
        self.backlog: list[Letter] = []  # what the link is too full for, or not up for
        self.identity = b""  # of its connection to us
        self.wire: Wire | None = None  # that connection
        self.seen_at = ""  # the address that it came from
        self.dealer: Dealer | None = None  # ours to it
        self.is_detour = False  # our last attempt went through a tunnel
        self.is_up = False
        self.down_since = now
        self.attempt = 0  # counts them all
        self.failures = 0  # since it was up
        self.allowed: dict[tuple[str, str], Types] = {}
        self.stuck = (0, 0, now)  # the last frame that it has taken; for how many seconds, counted last when

    def become(self, host: str) -> None:
        """A process that starts anew is a new peer: whatever was agreed with the one before is over."""
        self.host = host
        self.key = Key(self.key.public, self.key.kind, host)
        self.link = MailLink()
        self.backlog = []
        self.allowed.clear()

    def failed(self, is_denied: bool) -> float:
        """An attempt of ours has; how long until the next one."""
        self.attempt += 1
        self.failures += 1
        first = DENIED_SECONDS_MIN if is_denied else RETRY_SECONDS_MIN
        return min(RETRY_SECONDS_MAX, first * 2 ** min(self.failures - 1, 10))

    def is_stuck(self, now: float) -> bool:
        """Whether it has taken nothing for STUCK_SECONDS, though there is more than the link may hold.

        What piles up for it has an end by that: what we say in so long.  Counted in steps of ours: where we stood
        still, one has passed.
        """
        taken, (last_taken, seconds, counted_at) = self.link.peer_acknowledged, self.stuck
        if not self.link.is_full or last_taken != taken:
            self.stuck = (taken, 0, now)
        elif now - counted_at >= 1.0:
            self.stuck = (taken, seconds + 1, now)
        return self.stuck[1] >= STUCK_SECONDS

    def sift(self, letter: Letter, roles: set[str]) -> tuple[Letter, list[str]]:
        """What may stand in it; why the rest may not."""
        allowed, key = self.may_say(letter, roles), self.key
        kept, reasons = [], []
        for message in letter.messages:
            claim = CLAIMS.get(type(message))
            if type(message) not in allowed:
                who, whom = letter.source[:80], letter.target[:80]
                reasons.append(f"PermissionDenied: {who} may not say {type(message).__name__} to {whom}")
            elif claim is not None and (reason := claim(message, letter.source, key.kind, key.public)):
                reasons.append(f"PermissionDenied: {reason}")
            else:
                kept.append(message)
        return (Letter(letter.source, letter.target, kept), reasons) if reasons else (letter, reasons)

    def may_say(self, letter: Letter, roles: set[str]) -> Types:
        """What may stand in such a letter: from a role of its own, that its key may speak for, to one of `roles`."""
        pair = (letter.source, letter.target)
        found = self.allowed.get(pair)
        if found is None:
            host = letter.source.partition("/")[0]
            is_its_own = host == self.host and kind_of(letter.source) in ROLES_OF_KEY.get(self.key.kind, ())
            if self.key.kind == "replica" and letter.source not in self.key.roles:
                return NOTHING  # of another shard than it was given
            if not is_its_own or letter.target not in roles:
                return NOTHING
            found = self.allowed[pair] = allowed_between(*pair)
        return found


# The first question comes with the news; the others double their distance up to 1.3 s after it.  (On a busy machine
# libzmq's thread may be stopped between telling its monitor and telling its socket.)
DOUBT_SECONDS = 0.005
DOUBTS_MAX = 8


class Doubt(Local):
    """A connection to us has ended, and may be this one: does libzmq know by now?"""

    neighbour: Neighbour
    identity: bytes
    count: int = 0

    @property
    def seconds(self) -> float:
        """How long until the next question."""
        return DOUBT_SECONDS * 2**self.count

    def again(self) -> Doubt:
        """That question."""
        return Doubt(self.neighbour, self.identity, self.count + 1)


UNMET_HOSTS_MAX = 64
UNMET_LETTERS_MAX = 1_000


class Unmet:
    """Mail for hosts that we are about to be told of; or that somebody made up: so not without end."""

    def __init__(self) -> None:
        self.letters: dict[str, list[Letter]] = {}

    def keep(self, host: str, letters: list[Letter]) -> bool:
        """False: there is too much of it; that host's is dropped."""
        kept = self.letters.setdefault(host, [])
        if len(self.letters) > UNMET_HOSTS_MAX or len(kept) + len(letters) > UNMET_LETTERS_MAX:
            del self.letters[host]
            return False
        kept += letters
        return True

    def take(self, host: str) -> list[Letter]:
        """What was kept for it."""
        return self.letters.pop(host, [])
