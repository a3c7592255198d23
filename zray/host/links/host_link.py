"""The link to another host of the cluster: key, connection, permissions."""

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
from .bulk_lane import BulkLane
from .dialer import Dealer
from .heartbeat_channel import Pulse
from .listener import Wire

if TYPE_CHECKING:
    from .host_links import Neighbours


class Retry(Local):
    """A new attempt to reach a host is due, or the end of an attempt without result."""

    host: str
    attempt: int

    def due(self, links: Neighbours) -> None:
        """Connect again, unless that attempt succeeded."""
        it = links.by_host.get(self.host)
        if it is not None and it.attempt == self.attempt and not it.is_up:
            links.hang_up(it)
            links.connect(it)


class Cut(Local):
    """The last word on a connection has left by now."""

    wire: Wire

    def due(self, links: Neighbours) -> None:
        """Cut the connection."""
        self.wire.cut()


class Loop(Protocol):
    """The part of the reactor that the links use."""

    def watch(self, descriptor: int, action: Callable[[], None]) -> None: ...

    def unwatch(self, descriptor: int) -> None: ...

    def set_timer(self, delay: float, address: str, message: Local) -> None: ...

    def deliver_from_thread(self, role: str, message: Local) -> None: ...


# Limit for a host whose connection is up but which acknowledges nothing: far longer than any pause of a member.
STUCK_SECONDS = 60
# A program outside the cluster may be silent for longer (monitor.DRIVER_WAIT_SECONDS): its tasks' results wait on each
# node that has some.  A short network failure is no silence.
HELD_BYTES_MAX = 64 << 20
HELD_SECONDS = 5
# Memory of a waiting message beside its bytes.
OBJECT_BYTES = 200
# How long a farewell may take to leave.
LAST_WORDS_MS = 200
CUT_SECONDS = 0.2
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.05, 1.0
# A host that refuses our key is, as a rule, about to be told of us; and another host may wait for its messages
# (the new tail of a chain).
DENIED_SECONDS_MIN = 0.005
# A host that admitted us before, and refuses our key so often in a row, has forgotten us.
DENIALS = 3


class Neighbour(Struct, eq=False):
    """Another host."""

    host: str
    key: Key
    endpoint: str  # where we connect to; "": it connects to us
    down_since: float
    link: MailLink = field(default_factory=MailLink)
    backlog: list[Letter] = []  # what the link is too full for, or not up for
    lane: BulkLane = field(default_factory=BulkLane)  # chunks of objects, behind all of that
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
        """Reset the state for a restarted process: a new peer shares nothing with the former one."""
        self.host = host
        self.key = Key(self.key.public, self.key.kind, host)
        self.link = MailLink()
        self.take_backlog()
        self.lane = BulkLane()
        self.allowed.clear()

    def failed(self, is_denied: bool) -> float:
        """Note a failed attempt.  Returns the seconds until the next."""
        self.attempt += 1
        self.failures += 1
        self.is_denied = is_denied
        if is_denied and not self.link.received:
            # A newcomer, about to be told of us.  A chain admits it within some 20 ms, and from then on we wait for its
            # messages.
            return min(RETRY_SECONDS_MAX, DENIED_SECONDS_MIN * 2 ** max(0, min(self.failures, 14) - 4))
        first = DENIED_SECONDS_MIN if is_denied else RETRY_SECONDS_MIN
        return min(RETRY_SECONDS_MAX, first * 2 ** min(self.failures - 1, 10))

    def came_up(self) -> None:
        """Note that the link is up: the host gets a moment for its backlog, but no more after further reconnections."""
        self.is_up = True
        self.failures = 0
        taken, seconds, counted_at = self.stuck
        self.stuck = (taken, min(seconds, HELD_SECONDS - 1), counted_at)

    def why_stuck(self, now: float) -> str:
        """Return why this host may keep no more messages for the other; "": it may.

        The reason is no acknowledgement for STUCK_SECONDS, despite a full link, or a sleeping program with a backlog
        above HELD_BYTES_MAX.  So a backlog is bounded.  Time is counted in steps of this process: a suspension counts
        as a single step.  For calls once a second.
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
        """Return the bytes of unacknowledged messages in memory: as frames, and as objects."""
        if new := self.backlog[self.weighed :]:
            self.weighed = len(self.backlog)
            count = sum(len(letter.messages) for letter in new)
            self.backlog_bytes += len(encode_mail(Mail(0, 0, 0, new))[0]) + count * OBJECT_BYTES
        return self.link.in_flight_bytes + self.backlog_bytes

    def take_backlog(self) -> list[Letter]:
        """Take the whole backlog, to be sent."""
        backlog, self.backlog = self.backlog, []
        self.weighed = self.backlog_bytes = 0
        return backlog

    def sift(self, letter: Letter, roles: set[str]) -> tuple[Letter, list[str]]:
        """Return the permitted part of a letter, and the reasons for refusals."""
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
        """Return the message types allowed in a letter: from a role of the other host, permitted by its key, to one of
        `roles`.
        """
        pair = (letter.source, letter.target)
        found = self.allowed.get(pair)
        if found is None:
            host = letter.source.partition("/")[0]
            is_its_own = host == self.host and kind_of(letter.source) in ROLES_OF_KEY.get(self.key.kind, ())
            if kind_of(letter.source) == "gcs" and self.key.kind == "replica" and letter.source not in self.key.roles:
                return NOTHING  # a shard other than the replica's own
            if not is_its_own or letter.target not in roles:
                return NOTHING
            found = self.allowed[pair] = allowed_between(*pair)
        return found


UNMET_HOSTS_MAX = 64
UNMET_LETTERS_MAX = 1_000


class Unmet:
    """Mail for hosts not yet announced, or for invented names: so limited."""

    def __init__(self) -> None:
        self.letters: dict[str, list[Letter]] = {}

    def keep(self, host: str, letters: list[Letter]) -> bool:
        """Keep letters.  False: too many; the host's letters are dropped."""
        kept = self.letters.setdefault(host, [])
        if len(self.letters) > UNMET_HOSTS_MAX or len(kept) + len(letters) > UNMET_LETTERS_MAX:
            del self.letters[host]
            return False
        kept += letters
        return True

    def take(self, host: str) -> list[Letter]:
        """Take the letters kept for a host."""
        return self.letters.pop(host, [])
