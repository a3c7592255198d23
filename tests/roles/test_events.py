"""ListEvents: rings of this node's processes, and of the others, as far as they answer."""

from tests.roles.desk import DRIVER, Acknowledged, Desk
from zray.roles.local_scheduler.reporting import events as module
from zray.roles.work_effects import EventsRead, ReadEvents
from zray.wire.events import BYTES_MAX, EventRingFact, EventsListed, ListEvents

THERE, THIRD = "there/local", "third/local"


class Host(Acknowledged, Desk):
    """A desk that notes which rings are to be read."""

    def __init__(self, *others):
        self.read = []
        super().__init__(cpus=1)
        if others:
            self.join(*others)
        self.take_sent()

    def _perform(self, effects):
        self.read += [effect for effect in effects if type(effect) is ReadEvents]
        super()._perform(effects)


def test_rings_of_the_node_are_the_answer_in_a_session_of_one_machine():
    desk = Host()
    desk.tell(DRIVER, ListEvents(7))
    assert desk.read == [ReadEvents(1, BYTES_MAX)] and not desk.take_sent(EventsListed)
    desk.tell("host", EventsRead(1, [b"ring"], 2))
    assert desk.take_sent(EventsListed) == [(DRIVER, EventsListed(7, [EventRingFact("local", b"ring")], 2))]
    assert not desk.scheduler.events.open


def test_other_nodes_answer_with_their_share():
    desk = Host(THERE, THIRD)
    desk.tell(DRIVER, ListEvents(7))
    share = BYTES_MAX // 3
    assert desk.read == [ReadEvents(1, share)]
    assert desk.take_sent(ListEvents) == [(THERE, ListEvents(1, share)), (THIRD, ListEvents(1, share))]
    there = EventRingFact(THERE, b"there")
    desk.tell(THERE, EventsListed(1, [there], 1))
    desk.tell(THERE, EventsListed(1, [there], 1))  # a second time
    desk.tell("host", EventsRead(1, []))
    assert not desk.take_sent(EventsListed)
    desk.tell(THIRD, EventsListed(1, []))
    assert desk.take_sent(EventsListed) == [(DRIVER, EventsListed(7, [there], 1))]


def test_node_that_asks_gets_the_rings_of_this_node_alone():
    desk = Host(THERE, THIRD)
    desk.tell(THERE, ListEvents(9, 1_000))
    assert desk.read == [ReadEvents(1, 1_000)] and not desk.take_sent(ListEvents)
    desk.tell("host", EventsRead(1, [b"ring"]))
    assert desk.take_sent(EventsListed) == [(THERE, EventsListed(9, [EventRingFact("local", b"ring")]))]


def test_silent_nodes_are_named():
    desk = Host(THERE)
    desk.tell(DRIVER, ListEvents(7))
    desk.tell("host", EventsRead(1, [b"ring"]))
    desk.take_sent()
    desk.timer("Events.answer_without_silent")
    ((target, reply),) = desk.take_sent(EventsListed)
    assert (target, reply.silent, len(reply.rings)) == (DRIVER, [THERE], 1)


def test_number_of_open_questions_is_bounded():
    desk = Host()
    for request in range(module.QUESTIONS_MAX + 1):
        desk.tell(DRIVER, ListEvents(request))
    assert len(desk.scheduler.events.open) == module.QUESTIONS_MAX
    assert [reply.request for _, reply in desk.take_sent(EventsListed)] == [0]


def test_process_that_is_gone_gets_no_answer():
    desk = Host()
    desk.tell("driver-9", ListEvents(1))
    assert not desk.read and not desk.take_sent(EventsListed)


def test_question_for_metrics_is_passed_on_as_one():
    desk = Host(THERE)
    desk.tell(DRIVER, ListEvents(7, are_metrics=True))
    assert [effect.are_metrics for effect in desk.read] == [True]
    assert [message.are_metrics for _, message in desk.take_sent(ListEvents)] == [True]
