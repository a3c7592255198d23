"""A wait that takes long says why, on standard error."""

import io
import os
import re
import signal
import threading
import time
from types import SimpleNamespace

import pytest

import zray
from tests.gates import Tally, until
from zray.cluster_utils import Cluster
from zray.host.client import slow_wait_report
from zray.util.placement_group import placement_group, remove_placement_group
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy


@pytest.fixture
def impatient(monkeypatch):
    """What is said after ten seconds is said at once."""
    monkeypatch.setattr(slow_wait_report, "SAID_AFTER", tuple(0.05 * 2**n for n in range(10)))


@pytest.fixture
def hearing(monkeypatch):
    """All that waits have said so far on standard error.

    By a stream of our own: pytest's, read while another thread writes, loses what comes as it is emptied.
    """
    said = io.StringIO()
    monkeypatch.setattr(slow_wait_report, "sys", SimpleNamespace(stderr=said))
    return said.getvalue


def test_a_wait_explains_itself_after_ten_seconds_a_minute_and_ten():
    """The other tests have other numbers."""
    assert slow_wait_report.SAID_AFTER[:3] == (10.0, 60.0, 600.0)


class Waiter:
    """zray.get in a thread of its own."""

    def __init__(self, function, *args, **kwargs):
        self.outcome = None
        self.thread = threading.Thread(target=self.run, args=(function, args, kwargs))
        self.thread.start()

    def run(self, function, args, kwargs):
        try:
            self.outcome = function(*args, **kwargs)
        except BaseException as error:
            self.outcome = error

    def end(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.outcome


@zray.remote(num_cpus=1)
class Holder:
    def ping(self):
        return "here"


@zray.remote
def pass_through(gate, value=None):
    gate.wait()
    return value


def test_two_actors_and_one_cpu(start, impatient, hearing):
    """ray-project/ray#5468: "Hang without any error message"."""
    node = start(num_cpus=1)["node_id"][:8]
    first, second = Holder.remote(), Holder.remote()
    assert zray.get(first.ping.remote(), timeout=20) == "here"
    ref = second.ping.remote()
    waiter = Waiter(zray.get, ref)
    until(lambda: "held by" in hearing())
    assert f"{ref}: call Holder.ping waits for its actor:\n    actor Holder waits for 1 CPU: " in hearing()
    assert f"node {node} has 0 of 1 CPU free\n      held by actor Holder, which is idle, for" in hearing()
    zray.kill(first)
    assert waiter.end() == "here"
    assert "get() has waited for 0.05 s:" in hearing()


def test_a_group_that_has_no_room_is_what_its_ready_waits_for(start, impatient, hearing):
    """And not a task whose name no user has chosen."""
    start(num_cpus=1)
    first = placement_group([{"CPU": 1}])
    assert zray.get(first.ready(), timeout=20) == first
    second = placement_group([{"CPU": 1}])
    waiter = Waiter(zray.get, second.ready())
    until(lambda: "PlacementGroup.ready" in hearing())
    assert "_is_placed" not in hearing()
    remove_placement_group(first)
    assert waiter.end() == second


def test_it_is_said_at_growing_intervals_and_then_no_more(start, monkeypatch, hearing, gate):
    monkeypatch.setattr(slow_wait_report, "SAID_AFTER", (0.05, 0.1, 0.2))
    start(num_cpus=1)
    ref = pass_through.remote(gate, 42)
    waiter = Waiter(zray.wait, [ref])
    until(lambda: "wait() has waited for 0.2 s" in hearing())
    gate.open()
    assert waiter.end() == ([ref], [])
    assert [line for line in hearing().splitlines() if line.startswith("zray:")] == [
        f"zray: wait() has waited for {seconds} s:" for seconds in ("0.05", "0.1", "0.2")
    ]
    assert f"{ref}: task pass_through " in hearing()


def test_a_short_wait_says_nothing(start, hearing, gate):
    start(num_cpus=1)
    ref = pass_through.remote(gate)
    with pytest.raises(zray.exceptions.GetTimeoutError):
        zray.get(ref, timeout=0.1)
    gate.open()
    assert zray.get(ref, timeout=20) is None
    assert "zray:" not in hearing()


def test_a_failure_ends_the_wait_while_its_reasons_are_asked_for(start, impatient, gate):
    start(num_cpus=2)
    forever = pass_through.remote(gate)

    def fail(gate):
        gate.wait()
        raise KeyError("no")

    refs = [forever, zray.remote(fail).remote(gate)]
    waiter = Waiter(zray.get, refs)
    gate.open()
    assert isinstance(waiter.end(), KeyError)


def test_the_other_node_is_asked(nothing_left, impatient, hearing, gate):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        node = cluster.add_node(num_cpus=1, resources={"disk": 1})
        with zray.init(address=cluster.address):
            refs = [pass_through.options(resources={"disk": 1}).remote(gate, number) for number in range(2)]
            waiter = Waiter(zray.get, refs)
            until(lambda: f"on node {node.node_id[:8]}: " in hearing())
            assert f"was placed on node {node.node_id[:8]}\n" in hearing()
            gate.open()
            assert waiter.end() == [0, 1]


@zray.remote(num_cpus=0)
def visit_and_wait(gate, tally):
    tally.visit()
    gate.wait(60)


def test_the_end_of_a_timeout_says_that_the_other_node_does_not_answer(cluster, gate, tmp_path):
    """The process stands still: reasons are asked for ahead of the deadline, which holds."""
    cluster.connect()
    node = cluster.worker_nodes[0]
    elsewhere = NodeAffinitySchedulingStrategy(node.node_id, False)
    tally = Tally(tmp_path)
    ref = visit_and_wait.options(scheduling_strategy=elsewhere).remote(gate, tally)
    until(tally.count)
    os.kill(node.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(zray.exceptions.GetTimeoutError, match=f"on node {node.node_id[:8]}: no answer within"):
            zray.get(ref, timeout=1.0)
        assert time.monotonic() - began < 1.4
    finally:
        os.kill(node.pid, signal.SIGCONT)
    gate.open()


@pytest.mark.parametrize("is_first_answered", [True, False])
def test_timeout_holds_where_the_node_does_not_say_why(start, gate, monkeypatch, is_first_answered):
    """The answer to the question ahead of the deadline will do, where there is one."""
    start(num_cpus=1)
    ref = pass_through.options(num_cpus=0).remote(gate, "here")
    ask, asked = slow_wait_report._ask, []

    def ask_in_vain(runtime, awaited):
        asked.append(awaited)
        if is_first_answered and len(asked) == 1:
            return ask(runtime, awaited)
        with runtime.lock:
            return runtime.client.expect_reply()

    monkeypatch.setattr(slow_wait_report, "_ask", ask_in_vain)
    monkeypatch.setattr(slow_wait_report, "ANSWER_SECONDS", 50.0)
    replies = len(zray.host.context.runtime.client.replies)
    began = time.monotonic()
    with pytest.raises(zray.exceptions.GetTimeoutError) as caught:
        zray.get(ref, timeout=0.5)
    assert 0.5 <= time.monotonic() - began < 0.5 + slow_wait_report.ANSWER_SECONDS / 2  # the answer is not waited for
    assert len(asked) == 2 and ("pass_through" in str(caught.value)) == is_first_answered
    assert len(zray.host.context.runtime.client.replies) == replies
    gate.open()


@zray.remote(num_cpus=0)
def ask_why(actor):
    """What a call on it says of itself on another node."""
    said = io.StringIO()
    slow_wait_report.sys, slow_wait_report.SAID_AFTER = SimpleNamespace(stderr=said), (0.5,)
    zray.wait([(actor or zray.get_actor("late")).ping.remote()], timeout=2.0)
    return said.getvalue()


@pytest.mark.parametrize("is_named", [True, False])
def test_a_task_elsewhere_hears_why_an_actor_has_no_place(cluster, is_named):
    """Its own node does not know who made it."""
    cluster.connect(namespace="tests")
    held = [Holder.remote() for _ in range(2)]
    assert zray.get([holder.ping.remote() for holder in held], timeout=20)
    group = placement_group([{"CPU": 1}])
    home = cluster.head_node.node_id[:8]
    ask = ask_why.options(scheduling_strategy=NodeAffinitySchedulingStrategy(cluster.worker_nodes[0].node_id, False))
    for strategy, why in (
        (
            PlacementGroupSchedulingStrategy(group),
            f"waits for placement group {group.id.hex()}: too few resources",
        ),
        ("DEFAULT", "waits for resources: its request is in use on all nodes that have it"),
    ):
        actor = Holder.options(name="late" if is_named else None, scheduling_strategy=strategy).remote()
        said = zray.get(ask.remote(None if is_named else actor), timeout=30)
        assert "waits for the GCS to locate its actor" in said
        assert f"on node {home}: " in said and f"actor Holder {why}" in said
        zray.kill(actor)
        del actor


def test_a_future_that_takes_long_says_why_too(start, impatient, hearing, gate):
    """So does an `await`, which waits for one; and those that come soon after each other do not put it off."""
    start(num_cpus=1)
    slow = pass_through.options(num_cpus=0).remote(gate, "here").future()
    # At first, on a busy machine, it waits for a worker.
    runs = "task pass_through runs on node"
    until(lambda: pass_through.options(num_cpus=0).remote(Open()).future().result() or runs in hearing())
    assert re.search(r"[12] ref\(s\) have been awaited for [0-9.]+ s:\n  ObjectRef\(", hearing())
    gate.open()
    assert slow.result(20) == "here"


class Open:
    """A gate that is."""

    def wait(self):
        pass
