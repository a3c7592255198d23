"""One turn of a process: what its roles say to each other is over with it."""

import pytest
import zmq

from zray.host.peers import Peers
from zray.host.reactor import Reactor
from zray.roles.role import Role
from zray.wire.message import Local


class Said(Local):
    """From one role to the other."""


class Batching(Role):
    """Acts at the end of the turn on what it has heard."""

    def __init__(self, address):
        super().__init__(address)
        self.heard = self.acted = 0

    def on_said(self, message):
        self.heard += 1

    def end_turn(self, now):
        self.acted = self.heard
        return self.take_effects()

    HANDLERS = {Said: on_said}


class Late(Role):
    """Speaks at the end of its turn, once."""

    def __init__(self, address, target):
        super().__init__(address)
        self.target = target

    def end_turn(self, now):
        if self.target:
            self.send(self.target, Said())
            self.target = ""
        return self.take_effects()


@pytest.mark.parametrize("is_first", [True, False])
def test_a_role_that_hears_something_after_its_end_of_turn_ends_it_once_more(is_first):
    batching = Batching("batching")
    late = Late("late", "batching")
    context = zmq.Context()
    reactor = Reactor(
        [batching, late] if is_first else [late, batching],
        Peers(context, "inproc://nobody", lambda line: None),
        {},
        lambda identity, frame: None,
        lambda peer, error: None,
        lambda peer, message: None,
    )
    try:
        reactor.turn(())
        assert batching.acted == 1
    finally:
        reactor.close()
        context.term()
