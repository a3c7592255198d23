"""A link: ordered, exactly-once delivery between two processes, over connections that may break.

Each frame has a sequence number.  A frame is kept until the other side acknowledges the frame.  Every frame back
carries an acknowledgement.  When a broken connection is back, both sides send unacknowledged frames again, and drop
duplicates.  The roles above never notice.  A restarted process has a new epoch.  Frames of another epoch do not belong
to this link.

Bytes in flight are bounded (`is_full`).  Flow control happens here, never by a socket's high-water mark.  A receiver
that withholds acknowledgements (`hold`) therefore stops its sender, and receives all frames sent until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ..exceptions import ProtocolError
from . import chain
from .codec import Envelope, Letter, Mail, decode, encode, encode_mail
from .message import Bulk, Message

# A sender stops at this amount: many times the amount of an acknowledgement, so that the socket is never idle.  The
# amount is small enough to hold for a slow reader (a million queued tasks are some 100 MB of frames).
IN_FLIGHT_BYTES_MAX = 8 << 20
# A separate acknowledgement is due after so many frames or bytes without a frame in the other direction.
ACKNOWLEDGE_FRAMES = 64
ACKNOWLEDGE_BYTES = 1 << 20


class Link:
    """A side of a link."""

    __slots__ = (
        "epoch",
        "sent",
        "received",
        "peer_acknowledged",
        "told",
        "unacknowledged",
        "in_flight_bytes",
        "received_bytes",
        "is_held",
    )

    def __init__(self, epoch: int = 1) -> None:
        self.epoch = epoch
        self.sent = 0  # sequence of the last frame sent
        self.received = 0  # sequence of the last frame received in order
        self.peer_acknowledged = 0
        self.told = 0  # the last `received` that the peer knows
        self.received_bytes = 0  # bytes since the last acknowledgement
        self.is_held = False  # the peer gets no acknowledgement, and stops when its bytes in flight reach the bound
        self.unacknowledged: deque[tuple[int, Any]] = deque()
        self.in_flight_bytes = 0

    def pack(self, messages: Sequence[Message]) -> bytes:
        """The next frame.  Messages that cannot be encoded leave the link unchanged."""
        told = self.told if self.is_held else self.received
        frame = encode(Envelope(self.epoch, self.sent + 1, told, messages))  # type: ignore[arg-type]
        self.sent += 1
        self.told = told
        self.received_bytes = 0
        self.unacknowledged.append((self.sent, frame))
        self.in_flight_bytes += len(frame)
        return frame

    def unpack(self, frame: bytes) -> Sequence[Message]:
        """The messages of a frame; none if the frame is a duplicate or out of order.

        Raises:
            ProtocolError: not a frame, or of another epoch.
        """
        envelope = decode(frame)
        return envelope.messages if self._is_next(envelope, len(frame)) else ()

    def _is_next(self, envelope: Envelope | Mail, size: int) -> bool:
        """Take in the head of a frame.  False: a duplicate, or a gap that the peer's resend will fill in order."""
        if envelope.epoch != self.epoch:
            raise ProtocolError(f"a frame of epoch {envelope.epoch} on a link of epoch {self.epoch}")
        self._acknowledge(envelope.acknowledged)
        if envelope.sequence != self.received + 1:
            return False
        self.received += 1
        self.received_bytes += size
        return True

    def _acknowledge(self, sequence: int) -> None:
        if sequence > self.sent:
            raise ProtocolError(f"frame {sequence} acknowledged, but {self.sent} is the last one sent")
        if sequence > self.peer_acknowledged:
            self.peer_acknowledged = sequence
            unacknowledged = self.unacknowledged
            while unacknowledged and unacknowledged[0][0] <= sequence:
                self.in_flight_bytes -= len(unacknowledged.popleft()[1])

    def resend(self) -> list[Any]:
        """Every frame that may not have arrived, in order; sent after a break."""
        return [frame for _, frame in self.unacknowledged]

    @property
    def is_full(self) -> bool:
        """True if further frames must wait for an acknowledgement."""
        return self.in_flight_bytes > IN_FLIGHT_BYTES_MAX

    @property
    def owes_acknowledgement(self) -> bool:
        """True if an otherwise silent receiver should now send an Ack."""
        much = self.received - self.told >= ACKNOWLEDGE_FRAMES or self.received_bytes >= ACKNOWLEDGE_BYTES
        return much and not self.is_held

    def hold(self, is_held: bool) -> bool:
        """Stop the peer, or let the peer continue.  True: an acknowledgement must be sent."""
        self.is_held = is_held
        return not is_held and self.received > self.told


