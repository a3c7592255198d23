"""Traces of actors' handles over nodes: questions, answers, and what happens between two answers."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER, Acknowledged
from tests.roles.test_actor_homes import ACTOR, HANDLE, N1, N2, N3, shard_of, tell
from zray.ids import FIRST_RETURN
from zray.wire.gcs import NodeLost, ReleaseAtNode
from zray.wire.handles import (
    EndTrace,
    FindHolders,
    FindHoldersReply,
    HandleFacts,
    HandleReleased,
    TraceHandles,
    TraceHandlesReply,
)
from zray.wire.objects import HoldObjects, ReleaseObjects
from zray.wire.task_spec import ActorOptions, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import StopWorker, SubmitTasks

HERE, SHARD = "local", "gcs-0"
OTHER = b"b" * 16
OTHER_HANDLE = OTHER + FIRST_RETURN
DIALOG = (FindHolders, TraceHandles, TraceHandlesReply, EndTrace, HandleReleased, StopWorker)


class Node(Acknowledged, ActorDesk):
    """An actor lives here and another one on N2; each holds the other's handle, and so does the driver here."""

    def __init__(self, **options):
        super().__init__()
        self.join(N2, N3)
        self.create(ACTOR, ActorOptions(**options))
        self.settle()
        (self.worker,) = self.actors
        self.handle = self.scheduler.objects.entries[HANDLE]
        self.handle.share()
        self.tell(self.worker, HoldObjects([OTHER_HANDLE]))
        self.take_sent()

    def says(self):
        """Messages of this node to others about traces; messages to itself are delivered."""
        others = []
        while sent := [item for item in self.take_sent() if type(item[1]) in DIALOG]:
            others += [item for item in sent if item[0] != HERE]
            for target, message in sent:
                if target == HERE:
                    self.tell(HERE, message)
        return others

    def begin(self):
        """The driver lets go; the node finds the other actor."""
        self.tell(DRIVER, ReleaseObjects([HANDLE]))
        self.tell(SHARD, HandleReleased(ACTOR))
        self.timer("Traces._begin")
        assert self.says() == [(SHARD, FindHolders(1, [ACTOR]))]
        self.tell(SHARD, FindHoldersReply(1, [(ACTOR, [N2])]))
        assert self.says() == [(N2, TraceHandles(1, [ACTOR]))]
        self.tell(N2, TraceHandlesReply(1, [HandleFacts(ACTOR, holders=[(OTHER, N2)])]))
        assert self.says() == [(SHARD, FindHolders(1, [OTHER]))]
        self.tell(SHARD, FindHoldersReply(1, [(OTHER, [HERE])]))
        assert self.says() == [(N2, TraceHandles(1, [OTHER]))]

    def is_told_to_stop(self):
        return self.actors[self.worker].is_told_to_stop


THEIRS = HandleFacts(OTHER, is_home=True)
AGAIN = [HandleFacts(ACTOR, holders=[(OTHER, N2)]), THEIRS]


def test_actors_that_only_hold_each_other_end_after_a_second_look():
    node = Node()
    node.begin()
    node.tell(N2, TraceHandlesReply(1, [THEIRS]))
    assert node.says() == [(SHARD, FindHolders(1, [ACTOR, OTHER]))] and not node.is_told_to_stop()
    node.tell(SHARD, FindHoldersReply(1, [(ACTOR, [N2]), (OTHER, [HERE])]))
    assert node.says() == [(N2, TraceHandles(1, [ACTOR, OTHER]))] and not node.is_told_to_stop()
    node.tell(N2, TraceHandlesReply(1, AGAIN))
    assert (N2, EndTrace(1, [ACTOR, OTHER])) in node.says()
    assert node.is_told_to_stop()


@pytest.mark.parametrize("what", ["is_reachable", "is_busy", "home has moved"])
def test_actors_stay_that_another_node_says_to_be(what):
    node = Node()
    node.begin()
    facts = HandleFacts(OTHER, is_home=what != "home has moved")
    facts.is_reachable, facts.is_busy = what == "is_reachable", what == "is_busy"
    node.tell(N2, TraceHandlesReply(1, [facts]))
    assert node.says() == [(N2, EndTrace(1, []))] and not node.is_told_to_stop()
    assert bool(node.timers.named("Traces._begin")) is (what != "is_reachable")  # else there will be news of the end


def call(node):
    """A call on the actor comes and goes."""
    options = encode_options(TaskOptions({}, actor_id=ACTOR, method="m"))
    node.tell(DRIVER, SubmitTasks([TaskSpec(b"c" * 16, b"", options=options)]))
    node.settle()


def hold(node, handle=HANDLE):
    """A process gets a handle, and drops it."""
    node.tell(DRIVER, HoldObjects([handle]))
    node.tell(DRIVER, ReleaseObjects([handle]))


CHANGES = {
    "a call": call,
    "a handle that passes by": hold,
    "a handle of another node's actor that passes by": lambda node: hold(node, OTHER_HANDLE),
    "a holder": lambda node: node.tell(DRIVER, HoldObjects([OTHER_HANDLE])),
    "the loss of a node": lambda node: node.tell("monitor", NodeLost(N3, "killed")),
    "a new process": lambda node: (node.kill(node.worker), node.settle()),
}


