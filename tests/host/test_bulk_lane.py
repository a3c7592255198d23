"""Bulk data of a link: later messages overtake it, it arrives whole and in order, also after a break."""

import os

import pytest

from tests.host.wires import Host, Wire, are_up, beat, join, pump
from zray.host.links import bulk_lane
from zray.wire.message import Bulk
from zray.wire.objects import ObjectChunk, PullObject

OBJECT, TICKET = b"o" * 20, 7
CHUNK_BYTES, COUNT = 256 << 10, 64
# In the sockets of both sides, of the proxy, and in the connection: far less than the whole.
OVERTAKEN_MAX = 24


def chunks(count=COUNT):
    """Chunks as object managers send them to one another."""
    size = count * CHUNK_BYTES
    return [
        ObjectChunk(OBJECT, TICKET, size, number * CHUNK_BYTES, Bulk(bytes([number % 251]) * CHUNK_BYTES))
        for number in range(count)
    ]


def are_right(host, count=COUNT):
    """Whether all chunks have come to the host, each once, in their order."""
    found = [message for message in host.messages() if type(message) is ObjectChunk]
    if len(found) < count:
        return False
    assert [message.offset // CHUNK_BYTES for message in found] == list(range(count))
    assert all(bytes(message.data.data) == bytes([number % 251]) * CHUNK_BYTES for number, message in enumerate(found))
    return True


@pytest.fixture
def held():
    """A head, a node that has connected to it, and the wire between: nothing comes to the node any more."""
    with Host("head") as head, Host() as node, Wire(head.port) as wire:
        join(node, head, wire.endpoint)
        pump((head, node), lambda: are_up(head, node))
        wire.limit = wire.brought
        yield head, node, wire


def test_a_request_does_not_wait_behind_the_chunks_of_its_sender(held):
    """Two nodes that pull from each other: each one's request for more would wait for all that it sends itself."""
    head, node, wire = held
    head.say("objects", node.role("objects"), *chunks())
    for _ in range(20):
        head.turn()
    order = PullObject(OBJECT, TICKET, 0, CHUNK_BYTES)
    head.say("objects", node.role("objects"), order)
    head.say("local", node.role("local"), beat(1))
    wire.limit = None
    pump((head, node), lambda: are_right(node))
    messages = node.messages()
    before = [messages.index(order), messages.index(beat(1))]
    assert max(before) <= OVERTAKEN_MAX, f"{before} messages came ahead"


def test_chunks_go_both_ways_at_once_and_arrive_whole(pair):
    head, node = pair
    for one, other in (pair, reversed(pair)):
        one.say("objects", other.role("objects"), *chunks())
    pump(pair, lambda: are_right(head) and are_right(node))


def test_chunks_arrive_once_and_in_order_after_a_break(held):
    head, node, wire = held
    head.say("objects", node.role("objects"), *chunks())
    head.turn()
    wire.cut()
    wire.limit = None
    pump((head, node), lambda: are_right(node))
    assert sum(type(message) is ObjectChunk for message in node.messages()) == COUNT


def test_connection_holds_no_more_than_it_soon_sends(held):
    head, node, _ = held
    head.say("objects", node.role("objects"), *chunks())
    neighbour = head.links.by_host[node.name]
    sent_bytes = (COUNT - len(neighbour.lane.waiting)) * CHUNK_BYTES
    assert 0 < sent_bytes <= bulk_lane.WAITING_BYTES_MAX + 8 * CHUNK_BYTES


def test_messages_to_a_host_that_is_down_stay_in_two_rows(held):
    head, node, wire = held
    neighbour = head.links.by_host[node.name]
    head.links.hang_up(neighbour)
    head.say("objects", node.role("objects"), *chunks(3), PullObject(OBJECT, TICKET, 0, 1))
    assert len(neighbour.lane.waiting) == 3
    assert [type(message) for letter in neighbour.backlog for message in letter.messages] == [PullObject]


def test_pieces_of_several_chunks_are_cut_on_a_slow_line_and_whole_on_a_fast_one(held):
    head, node, _ = held
    lane = head.links.by_host[node.name].lane
    head.links.hang_up(head.links.by_host[node.name])
    data = os.urandom(3 * CHUNK_BYTES + 5)
    refs = (b"r" * 20,)
    head.say("objects", node.role("objects"), ObjectChunk(OBJECT, TICKET, 9 << 20, 1 << 20, Bulk(data), refs))
    whole = lane.waiting[0]
    found = []
    while letters := lane.following():
        (message,) = letters[0].messages
        found.append((message.offset, bytes(message.data.data), message.contained))
    places = [(start, (1 << 20) + start) for start in range(0, len(data), CHUNK_BYTES)]
    assert found == [
        (offset, data[start : start + CHUNK_BYTES], refs if start == 0 else ()) for start, offset in places
    ]
    lane.waiting.append(whole)
    lane._pace = 1e9
    assert lane.following() == [whole]
