"""Waits for very many objects, against a runtime that hands out arrivals: a look is not repeated for each of them."""

import threading
from collections import deque

import pytest

from zray.host.client.waiting import Waiting
from zray.roles.client import Client
from zray.wire.tasks import ObjectsReady, WaitReply

COUNT = 20_000
IDS = [number.to_bytes(20, "big") for number in range(1, COUNT + 1)]


class Counting(dict):
    """A table that counts the looks into it."""

    looks = 0

    def __contains__(self, key):
        self.looks += 1
        return super().__contains__(key)


class Arrivals:
    """A driver's runtime whose node sends these messages, one at a time."""

    is_worker = False

    def __init__(self, messages):
        self.client = Client(deque(), deque())
        self.client.values = Counting()
        self.client.held = {object_id: object_id for object_id in IDS}
        self.messages = deque(messages)
        self.lock = threading.RLock()
        self.handlers = {ObjectsReady: self.client.on_objects_ready, WaitReply: self.client.on_wait_reply}

    def wait_for_room(self, deadline):
        return True

    def receive_until(self, is_done, deadline):
        while not is_done():
            if not self.messages:
                return False
            message = self.messages.popleft()
            self.handlers[type(message)](message)
        return True


def ready(ids):
    return ObjectsReady([(object_id, b"\x01") for object_id in ids])


def in_batches(size, ids=IDS):
    return [ready(ids[start : start + size]) for start in range(0, len(ids), size)]


@pytest.mark.parametrize("count", [1, 10, COUNT // 2, COUNT - 1, COUNT])
@pytest.mark.parametrize("size", [1, 70])
def test_looks_are_as_many_as_objects_and_not_as_their_square(count, size):
    runtime = Arrivals(in_batches(size))
    is_ready = Waiting(runtime).until_ready(IDS, count, None, True)
    assert sum(map(is_ready, IDS)) >= count
    handed_out = len(in_batches(size)) - len(runtime.messages)
    assert handed_out == -(-count // size), "the wait went on, though all that it needs was there"
    assert runtime.client.values.looks < 8 * COUNT


def test_arrivals_of_other_objects_do_not_end_a_wait():
    others = [number.to_bytes(20, "big") for number in range(COUNT + 1, 3 * COUNT)]
    messages = [message for pair in zip(in_batches(100, others), in_batches(50), strict=False) for message in pair]
    runtime = Arrivals([*messages, *in_batches(50)[len(messages) // 2 :]])
    is_ready = Waiting(runtime).until_ready(IDS, COUNT, None, True)
    assert all(map(is_ready, IDS))
    assert runtime.client.values.looks < 40 * COUNT


def test_objects_that_are_said_to_exist_count():
    messages = [WaitReply(1, IDS[start : start + 10]) for start in range(0, COUNT, 10)]
    runtime = Arrivals(messages)
    is_ready = Waiting(runtime).until_ready(IDS, COUNT, None, False)
    assert all(map(is_ready, IDS)) and runtime.client.values.looks < 8 * COUNT


def test_wait_that_ends_early_names_what_is_there():
    runtime = Arrivals(in_batches(10)[:5])
    is_ready = Waiting(runtime).until_ready(IDS, COUNT, 5.0, True)
    assert list(filter(is_ready, IDS)) == IDS[:50]
