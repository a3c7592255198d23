"""A node that starts and is disturbed before it is a member: it becomes one all the same, or says why not."""

import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.gates import until
from tests.host.wires import Host, pump
from zray.cluster_utils import Cluster, Node
from zray.host.cluster import registration as entrance_module
from zray.host.cluster.admission import Admission
from zray.host.cluster.membership import addresses_of
from zray.host.cluster.membership_log import Roster
from zray.host.cluster.registration import ENTRY_SECONDS, LATE_SECONDS, Entrance
from zray.host.links.host_link import Neighbour
from zray.host.process import node_processes
from zray.host.security.keyring import Key, Token
from zray.roles.local_scheduler.membership.lease import LEASE_SECONDS, Lease
from zray.wire.gcs import Heartbeat, HeartbeatReply, NodeJoined, NodeLost, RegisterNode

TOTAL = {"CPU": 10_000}


class Starting:
    """A node that starts in a thread."""

    def __init__(self, address, token):
        self.error, self.started = None, None
        self.before = children()
        self.thread = threading.Thread(target=self._start, args=(address, token))
        self.thread.start()

    def _start(self, address, token):
        try:
            self.started = node_processes.start_member(TOTAL, 16 << 20, address, token, is_bound=True)
        except Exception as error:
            self.error = error

    @property
    def is_over(self):
        return not self.thread.is_alive()

    def pid(self):
        """Of the process."""
        (found,) = children() - self.before
        return found


def children():
    """Of any thread of this process."""
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            found.update(path.read_text().split())
    return found


@pytest.fixture
def busy_head(tmp_path, nothing_left):
    """A head whose threads take calls, and that does nothing itself unless it is turned; with a token."""
    with Host("head") as host:
        roster = Roster(str(tmp_path / "members"))
        host.ring.clock = roster.ring.clock
        roster.ring = host.ring
        admission = Admission(host.name, roster, addresses_of(host.name, host.name, [host.role("global")], 1))
        admission.neighbours = host.links
        host.links.on_join = admission.join
        token = Token.draw(host.keys.public)
        host.ring.add(token.key(host.ring.clock(), uses=10))
        host.token = token.encode()
        yield host
        roster.close()


def be_idle(seconds):
    """The time is the matter here."""
    threading.Event().wait(seconds)


def said(head, kind):
    return [message for message in head.messages() if type(message) is kind]


def joined(head):
    return NodeJoined(head.role("local"), {}, "head", "", head.keys.public, is_earlier=True)


def enter(head, starting, node):
    """What a monitor does, until whoever started the node hears that it is ready; then its end."""

    def answer():
        if beats := said(head, Heartbeat):
            head.say("monitor", node, HeartbeatReply(beats[-1].number))
            head.heard = [entry for entry in head.heard if type(entry[2]) is not Heartbeat]
        return starting.is_over

    head.say("monitor", node, joined(head))
    pump((head,), answer)
    assert starting.error is None
    node_processes.end_node(*starting.started, seconds=0.0)


@pytest.mark.slow
def test_a_node_waits_for_a_head_that_lets_it_in_and_is_busy_with_others(busy_head):
    """Its lease has not begun: nobody can have given a verdict on what is not registered."""
    starting = Starting(busy_head.endpoint, busy_head.token)
    pump((busy_head,), lambda: busy_head.links.by_host)
    busy_head.turn()  # the answer leaves
    be_idle(LEASE_SECONDS + 1.0)
    pump((busy_head,), lambda: said(busy_head, RegisterNode))
    enter(busy_head, starting, said(busy_head, RegisterNode)[0].node)


@pytest.mark.slow
def test_one_that_is_given_up_before_it_is_ready_is_followed_by_another(busy_head):
    starting = Starting(busy_head.endpoint, busy_head.token)
    pump((busy_head,), lambda: said(busy_head, RegisterNode))
    first = said(busy_head, RegisterNode)[0].node
    busy_head.links.forget(first.partition("/")[0], "it was silent", is_lost=True)
    pump((busy_head,), lambda: len(said(busy_head, RegisterNode)) == 2)
    second = said(busy_head, RegisterNode)[1].node
    enter(busy_head, starting, second)
    assert first != second


