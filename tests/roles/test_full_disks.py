"""Writers in a full store with a full disk: each waits for the space of others, and is refused in the end."""

import pytest

from tests.roles.object_desk import Desk
from zray.roles import effects as e
from zray.roles.object_manager import overflow
from zray.wire.objects import AllocateObject, AllocateRefused, FreeObjects, ObjectAllocated, ProcessGone, SealObjects

HELD, SMALL, *IDS = [bytes([number]) * 20 for number in range(1, 8)]


class FullDesk(Desk):
    """A store of two pages that two values fill, on a disk that refuses each file."""

    def __init__(self):
        super().__init__(capacity=8_192, spill_above=0.8)
        for object_id in (HELD, SMALL):
            self.store(object_id, b"x" * 4_000)
        self.refused = []  # files

    def tell(self, sender, message):
        sent = []
        effects = self.manager.handle(sender, message, self.now) + self.manager.end_turn(self.now)
        self.timers.note(effects)
        for effect in effects:
            if type(effect) is e.Send:
                sent.append((effect.destination, effect.message))
            elif type(effect) is e.CreateSegment:
                self.outcomes.append(e.SegmentCreated(effect.segment))
            elif type(effect) is e.ReservePages:
                self.outcomes.append(e.PagesAreThere(effect.token))
            elif type(effect) is e.CreateSegmentFile:
                self.outcomes.append(e.SegmentFileCreated(effect.segment, "the disk is full"))
        self.manager.check_everything()
        return [pair for pair in sent if type(pair[1]) in (AllocateRefused, ObjectAllocated)]

    def ask(self, object_id, process="w1"):
        """A request, answered as far as the disk answers.  Returns the kinds of the answers, by process."""
        return kinds(self.tell(process, AllocateObject(object_id, 4_000)) + self.tell_all_outcomes())

    def patience_ends(self):
        """Answers once a writer has waited."""
        return kinds(self.timer("ObjectManager.refuse_late") + self.tell_all_outcomes())


def kinds(sent):
    return [(target, type(message)) for target, message in sent]


@pytest.fixture
def desk():
    return FullDesk()


def test_writer_is_refused_when_it_has_waited_in_vain_and_then_at_once(desk):
    assert desk.ask(IDS[0]) == []
    assert desk.patience_ends() == [("w1", AllocateRefused)]
    assert desk.ask(IDS[1]) == [("w1", AllocateRefused)]
    assert desk.ask(IDS[2]) == [("w1", AllocateRefused)]


def test_each_process_waits_once_for_the_space_of_others(desk):
    """Work that nobody wants any more fails meanwhile, without waits of its own."""
    desk.ask(IDS[0])
    desk.patience_ends()
    assert desk.ask(IDS[1], "w2") == []
    assert desk.ask(IDS[2], "w1") == [("w1", AllocateRefused)]
    desk.tell("n1/local", FreeObjects([SMALL]))
    assert IDS[1] in desk.manager.objects, "w2 has the space that the failed work has left"


def test_process_that_was_refused_waits_again_when_space_has_become_free(desk):
    desk.ask(IDS[0])
    desk.patience_ends()
    desk.tell("n1/local", FreeObjects([SMALL]))
    assert desk.ask(IDS[1]) == [("w1", ObjectAllocated)]
    assert desk.ask(IDS[2]) == []
    assert desk.patience_ends() == [("w1", AllocateRefused)]


def test_writer_has_space_that_became_free_while_its_file_was_refused(desk):
    desk.ask(IDS[0])
    desk.tell("timer", desk.timers.take("ObjectManager.refuse_late"))
    desk.tell("n1/local", FreeObjects([SMALL]))
    assert kinds(desk.tell_all_outcomes()) == [("w1", ObjectAllocated)]


def test_writer_asks_again_for_a_limited_time_only(desk):
    """Others may free and take space for ever."""
    desk.ask(IDS[0])
    desk.tell("timer", desk.timers.take("ObjectManager.refuse_late"))
    desk.tell("n1/local", FreeObjects([SMALL]))
    desk.tell("w3", AllocateObject(SMALL, 4_000))
    desk.tell("n1/local", SealObjects([SMALL]))
    desk.now += overflow.ASKS_AGAIN_SECONDS + 1
    assert kinds(desk.tell_all_outcomes()) == [("w1", AllocateRefused)]


def test_end_of_a_process_is_the_end_of_its_refusals(desk):
    desk.ask(IDS[0])
    desk.patience_ends()
    assert desk.manager.overflow.refused
    desk.tell("n1/local", ProcessGone("w1"))
    assert not desk.manager.overflow.refused