# A longer frame of mail is cut in two if possible.  The receiver begins sooner, and the messages of a turn never exceed
# the limit of the socket.
MAIL_BYTES_MAX = 8 << 20
# Bulk data behind one frame, unless a single message has more.  A frame arrives only with its last part.
MAIL_BULK_BYTES_MAX = 1 << 20


class Parts(Struct, eq=False):
    """A frame of mail, and the bulk data behind the frame.

    The length counted by the link is the length of the frame alone.  The receiver has requested the bulk data, and
    bounds its amount (objects.py).  No copy of the bulk data is kept.
    """

    head: bytes
    bulk: Sequence[Bulk]

    def __len__(self) -> int:
        return len(self.head)

    @property
    def bulk_bytes(self) -> int:
        """The size of the bulk data behind the frame."""
        return sum(map(len, self.bulk))


MailFrame = bytes | Parts


class MailLink(Link):
    """A side of a link between hosts, with Mail as its frames."""

    __slots__ = ()

    def pack_mail(self, letters: list[Letter]) -> list[MailFrame]:
        """The next frame, or several frames if a single frame would be too long."""
        head, bulk = encode_mail(Mail(self.epoch, self.sent + 1, self.received, letters))
        frame: MailFrame = Parts(head, bulk) if bulk else head
        if len(head) > MAIL_BYTES_MAX or (len(bulk) > 1 and Parts(head, bulk).bulk_bytes > MAIL_BULK_BYTES_MAX):
            halves = in_halves(letters)
            if halves is not None:
                return self.pack_mail(halves[0]) + self.pack_mail(halves[1])
        self.sent += 1
        self.told = self.received
        self.received_bytes = 0
        self.unacknowledged.append((self.sent, frame))
        self.in_flight_bytes += len(frame)
        return [frame]

    def unpack_mail(self, mail: Mail, size: int) -> Sequence[Letter]:
        """The letters of a frame of `size` bytes; none if the frame is a duplicate or out of order.

        Raises:
            ProtocolError: of another epoch, or it acknowledges what was never sent.
        """
        return mail.letters if self._is_next(mail, size) else ()


def in_halves(letters: list[Letter]) -> tuple[list[Letter], list[Letter]] | None:
    """The same letters in two parts, in order; None for a single message that stays whole."""
    if len(letters) > 1:
        middle = len(letters) // 2
        return letters[:middle], letters[middle:]
    messages = letters[0].messages if letters else []
    if len(messages) == 1 and (halves := chain.in_halves(messages[0])) is not None:
        messages = [*halves]
    if len(messages) < 2:
        return None
    middle = len(messages) // 2
    source, target = letters[0].source, letters[0].target
    return [Letter(source, target, messages[:middle])], [Letter(source, target, messages[middle:])]


def unnumbered(message: Message) -> bytes:
    """A frame outside the numbering, for hosts that have not identified each other yet."""
    return encode(Mail(0, 0, 0, [Letter("", "", [message])]))


def open_unnumbered(mail: Mail) -> Message | None:
    """The message of an unnumbered frame; None for any other frame."""
    if mail.sequence or len(mail.letters) != 1 or len(mail.letters[0].messages) != 1:
        return None
    return mail.letters[0].messages[0]
