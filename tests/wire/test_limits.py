"""Every message is bounded: nothing in it is longer than its type says (docs/security.md, S10)."""

import tracemalloc

import msgspec
import pytest

from zray.exceptions import ProtocolError
from zray.ids import REFS_MAX
from zray.wire.chain import ChainResults, ChainUpdates, ChainWrite, Update
from zray.wire.codec import MESSAGE_TYPES, Envelope, Letter, Mail, decode, decode_mail, encode, encode_mail
from zray.wire.events import RING_BYTES_MAX
from zray.wire.gcs import FreeCopies, GiveUpNode, HoldAtNode, ReleaseAtNode
from zray.wire.limits import (
    BULK_BYTES_MAX,
    CHARACTERS_MAX,
    ITEMS_MAX,
    PAYLOAD_BYTES_MAX,
    PLENTY_MAX,
    SHORT_BYTES_MAX,
    portions,
)
from zray.wire.link import MAIL_BYTES_MAX, MailLink
from zray.wire.message import Bulk
from zray.wire.objects import ObjectChunk
from zray.wire.output import TEXT_CHARACTERS_MAX
from zray.wire.relay import PIECE_BYTES_MAX
from zray.wire.shards import SlotTable
from zray.wire.task_spec import ActorOptions, TaskOptions

LOCAL, SHARD = "9f31c0de/local", "9f31c0de/gcs-0"
MANY_IDS = [b"o" * 20] * 2_000_000
COLLECTIONS = ("List", "VarTuple", "Dict")
# What control messages have.
USUAL = {"Str": CHARACTERS_MAX, "Bytes": SHORT_BYTES_MAX, **dict.fromkeys(COLLECTIONS, ITEMS_MAX)}
# What has more, and why.
PAYLOAD = {  # bytes that users' programs have made, and the parts of a shard's state
    *("Function.code", "TaskSpec.args", "TaskSpec.options", "TaskOptions.retry_on", "ActorOptions.handle"),
    *("Argument.value", "TaskResult.values", "ObjectsReady.objects", "PutObject.value", "ObjectFetched.value"),
    *("ObjectInline.value", "InlineRead.value", "FindActorReply.handle", "LookUpActorReply.handle"),
    *("ActorStartFailed.error", "TaskDone.values", "CallResult.values", "Answer.values", "NestedAnswer.values"),
    *("ChainState.data", "ChainLineage.data", "ItemsYielded.values", "ItemsMade.values"),
}
REFS = {  # ids inside of one value, or that one task takes; and what an actor's log names
    *("TaskSpec.deps", "TaskSpec.holds", "TaskResult.contained", "PutObject.contained", "ObjectFetched.contained"),
    *("ObjectChunk.contained", "ObjectInline.contained", "InlineRead.contained", "LoggedCall.beside"),
    *("BegunCall.beside", "LogStart.beside", "LogCheckpoint.beside", "LogCheckpoint.all_of", "LogCalls.forgotten"),
    "ItemsYielded.contained",
}
PLENTY = {  # between the processes of a node, which have as many refs as their user likes; a frame's messages
    *("SubmitTasks.specs", "StartTasks.specs", "StartTasks.functions", "StartTasks.arguments"),
    *("TasksFinished.results", "TasksFinished.timings", "TasksReturned.task_ids", "ObjectsReady.objects"),
    *("WaitObjects.object_ids", "WaitReply.ready", "PutObjects.objects", "HoldObjects.object_ids"),
    *("ReleaseObjects.object_ids", "UnpinObjects.pins", "SealObjects.object_ids", "FreeObjects.object_ids"),
    *("StartActor.functions", "StartActor.arguments", "StartActor.calls", "StartActor.again", "StartActor.failed"),
    *("StartActor.closed", "StartActor.items"),
    *("Envelope.messages", "Letter.messages", "Mail.letters"),
}
OTHERS = {
    ("EventRingFact.data", "Bytes"): RING_BYTES_MAX,  # what a process has recorded
    ("JobOutput.text", "Str"): TEXT_CHARACTERS_MAX,  # what programs print, a piece at a time
    ("TunnelBytes.data", "Bytes"): PIECE_BYTES_MAX,  # a connection through the head, a piece at a time
}


