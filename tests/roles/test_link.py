"""Links over connections that lose, repeat and reorder: what is said arrives once, in order."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from zray.exceptions import ProtocolError
from zray.wire.link import ACKNOWLEDGE_FRAMES, Link
from zray.wire.session import Ack, GetStatus


class LinkMachine(RuleBasedStateMachine):
    """Two ends; frames under way in two lists that a fault may empty."""

    def __init__(self):
        super().__init__()
        self.ends = [Link(), Link()]
        self.under_way = [[], []]  # from end 0, from end 1
        self.said = [[], []]
        self.heard = [[], []]  # by end 0, by end 1
        self.number = 0

    @rule(end=st.integers(0, 1), count=st.integers(1, 3))
    def say(self, end, count):
        numbers = list(range(self.number, self.number + count))
        self.number += count
        self.said[end] += numbers
        self.under_way[end].append(self.ends[end].pack([GetStatus(number) for number in numbers]))

    @rule(end=st.integers(0, 1))
    def deliver_one(self, end):
        if self.under_way[end]:
            self._arrive(end, self.under_way[end].pop(0))

    @rule(end=st.integers(0, 1))
    def deliver_twice(self, end):
        if self.under_way[end]:
            self._arrive(end, self.under_way[end][0])
            self.deliver_one(end)

    def _arrive(self, source, frame):
        target = 1 - source
        messages = self.ends[target].unpack(frame)
        self.heard[target] += [message.request for message in messages if type(message) is GetStatus]

    @rule(end=st.integers(0, 1))
    def acknowledge(self, end):
        self.under_way[end].append(self.ends[end].pack([Ack()]))

    @rule()
    def break_and_come_back(self):
        for end in (0, 1):
            self.under_way[end] = list(self.ends[end].resend())

    @invariant()
    def what_is_heard_is_what_was_said(self):
        for end in (0, 1):
            assert self.heard[1 - end] == self.said[end][: len(self.heard[1 - end])]
            link = self.ends[end]
            assert link.in_flight_bytes == sum(len(frame) for _, frame in link.unacknowledged)

    def teardown(self):
        self.break_and_come_back()
        for end in (0, 1):
            while self.under_way[end]:
                self.deliver_one(end)
        assert self.heard == self.said[::-1]


LinkMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
TestLink = LinkMachine.TestCase


def test_a_frame_of_another_epoch_is_refused():
    with pytest.raises(ProtocolError, match="epoch"):
        Link(2).unpack(Link(1).pack([Ack()]))


def test_an_acknowledgement_of_what_was_never_sent_is_refused():
    first, second = Link(), Link()
    second.received = 5
    frame = second.pack([Ack()])
    with pytest.raises(ProtocolError, match="acknowledged"):
        first.unpack(frame)


def test_a_silent_receiver_owes_an_acknowledgement_in_time():
    first, second = Link(), Link()
    for _ in range(ACKNOWLEDGE_FRAMES):
        assert not second.owes_acknowledgement
        second.unpack(first.pack([Ack()]))
    assert second.owes_acknowledgement
    first.unpack(second.pack([Ack()]))
    assert not first.unacknowledged
    assert not first.in_flight_bytes
