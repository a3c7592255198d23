"""One turn of a process: what its roles say to each other is over with it."""

import os
from types import SimpleNamespace

import pytest
import zmq

from zray.host import reactor as reactor_module
from zray.host.cluster.service_main import ServiceHost
from zray.host.links.process_links import LIGHT_BYTES, TURN_BYTES_MAX, Peers
from zray.host.node.node import Node
from zray.host.node.session_server import Doorman
from zray.host.reactor import Reactor
from zray.roles.effects import HeadChanged
from zray.roles.role import Role, on
from zray.wire.codec import Letter
from zray.wire.hosts import HostWelcome
from zray.wire.message import Local


class Said(Local):
    """From one role to the other."""


class Batching(Role):
    """Acts at the end of the turn on what it has heard."""

    def __init__(self, address):
        super().__init__(address)
        self.heard = self.acted = 0

    @on(Said)
    def on_said(self, message):
        self.heard += 1

    def end_turn(self, now):
        self.acted = self.heard
        return self.take_effects()


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


@pytest.mark.parametrize(("seconds_per_turn", "turns"), [(1.0, 1), (0.0, reactor_module.BUSY_TURNS_MAX)])
def test_a_flood_does_not_keep_all_else_waiting(seconds_per_turn, turns, monkeypatch):
    """Timers and the ends of processes are seen after a few turns, or one heavy one."""
    now, taken = 0.0, 0

    def heavy(identity, frame):
        nonlocal now, taken
        now += seconds_per_turn
        taken += 1

    monkeypatch.setattr(reactor_module.time, "monotonic", lambda: now)
    context = zmq.Context()
    peers = Peers(context, "inproc://nobody", lambda line: None)
    reactor = Reactor([], peers, {}, heavy, lambda peer, error: None, lambda peer, message: None)
    monkeypatch.setattr(peers, "receive", lambda: [(b"stranger", b"")])
    ready = os.eventfd(1)
    reactor.watch(ready, lambda: reactor.end_soon("seen"))
    try:
        reactor.run()
        assert taken == turns
    finally:
        reactor.close()
        context.term()
        os.close(ready)


def test_a_turn_takes_in_so_many_bytes():
    """Whoever sends much leaves the turn to the others, and to itself, after a while."""
    context = zmq.Context()
    peers = Peers(context, "inproc://node", lambda line: None)
    sender = context.socket(zmq.DEALER)
    sender.connect("inproc://node")
    size = TURN_BYTES_MAX // 4
    try:
        for _ in range(9):
            sender.send(bytes(size))
        turns = [len(peers.receive()) for _ in range(4)]
        assert turns == [4, 4, 1, 0]
    finally:
        sender.close(linger=0)
        peers.close()
        context.term()


@pytest.mark.parametrize(("size", "count"), [(100, 1), (LIGHT_BYTES, 3)])
def test_after_a_sleep_a_small_frame_is_taken_alone_and_a_large_one_with_what_has_come_behind_it(size, count):
    context = zmq.Context()
    peers = Peers(context, "inproc://node", lambda line: None)
    sender = context.socket(zmq.DEALER)
    sender.connect("inproc://node")
    try:
        for _ in range(3):
            sender.send(bytes(size))
        assert len(peers.receive_first()) == count
        assert len(peers.receive()) == 3 - count
        assert peers.receive_first() == []
    finally:
        sender.close(linger=0)
        peers.close()
        context.term()


@pytest.mark.parametrize("is_owner", [True, False])
def test_what_an_ended_sessions_driver_had_submitted_is_not_undone_first(is_owner):
    """It may be a million tasks: the session is gone at once."""
    told, ended, removed, unwatched, copied = [], [], [], [], []
    node = SimpleNamespace(host="node", tell_local=told.append, end=ended.append)
    node.workers = SimpleNamespace(process_ended=copied.append)
    node.session_end = SimpleNamespace(reason="")
    node.reactor = SimpleNamespace(unwatch=unwatched.append)
    node.session = SimpleNamespace(remove_job=removed.append)
    doorman = Doorman(node, 0)
    doorman.owner = "driver-1" if is_owner else "driver-0"
    pidfd = os.pidfd_open(os.getpid())
    life, held = os.pipe()
    doorman.pidfds["driver-1"], doorman.lives["driver-1"] = pidfd, life
    doorman.jobs["driver-1"], doorman.pids["driver-1"] = b"its job", 4711
    doorman.process_left("driver-1", "process has ended")
    assert (len(ended), len(told), len(removed)) == ((1, 0, 0) if is_owner else (0, 1, 1))
    assert unwatched == [pidfd, life] and copied == [4711]
    with pytest.raises(BrokenPipeError):  # nobody listens any more: the node's end is closed
        os.write(held, b"?")
    os.close(held)


class Hearing(Role):
    """Remembers what it has heard."""

    def __init__(self, address):
        super().__init__(address)
        self.heard = []

    @on(Said, HeadChanged)
    def on_any(self, message):
        self.heard.append(type(message))


class Mail:
    """Neighbours: the head, which was started again, welcomes us, and has more to say in the same breath."""

    host, by_host = "us", {}

    def __init__(self, on_new_head):
        self.on_new_head = on_new_head

    def take_in(self):
        self.on_new_head("former", HostWelcome("head", ["head/global"]))
        yield None, Letter("head/services", "us/local", [Said()])

    def acknowledge(self):
        pass


@pytest.mark.parametrize("kind", [Node, ServiceHost])
def test_a_new_head_is_known_before_what_it_says_is_heard(kind):
    role = Hearing("us/local")
    context = zmq.Context()
    reactor = Reactor(
        [role],
        Peers(context, "inproc://nobody", lambda line: None),
        {},
        lambda identity, frame: None,
        lambda peer, error: None,
        lambda peer, message: None,
    )
    host = SimpleNamespace(reactor=reactor, local=role, member=role, doorman=role, chain_clients=[], tunnels=None)
    changed = HeadChanged("former", "head", ["head/global"])
    host.membership = SimpleNamespace(follow=lambda welcome: changed, hosted=None)
    host.neighbours = mail = Mail(lambda former, welcome: kind._new_head(host, former, welcome))
    try:
        reactor.take_mail(mail)
        assert role.heard[0] is HeadChanged and role.heard[-1] is Said
    finally:
        reactor.close()
        context.term()