def lengths_in(node, path, found):
    """(path, kind) -> the length that it may have, of all that has one; a struct inside has a path of its own."""
    kind = type(node).__name__.removesuffix("Type")
    if kind in USUAL:
        found.setdefault((path, kind), set()).add(node.max_length)
    if kind == "Struct":
        return
    for part in ("item_type", "key_type", "value_type"):
        if hasattr(node, part):
            lengths_in(getattr(node, part), path, found)
    for inner in (*getattr(node, "item_types", ()), *getattr(node, "types", ())):
        lengths_in(inner, path, found)


def structs():
    """All that can stand in a frame."""
    seen = {}
    to_look_at = [msgspec.inspect.type_info(kind) for kind in (Envelope, Mail, TaskOptions, ActorOptions)]
    while to_look_at:
        node = to_look_at.pop()
        if isinstance(node, msgspec.inspect.StructType):
            if node.cls in seen:
                continue
            seen[node.cls] = node
            to_look_at += [field.type for field in node.fields]
        for part in ("item_type", "key_type", "value_type"):
            if hasattr(node, part):
                to_look_at.append(getattr(node, part))
        to_look_at += (*getattr(node, "item_types", ()), *getattr(node, "types", ()))
    assert set(MESSAGE_TYPES.values()) < set(seen)
    return seen


def all_lengths():
    found = {}
    for cls, node in structs().items():
        for field in node.fields:
            lengths_in(field.type, f"{cls.__name__}.{field.name}", found)
    return found


def test_nothing_is_as_long_as_its_sender_likes():
    assert not [where for where, lengths in all_lengths().items() if None in lengths]


def test_what_is_longer_than_usual_is_stated_above():
    stated = {
        **{(path, "Bytes"): PAYLOAD_BYTES_MAX for path in PAYLOAD},
        **OTHERS,
        **{(path, kind): REFS_MAX for path in REFS for kind in ("List", "VarTuple")},
        **{(path, "List"): PLENTY_MAX for path in PLENTY},
    }
    longer = {}
    for (path, kind), lengths in all_lengths().items():
        if max(lengths) > USUAL[kind]:
            longer[path, kind] = max(lengths)
    assert longer.items() <= stated.items()
    assert {path for path, _ in longer} == {path for path, _ in stated}  # none that is not there


def shortest(node):
    """Some value of a declared type, as it stands in a frame."""
    kind = type(node).__name__.removesuffix("Type")
    if kind == "Struct" and node.cls is SlotTable:
        return [[0], 0, 1]  # an empty one is refused, as no table
    if kind == "Struct":
        tag = node.cls.__struct_config__.tag
        return [*([] if tag is None else [tag]), *(shortest(field.type) for field in node.fields)]
    if kind == "Tuple":
        return [shortest(item) for item in node.item_types]
    if kind == "Union":
        return shortest(node.types[0])
    plain = {"Bool": False, "None": None, "Float": 0.0, "Str": "", "List": [], "VarTuple": [], "Dict": {}}
    if kind == "Bytes":
        return bytes(node.min_length or 0)
    if kind == "Int":
        return max(0, node.ge or 0)
    return b"" if kind == "Custom" else plain[kind]


def too_long(node):
    """Longer than it may be; None where that is no question, or more than a test should make."""
    kind = type(node).__name__.removesuffix("Type")
    if kind not in USUAL or node.max_length > ITEMS_MAX:
        return None
    length = node.max_length + 1
    if kind == "Dict":
        return dict.fromkeys(map(str, range(length)), 0)
    return {"Str": "x", "Bytes": b"\0"}.get(kind, [0]) * length


