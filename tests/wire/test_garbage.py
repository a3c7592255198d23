"""Bytes that are no frame: a ProtocolError with the reason, and next to no memory (docs/security.md, B14, B15, B18)."""

import struct
import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.strategies import messages
from zray.exceptions import ProtocolError
from zray.wire.codec import MESSAGE_TYPES, Envelope, decode, decode_mail, encode
from zray.wire.link import Link
from zray.wire.session import Ack, Goodbye, HelloRefused
from zray.wire.task_spec import TaskSpec, parse_options
from zray.wire.tasks import CancelWait, SubmitTasks

# What an error and its text may take, beside the bytes themselves.
ALLOCATION_BYTES_MIN = 64 << 10


def refused(frame, decode=decode):
    """That a frame is refused, and cheaply."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 2 * len(frame) + ALLOCATION_BYTES_MIN, f"{peak:,} bytes for a frame of {len(frame):,}"


def decoded(frame):
    """Whether it was a frame after all.  Any other error than ProtocolError is a failure."""
    try:
        return decode(frame)
    except ProtocolError:
        return None


@given(st.binary(max_size=200))
def test_random_bytes(data):
    decoded(data)


@settings(deadline=None)
@given(messages(list(MESSAGE_TYPES.values())), st.data())
def test_a_frame_with_some_bytes_changed(message, data):
    frame = bytearray(encode(Envelope(1, 2, 3, [message])))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    decoded(bytes(frame))


@settings(deadline=None, max_examples=50)
@given(messages(list(MESSAGE_TYPES.values())))
def test_a_frame_cut_at_each_byte(message):
    frame = encode(Envelope(1, 2, 3, [message]))
    for length in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode(frame[:length])
    with pytest.raises(ProtocolError):
        decode(frame + b"\0")


def frame_of(message):
    """A frame with one thing in place of a message."""
    return msgspec.msgpack.encode([1, 2, 3, [message]])


def mail_of(message):
    """The same between hosts."""
    return msgspec.msgpack.encode([1, 2, 3, [["a/local", "b/local", [message]]]])


INSIDE = b"\x94\x01\x02\x03\x91"  # [1, 2, 3, [ ... one message
LETTER = mail_of(None).removesuffix(b"\xc0")
MONSTERS = {
    "nothing": b"",
    "depth 10,000": b"\x91" * 10_000,
    "maps of depth 10,000": b"\x81\xa1a" * 10_000,
    "depth 10,000 in a message": INSIDE + b"\x92\x0f" + b"\x91" * 10_000,
    "2**32 - 1 items in 5 bytes": b"\xdd" + b"\xff" * 4,
    "2**32 - 1 messages": b"\x94\x01\x02\x03\xdd" + b"\xff" * 4,
    "2**32 - 1 bytes": INSIDE + b"\x92\x03\xc6" + b"\xff" * 4,
    "2**32 - 1 characters": INSIDE + b"\x92\x03\xdb" + b"\xff" * 4,
    "2**32 - 1 specs": INSIDE + b"\x92\x0b\xdd" + b"\xff" * 4,
    "a map of 2**32 - 1": INSIDE + b"\x95\x50\xa0\xdf" + b"\xff" * 4,
    "a map where an array is due": b"\x84\x01\x02\x03\x04\x05\x06\x07\x08",
    "a map with a key twice": b"\x82\xa1a\x01\xa1a\x02",
    "a map with keys that are no text": b"\x81\x01\x02",
    "a key of 10 MB": b"\x81" + b"\xdb" + struct.pack(">I", 10 << 20) + b"k" * (10 << 20) + b"\x01",
    "an unknown extension": INSIDE + b"\x92\x03\xd4\x63\x00",
    "an unused byte": INSIDE + b"\xc1",
    "text that is not UTF-8": INSIDE + b"\x92\x03\xa2\xff\xfe",
    "a float as a count": b"\x94\xcb" + struct.pack(">d", 1.5) + b"\x02\x03\x90",
    "NaN as a count": b"\x94\xcb" + struct.pack(">d", float("nan")) + b"\x02\x03\x90",
    "-0.0 where text is due": INSIDE + b"\x92\x03\xcb" + struct.pack(">d", -0.0),
    "something behind the end": encode(Envelope(1, 2, 3, [Ack()])) + b"\xc0",
    "one field too many": msgspec.msgpack.encode([1, 2, 3, [], 5]),
    "a pickle": b"\x80\x05\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("frame", MONSTERS.values(), ids=MONSTERS)
def test_monsters(frame):
    refused(frame)
    refused(frame, decode_mail)
    if frame.startswith(INSIDE):
        refused(LETTER + frame.removeprefix(INSIDE), decode_mail)


WRONG = {
    "an unknown message": [4711, "x"],
    "a message without a tag": [],
    "a tag that is no number": ["Hello"],
    "a negative tag": [-1],
    "a huge tag": [(1 << 64) - 1],
    "no array": 3,
    "null": None,
    "too few fields": [2, "address"],
    "one field too many": [3, "reason", "more"],
    "a field of another type": [3, 17],
    "a null field": [3, None],
    "bytes for text": [3, b"reason"],
    "text for bytes": [2, "address", "text", "session", 1],
    "a negative count": [16, 1, [], -1],
    "a count beyond 64 bits' signed half where none is": [34, b"o" * 20, -1],
    "a short id": [67 + 2, b"short"],
    "an empty id": [69, b""],
    "a long id": [69, b"a" * 17],
    "an id of 1 MB": [69, b"a" * (1 << 20)],
    "an id in a list": [32, [b"o" * 20, b"o" * 19]],
    "an id in a spec": [11, [[b"t" * 15, b"f" * 16]]],
    "a dep that is a task's id": [11, [[b"t" * 16, b"f" * 16, b"", [b"t" * 16]]]],
    "a record with one field too many": [10, [b"f" * 16, "name", b"code", 1]],
}


@pytest.mark.parametrize("message", WRONG.values(), ids=WRONG)
def test_messages_of_a_wrong_form(message):
    refused(frame_of(message))
    refused(mail_of(message), decode_mail)


def test_what_is_refused_so_is_taken_where_it_is_well_formed():
    assert decode(frame_of([3, "reason"])).messages == [HelloRefused("reason")]
    assert decode_mail(mail_of([3, "reason"])).letters[0].messages == [HelloRefused("reason")]


def test_the_error_names_the_field():
    with pytest.raises(ProtocolError, match=r"Expected `str`, got `int` - at `\$\[3\]\[0\]\[1\]`"):
        decode(frame_of([3, 17]))


@given(st.binary(max_size=60))
def test_options_that_are_none(blob):
    try:
        parse_options(blob)
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    "fields",
    [[{"CPU": -1}], [{"CPU": 1.5}], [{}, -1], [{}, 1 << 40], [{}, 1, -2], [{}, 1, 3, False, b"", "", b"a" * 17]],
    ids=str,
)
def test_options_out_of_range(fields):
    with pytest.raises(ProtocolError):
        parse_options(msgspec.msgpack.encode(fields))


# --- the link ---


def test_a_frame_of_another_epoch_is_refused():
    with pytest.raises(ProtocolError, match="epoch 7 on a link of epoch 1"):
        Link().unpack(encode(Envelope(7, 1, 0, [Goodbye()])))


def test_an_acknowledgement_of_what_was_never_sent_is_refused():
    with pytest.raises(ProtocolError, match="frame 5 acknowledged, but 0 is the last"):
        Link().unpack(encode(Envelope(1, 1, 5, [Goodbye()])))


def test_a_refused_frame_changes_nothing_in_a_link():
    link, peer = Link(), Link()
    first, second = peer.pack([HelloRefused("a")]), peer.pack([HelloRefused("b")])
    assert link.unpack(first) == [HelloRefused("a")]
    for bad in (second[:-1], second + b"\0", b"", encode(Envelope(2, 2, 0, []))):
        with pytest.raises(ProtocolError):
            link.unpack(bad)
    assert link.unpack(second) == [HelloRefused("b")]


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["send", "lose", "repeat", "break"]), max_size=30))
def test_order_and_exactly_once_over_a_connection_that_breaks(happenings):
    """What arrives is a prefix of what was sent, and after a resend it is all of it."""
    ours, theirs = Link(), Link()
    sent, arrived, last = 0, [], None
    for happening in happenings:
        if happening in ("send", "lose"):
            sent += 1
            frame = ours.pack([CancelWait(sent)])
            if happening == "send":
                arrived += theirs.unpack(frame)
                last = frame
        elif happening == "repeat" and last is not None:
            arrived += theirs.unpack(last)
        elif happening == "break":
            for frame in ours.resend():
                arrived += theirs.unpack(frame)
            ours.unpack(theirs.pack([Ack()]))
        assert [message.request for message in arrived] == list(range(1, len(arrived) + 1))
    for frame in ours.resend():
        arrived += theirs.unpack(frame)
    assert len(arrived) == sent
    ours.unpack(theirs.pack([Ack()]))
    assert ours.in_flight_bytes == 0 and not ours.unacknowledged


def test_a_small_frame_of_many_tiny_messages_is_bounded_by_its_own_size():
    """The worst that is valid: an Ack of two bytes becomes an object of some forty."""
    frame = encode(Envelope(1, 1, 0, [Ack()] * 10_000))
    assert len(decode(frame).messages) == 10_000
    assert len(frame) >= 2 * 10_000


def test_specs_keep_their_bytes_apart():
    spec = TaskSpec(b"t" * 16, b"f" * 16, b"args", (b"o" * 20,), (), b"", b"c" * 16)
    frame = encode(Envelope(1, 1, 0, [SubmitTasks([spec])]))
    assert decode(frame).messages == [SubmitTasks([spec])]
