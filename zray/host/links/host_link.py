"""Another host of the cluster, as this one sees it: its key, its link, what it may say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from ...wire.allowed import NOTHING, ROLES_OF_KEY, Types, allowed_between, kind_of
from ...wire.claims import CLAIMS
from ...wire.codec import Letter, Mail, encode_mail
from ...wire.link import MailLink
from ...wire.message import Local
from ..security.keyring import Key
from .dialer import Dealer
from .heartbeat_channel import Pulse
from .listener import Wire

if TYPE_CHECKING:
    from .host_links import Neighbours


class Retry(Local):
    """Try to reach a host again, or give up an attempt that leads nowhere."""

    host: str
    attempt: int

    def due(self, links: Neighbours) -> None:
        """Where nothing came of that attempt."""
        it = links.by_host.get(self.host)
        if it is not None and it.attempt == self.attempt and not it.is_up:
            links.hang_up(it)
            links.connect(it)


class Cut(Local):
    """The last word on a connection has left by now."""

    wire: Wire

    def due(self, links: Neighbours) -> None:
        """So it ends."""
        self.wire.cut()


class Loop(Protocol):
    """What the neighbours need of the reactor."""

    def watch(self, descriptor: int, action: Callable[[], None]) -> None: ...

    def unwatch(self, descriptor: int) -> None: ...

    def set_timer(self, delay: float, address: str, message: Local) -> None: ...


# A host whose connection answers, and which takes nothing: far longer than any pause of one that still is a member.
STUCK_SECONDS = 60
# A program outside of the cluster may be silent for longer than that (monitor.DRIVER_WAIT_SECONDS): the results of its
# tasks wait for it, with each node that has some.  A breath of a bad network is no silence.
HELD_BYTES_MAX = 64 << 20
HELD_SECONDS = 5
# What a message costs beside its bytes while it waits.
OBJECT_BYTES = 200
# How long a farewell may take to leave.
LAST_WORDS_MS = 200
CUT_SECONDS = 0.2
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.05, 1.0
# One that is there and does not let us in is about to be told of us, as a rule; and somebody may wait for what it has
# to say (the new tail of a chain).
DENIED_SECONDS_MIN = 0.005
# One that has let us in before, and refuses our key so often in a row: it has forgotten us.
DENIALS = 3


class Neighbour(Struct, eq=False):
    """Another host."""

    host: str
    key: Key
    endpoint: str  # where we connect to; "": it connects to us
    down_since: float
    link: MailLink = field(default_factory=MailLink)
    backlog: list[Letter] = []  # what the link is too full for, or not up for
    weighed: int = 0  # so many of its letters
    backlog_bytes: int = 0  # of these
    identity: bytes = b""  # of its connection to us
    wire: Wire | None = None  # that connection
    seen_at: str = ""  # the address that it came from
    dealer: Dealer | None = None  # ours to it
    pulse: Pulse | None = None  # beside the link
    is_detour: bool = False  # our last attempt went through a tunnel
    is_denied: bool = False  # our last attempt was: it is there
    is_up: bool = False
    attempt: int = 0  # counts them all
    failures: int = 0  # since it was up
    allowed: dict[tuple[str, str], Types] = {}
    stuck: tuple[int, int, float] = (0, 0, 0.0)  # the last frame that it has taken; for how many seconds; when counted

    def __post_init__(self) -> None:
        self.stuck = (0, 0, self.down_since)

    def become(self, host: str) -> None:
        """A process that starts anew is a new peer: whatever was agreed with the one before is over."""
        self.host = host
        self.key = Key(self.key.public, self.key.kind, host)
        self.link = MailLink()
        self.take_backlog()
        self.allowed.clear()

    def failed(self, is_denied: bool) -> float:
        """An attempt of ours has; how long until the next one."""
        self.attempt += 1
        self.failures += 1
        self.is_denied = is_denied
        if is_denied and not self.link.received:
            # A newcomer, which is about to be told of us.  A chain lets it in within some 20 ms, and from then on we
            # wait for its word.
            return min(RETRY_SECONDS_MAX, DENIED_SECONDS_MIN * 2 ** max(0, min(self.failures, 14) - 4))
        first = DENIED_SECONDS_MIN if is_denied else RETRY_SECONDS_MIN
        return min(RETRY_SECONDS_MAX, first * 2 ** min(self.failures - 1, 10))

    def came_up(self) -> None:
        """It is there, and has a moment to take what it missed; not anew each time that it comes."""
        self.is_up = True
        self.failures = 0
        taken, seconds, counted_at = self.stuck
        self.stuck = (taken, min(seconds, HELD_SECONDS - 1), counted_at)

    def why_stuck(self, now: float) -> str:
        """Why we can keep no more for it; "" while we can.  It has taken nothing, though there is more than the link
        may hold, or no connection: for STUCK_SECONDS; or we keep more than HELD_BYTES_MAX for a program that sleeps.

        What piles up for it has an end by that.  Counted in steps of ours: where we stood still, one has passed.
        Said once a second.
        """
        taken, (last_taken, seconds, counted_at) = self.link.peer_acknowledged, self.stuck
        if last_taken != taken or (self.is_up and not self.link.is_full):
            self.stuck = (taken, 0, now)
        elif now - counted_at >= 1.0:
            seconds += 1
            self.stuck = (taken, seconds, now)
            if seconds >= STUCK_SECONDS and self.is_up:
                return "it acknowledges no message"
            if seconds >= HELD_SECONDS and self.key.kind == "driver" and self.held_bytes() > HELD_BYTES_MAX:
                held = f"more than {HELD_BYTES_MAX >> 20} MiB wait here for it"
                return f"{held}, and it has acknowledged nothing for {seconds} s"
        return ""

    def held_bytes(self) -> int:
        """What it has not taken, in memory of ours: as frames, and as objects."""
        if new := self.backlog[self.weighed :]:
            self.weighed = len(self.backlog)
            count = sum(len(letter.messages) for letter in new)
            self.backlog_bytes += len(encode_mail(Mail(0, 0, 0, new))[0]) + count * OBJECT_BYTES
        return self.link.in_flight_bytes + self.backlog_bytes

    def take_backlog(self) -> list[Letter]:
        """All of it: it leaves."""
        backlog, self.backlog = self.backlog, []
        self.weighed = self.backlog_bytes = 0
        return backlog

    def sift(self, letter: Letter, roles: set[str]) -> tuple[Letter, list[str]]:
        """What may stand in it; why the rest may not."""
        allowed, key = self.may_say(letter, roles), self.key
        kept, reasons = [], []
        for message in letter.messages:
            claim = CLAIMS.get(type(message))
            if type(message) not in allowed:
                who, whom = letter.source[:80], letter.target[:80]
                reasons.append(f"PermissionDenied: {who} may not send {type(message).__name__} to {whom}")
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
            if kind_of(letter.source) == "gcs" and self.key.kind == "replica" and letter.source not in self.key.roles:
                return NOTHING  # of another shard than it was given
            if not is_its_own or letter.target not in roles:
                return NOTHING
            found = self.allowed[pair] = allowed_between(*pair)
        return found


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