@pytest.mark.parametrize("kind", MESSAGE_TYPES.values(), ids=lambda kind: kind.__name__)
def test_a_field_that_is_too_long_has_the_whole_message_refused(kind):
    node = msgspec.inspect.type_info(kind)
    message = shortest(node)
    decode(encode([1, 1, 0, [message]]))
    for place, field in enumerate(node.fields, 1):
        long = too_long(field.type)
        if long is not None:
            worse = [*message[:place], long, *message[place + 1 :]]
            with pytest.raises(ProtocolError, match="of length <="):
                decode(encode([1, 1, 0, [worse]]))


@pytest.mark.parametrize(
    "message",
    [
        GiveUpNode(LOCAL, "x" * (50 << 20)),
        HoldAtNode(LOCAL, MANY_IDS, 1),
        ChainWrite(1, 1, 0, [(LOCAL, HoldAtNode(LOCAL, MANY_IDS, 1))]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_between_hosts_it_is_refused_and_costs_no_more_than_the_frame(message):
    frame, _ = encode_mail(Mail(1, 1, 0, [Letter(LOCAL, SHARD, [message])]))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="of length <="):
            decode_mail(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(frame)


def test_what_is_just_as_long_as_it_may_be_comes_in():
    longest = [GiveUpNode(LOCAL, "é" * CHARACTERS_MAX), ReleaseAtNode(LOCAL, [b"o" * 20] * ITEMS_MAX)]
    assert decode(encode(Envelope(1, 1, 0, longest))).messages == longest


def test_bulk_has_a_limit():
    def arrives(size):
        chunk = ObjectChunk(b"o" * 20, 1, size, 0, Bulk(bytes(size)))
        frame, parts = encode_mail(Mail(1, 1, 0, [Letter(LOCAL, LOCAL, [chunk])]))
        return decode_mail(frame, [part.data for part in parts])

    arrives(BULK_BYTES_MAX)
    with pytest.raises(ProtocolError, match="in bulk"):
        arrives(BULK_BYTES_MAX + 1)


# --- senders ---


def test_lists_in_portions():
    assert list(portions([])) == [[]]
    assert [len(part) for part in portions([0] * (2 * ITEMS_MAX + 1))] == [ITEMS_MAX, ITEMS_MAX, 1]


def arrived(messages):
    """Through a link: what the other side is told, and the frames."""
    sender, receiver = MailLink(), MailLink()
    frames = sender.pack_mail([Letter(LOCAL, SHARD, messages)])
    heard = []
    for frame in frames:
        for letter in receiver.unpack_mail(decode_mail(frame), len(frame)):
            heard += letter.messages
    return heard, frames


def test_a_message_that_is_longer_than_a_frame_should_be_is_said_in_several():
    """Of a shard's chain, where one turn's requests are one message."""
    requests = [(LOCAL, HoldAtNode(LOCAL, [bytes([n]) * 20] * 50_000, n)) for n in range(40)]
    heard, frames = arrived([ChainWrite(7, 5, 3, requests)])
    assert len(frames) > 1 and max(map(len, frames)) <= MAIL_BYTES_MAX
    assert [request for write in heard for request in write.requests] == requests
    first = 5
    for write in heard:
        assert (write.epoch, write.first, write.taken) == (7, first, 3)
        first += len(write.requests)

    updates = [Update(n, 0.0, "c", n, 0, [request]) for n, request in enumerate(requests, 1)]
    heard, frames = arrived([ChainUpdates(7, updates)])
    assert len(frames) > 1 and [update for said in heard for update in said.updates] == updates

    results = [(LOCAL, FreeCopies([bytes([n]) * 20] * 50_000)) for n in range(40)]
    heard, frames = arrived([ChainResults(9, 5, results)])
    assert len(frames) > 1 and [result for said in heard for result in said.results] == results
    assert [said.applied for said in heard] == [0] * (len(heard) - 1) + [9]
    assert [said.first for said in heard] == [
        5 + sum(len(said.results) for said in heard[:place]) for place in range(len(heard))
    ]