@pytest.mark.parametrize("look", ["first", "second"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_between_both_looks_makes_the_trace_void(change, look):
    node = Node(max_restarts=1)
    node.begin()
    if look == "first":
        change(node)
    node.tell(N2, TraceHandlesReply(1, [THEIRS]))
    said = node.says()
    if look == "second":
        change(node)
    node.tell(SHARD, FindHoldersReply(1, [(ACTOR, [N2]), (OTHER, [HERE])]))
    said += node.says()
    node.tell(N2, TraceHandlesReply(1, AGAIN))
    said += node.says()
    assert [message for _, message in said if type(message) is EndTrace] == [EndTrace(1, [])]
    assert not any(process.is_told_to_stop for process in node.actors.values())
    assert bool(node.timers.named("Traces._begin")) is (change is not CHANGES["a holder"])


@pytest.mark.parametrize(
    "shard", [[(ACTOR, [N2, N3]), (OTHER, [HERE])], [(ACTOR, [N2]), (OTHER, [HERE, "n9/local"])]], ids=["N3", "new"]
)
def test_a_node_that_holds_a_handle_since_makes_the_trace_void(shard):
    node = Node()
    node.begin()
    node.tell(N2, TraceHandlesReply(1, [THEIRS]))
    node.says()
    node.tell(SHARD, FindHoldersReply(1, shard))
    assert node.says() == [(N2, EndTrace(1, []))] and not node.is_told_to_stop()


def test_a_change_on_another_node_makes_the_trace_void():
    node = Node()
    node.begin()
    node.tell(N2, TraceHandlesReply(1, [THEIRS]))
    node.tell(SHARD, FindHoldersReply(1, [(ACTOR, [N2]), (OTHER, [HERE])]))
    node.says()
    node.tell(N2, TraceHandlesReply(1, AGAIN, has_changed=True))
    assert node.says() == [(N2, EndTrace(1, []))] and not node.is_told_to_stop()


def test_answers_of_an_earlier_trace_and_of_strangers_change_nothing():
    node = Node()
    node.begin()
    node.tell(N2, TraceHandlesReply(7, [HandleFacts(OTHER, is_reachable=True)]))
    node.tell(N3, TraceHandlesReply(1, [HandleFacts(OTHER, is_reachable=True)]))
    node.tell(N3, EndTrace(1, [ACTOR]))
    assert not node.says() and not node.is_told_to_stop()
    node.tell(N2, TraceHandlesReply(1, [THEIRS]))
    assert node.says() == [(SHARD, FindHolders(1, [ACTOR, OTHER]))]


@pytest.mark.parametrize("options", [{"detached": True}, {"name": "one"}, {"checkpoint_interval": 9}])
def test_detached_named_and_recoverable_actors_are_not_traced(options):
    node = Node(**options)
    node.tell(DRIVER, ReleaseObjects([HANDLE]))
    node.tell(SHARD, HandleReleased(ACTOR))
    node.timer("Traces._begin")
    assert not node.says() and not node.timers.named("Traces._begin")


def test_a_node_answers_for_the_actors_that_hold_a_handle_and_ends_its_own():
    node = Node()
    node.tell(N2, TraceHandles(3, [OTHER, ACTOR]))
    facts = [HandleFacts(OTHER, holders=[(ACTOR, HERE)]), HandleFacts(ACTOR, is_home=True, is_reachable=True)]
    assert node.says() == [(N2, TraceHandlesReply(3, facts))]
    node.tell(DRIVER, ReleaseObjects([HANDLE]))
    node.tell(N2, TraceHandles(4, [OTHER, ACTOR]))
    facts = [HandleFacts(OTHER, holders=[(ACTOR, HERE)]), HandleFacts(ACTOR, is_home=True)]
    assert node.says() == [(N2, TraceHandlesReply(4, facts))]
    node.tell(N2, EndTrace(3, [ACTOR]))
    assert not node.is_told_to_stop()
    node.tell(N2, EndTrace(4, [ACTOR, OTHER]))
    assert node.is_told_to_stop() and not node.scheduler.traces.watches


def test_the_watch_of_a_lost_node_is_forgotten():
    node = Node()
    node.tell(DRIVER, ReleaseObjects([HANDLE]))
    node.tell(N2, TraceHandles(4, [ACTOR]))
    node.tell("monitor", NodeLost(N2, "killed"))
    node.says()
    node.tell(N2, EndTrace(4, [ACTOR]))
    node.tell(N2, TraceHandles(5, [ACTOR]))
    assert not node.scheduler.traces.watches and not node.says() and not node.is_told_to_stop()


def test_nothing_is_said_and_no_timer_set_where_a_driver_holds_the_handle():
    node = Node()
    node.tell(node.worker, HoldObjects([HANDLE]))
    node.tell(node.worker, ReleaseObjects([HANDLE]))
    assert not node.says() and not node.timers.named("Traces._begin")


# --- the shard ---


def test_the_shard_tells_the_home_of_each_node_that_lets_go_but_the_last():
    shard = shard_of(held_by=(N1, N2, N3))
    assert tell(shard, N1, ReleaseAtNode(N1, [HANDLE])) == [(N2, HandleReleased(ACTOR))]
    assert tell(shard, N1, ReleaseAtNode(N1, [HANDLE])) == []
    assert tell(shard, N2, FindHolders(5, [ACTOR, OTHER])) == [
        (N2, FindHoldersReply(5, [(ACTOR, [N2, N3]), (OTHER, [])]))
    ]
    assert (N2, HandleReleased(ACTOR)) in tell(shard, "monitor", NodeLost(N3, "killed"))
    assert not [item for item in tell(shard, N2, ReleaseAtNode(N2, [HANDLE])) if type(item[1]) is HandleReleased]
