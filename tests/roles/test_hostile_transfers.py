"""Object managers that lie: nothing outside of an object is read or written for them (docs/security.md, B24)."""

import random

import pytest

from tests.roles.object_desk import CHUNK, Desk
from zray.roles.effects import ReadRange, WriteRange
from zray.roles.object_manager.sources import WINDOW_BYTES_MAX
from zray.wire.gcs import NodeLost
from zray.wire.message import Bulk
from zray.wire.objects import (
    FetchObject,
    FreeObjects,
    InlineRead,
    ObjectChunk,
    ObjectInline,
    PullDone,
    PullElsewhere,
    PullObject,
    PullRefused,
    ReadInline,
)

COMING, HERE, NOWHERE = (bytes([number]) * 20 for number in (1, 2, 3))
SIZE = 11 * CHUNK + 100
NUMBERS = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, 1 << 31, (1 << 62) - 1, (1 << 64) - 1)
SENDERS = ("n1/objects", "n8/objects", "n9/objects")


class Watched(Desk):
    """Each range that is read or written lies in one object."""

    def tell(self, sender, message):
        handle = self.manager.handle

        def watched(sender, message, now):
            effects = handle(sender, message, now)
            for effect in effects:
                if type(effect) in (ReadRange, WriteRange):
                    size = effect.size if type(effect) is ReadRange else len(effect.data)
                    assert any(
                        stored.place.offset <= effect.offset
                        and effect.offset + size <= stored.place.offset + stored.place.size
                        for stored in (*self.manager.objects.values(), *self.manager.gives.ending.values())
                    )
            return effects

        self.manager.handle = watched
        try:
            return super().tell(sender, message)
        finally:
            self.manager.handle = handle


def lie(pick, ticket):
    """Something that another object manager may say."""
    object_id, some = pick.choice((COMING, HERE, NOWHERE)), pick.choice((ticket, ticket, 0, 1, 1 << 40))
    offset, length = pick.choice((*NUMBERS, CHUNK * pick.randrange(14))), pick.choice(NUMBERS)
    data = Bulk(bytes(pick.choice((0, 1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, SIZE))))
    return pick.choice(
        (
            PullObject(object_id, some, offset, length, pick.random() < 0.5),
            ObjectChunk(object_id, some, pick.choice((SIZE, length)), offset, data, (NOWHERE,)),
            PullDone(object_id, some),
            *([PullRefused(object_id, some)] if pick.random() < 0.1 else []),
            *([PullElsewhere(object_id, some, pick.choice(SENDERS))] if pick.random() < 0.1 else []),
            *([ObjectInline(object_id, some, b"x")] if pick.random() < 0.02 else []),
        )
    )


@pytest.mark.parametrize("seed", range(20))
def test_nothing_outside_of_an_object_is_touched_and_nothing_is_left(seed):
    pick = random.Random(seed)
    desk = Watched(name="n2")
    desk.store(HERE, random.Random(1).randbytes(SIZE))
    desk.tell("n2/local", FetchObject(COMING, SIZE, ["n1/local", "n8/local"]))
    for _ in range(300):
        pull = desk.manager.pulls.coming.get(COMING)
        sent = desk.tell(pick.choice(SENDERS), lie(pick, pull.ticket if pull is not None else 0))
        for target, message in sent:
            if type(message) is ReadInline:
                desk.tell(target, InlineRead(message.object_id, message.puller, None))
        if desk.outcomes and pick.random() < 0.5:
            desk.tell_outcome(pick.randrange(len(desk.outcomes)))
    for sender in SENDERS:
        desk.tell("n2/local", NodeLost(f"{sender.partition('/')[0]}/local", "it lied"))
    desk.tell_all_outcomes()
    desk.tell("n2/local", FreeObjects([COMING, HERE]))
    desk.tell_all_outcomes()
    manager = desk.manager
    assert not manager.pulls.coming and not manager.gives.by_object and not manager.gives.reading
    assert manager.ranges.used_bytes == 0


def test_one_order_is_answered_with_a_window_at_most():
    desk = Watched(capacity=8 * WINDOW_BYTES_MAX, name="n2")
    desk.store(HERE, bytes(3 * WINDOW_BYTES_MAX))
    desk.tell("n9/objects", PullObject(HERE, 1, 0, (1 << 64) - 1))
    sent = desk.tell("n2/local", InlineRead(HERE, "n9/objects", None))
    assert 0 < sum(len(message.data) for _, message in sent) <= WINDOW_BYTES_MAX + CHUNK
    assert desk.tell("n8/objects", PullObject(HERE, 1, 3 * WINDOW_BYTES_MAX, 1)) == [
        ("n8/objects", PullRefused(HERE, 1))
    ]