@pytest.mark.slow
def test_one_that_stands_still_and_is_given_up_before_it_hears_that_it_is_a_member(busy_head):
    """It does not say that it is ready: that was so."""
    starting = Starting(busy_head.endpoint, busy_head.token)
    pump((busy_head,), lambda: said(busy_head, RegisterNode))
    node = said(busy_head, RegisterNode)[0].node
    with stopped(starting.pid(), LATE_SECONDS + 0.5):
        busy_head.say("monitor", node, joined(busy_head))
        busy_head.links.forget(node.partition("/")[0], "it was silent", is_lost=True)
    pump((busy_head,), lambda: len(said(busy_head, RegisterNode)) == 2)
    enter(busy_head, starting, said(busy_head, RegisterNode)[1].node)


@pytest.mark.slow
def test_one_that_cannot_be_a_member_says_why(busy_head):
    """And is not followed by another."""
    starting = Starting(busy_head.endpoint, busy_head.token)
    pump((busy_head,), lambda: said(busy_head, RegisterNode))
    node = said(busy_head, RegisterNode)[0].node
    busy_head.say("monitor", node, NodeLost(node, "nobody likes it"))
    pump((busy_head,), lambda: starting.is_over)
    assert "ended before it was ready" in str(starting.error) and "nobody likes it" in str(starting.error)
    assert len(said(busy_head, RegisterNode)) == 1


def test_the_wait_for_the_head_has_an_end():
    reasons, timers, registered = [], [], []

    class Loop:
        def set_timer(self, *timer):
            timers.append(timer)

    for is_up in (False, True):
        entrance = Entrance("n")
        entrance.open(Loop(), lambda: registered.append(1), reasons.append)
        if is_up:
            for _ in range(2):
                entrance.link_is_up(Neighbour("p", Key(b"p", "node", "p"), "", 0.0))
                entrance.link_is_up(Neighbour("h", Key(b"h", "head", "h"), "h:1", 0.0))
        seconds, address, timeout = timers.pop()
        assert (seconds, address) == (ENTRY_SECONDS, "n/entrance")
        entrance.handle("timer", timeout, 0.0)
    assert "just admitted" in reasons[0] and "not registered it" in reasons[1] and len(registered) == 1
    entrance.is_over = True
    entrance.handle("timer", timeout, 0.0)
    assert len(reasons) == 2


def test_news_of_its_place_that_is_old_makes_no_member(monkeypatch):
    """The node has stood still, and may have been given up: it asks."""
    timers, entered, lease = [], [], Lease()
    now = [100.0]
    monkeypatch.setattr(entrance_module.time, "monotonic", lambda: now[0])

    class Loop:
        def set_timer(self, *timer):
            timers.append(timer[-1])

    entrance = Entrance("n")
    entrance.open(Loop(), lambda: None, lambda reason: None)
    entrance.link_is_up(Neighbour("h", Key(b"h", "head", "h"), "h:1", 0.0))
    lease.count(now[0])
    number = lease.next_heartbeat()
    now[0] += 10.0
    for _ in range(2):
        entrance.admitted(lease, lambda: entered.append(1))
    lease.answered(number)  # so is this
    entrance.handle("timer", timers.pop(), now[0])
    assert not entered
    lease.count(now[0])
    lease.answered(lease.next_heartbeat())
    entrance.handle("timer", timers.pop(), now[0])
    assert len(entered) == 1 and entrance.is_over and len(timers) == 1


@contextlib.contextmanager
def stopped(pid, seconds):
    os.kill(int(pid), signal.SIGSTOP)
    try:
        yield be_idle(seconds)
    finally:
        os.kill(int(pid), signal.SIGCONT)


@pytest.fixture
def alone(nothing_left):
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        yield cluster


def log_of(node):
    with open(node.session.log_path("node")) as file:
        return file.read()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3.5, 7.0])
def test_a_head_that_stands_still_while_a_node_joins_is_waited_for(alone, seconds):
    """Longer than a handshake may take, too."""
    os.kill(alone.head_node.pid, signal.SIGSTOP)
    try:
        starting = Starting(alone.address, alone.token)
        be_idle(seconds)
        assert not starting.is_over
    finally:
        os.kill(alone.head_node.pid, signal.SIGCONT)
    starting.thread.join()
    assert starting.error is None
    alone.worker_nodes.append(Node(*starting.started))
    alone.wait_for_nodes()


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["head", "node"])
def test_who_stands_still_in_the_middle_of_a_join_does_not_spoil_it(alone, whose):
    starting = Starting(alone.address, alone.token)
    until(lambda: " joins from " in log_of(alone.head_node))
    with stopped(alone.head_node.pid if whose == "head" else starting.pid(), 4.0):
        pass
    starting.thread.join()
    assert starting.error is None
    alone.worker_nodes.append(Node(*starting.started))
    alone.wait_for_nodes()
