"""Traces of actors' handles over nodes: questions, answers, and what happens between two answers."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER, Acknowledged
from tests.roles.test_actor_homes import ACTOR, HANDLE, N1, N2, N3, shard_of, tell
from zray.ids import FIRST_RETURN
from zray.wire.actors import FindActor, FindActorReply, ForwardCalls, LookUpActorReply
from zray.wire.gcs import NodeLost, ReleaseAtNode
from zray.wire.handles import (
    EndTrace,
    FindHolders,
    FindHoldersReply,
    HandleFacts,
    HandleReleased,
    NamedFound,
    SeekNamed,
    TraceHandles,
    TraceHandlesReply,
)
from zray.wire.objects import HoldObjects, ReleaseObjects
from zray.wire.task_spec import ActorOptions, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import StartTasks, StopWorker, SubmitTasks

HERE, SHARD = "local", "gcs-0"
OTHER = b"b" * 16
OTHER_HANDLE = OTHER + FIRST_RETURN
DIALOG = (FindHolders, TraceHandles, TraceHandlesReply, EndTrace, HandleReleased, StopWorker, NamedFound)


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


@pytest.mark.parametrize("options", [{"detached": True}, {"checkpoint_interval": 9}])
def test_detached_and_recoverable_actors_are_not_traced(options):
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


# --- names ---


class Named(Node):
    """The actor has a name, and only the other one has its handle; N2 traces both, and has asked so often."""

    def __init__(self, looks):
        super().__init__(name="one")
        self.tell(DRIVER, ReleaseObjects([HANDLE]))
        for _ in range(looks):
            self.tell(N2, TraceHandles(4, [OTHER, ACTOR]))
        self.says()

    def begun(self):
        """Calls that the actor's process was sent."""
        return [spec.task_id for _, message in self.take_sent(StartTasks) for spec in message.specs]


CHANGED = (N2, TraceHandlesReply(4, [], has_changed=True))


def test_a_name_does_not_keep_an_actor():
    node = Named(looks=2)
    node.tell(N2, EndTrace(4, [ACTOR, OTHER]))
    assert node.is_told_to_stop()


def test_an_actor_that_is_found_before_the_second_look_stays():
    node = Named(looks=1)
    node.tell(N3, SeekNamed(9, ACTOR))
    assert node.says() == [(N3, NamedFound(9, is_gone=False))]
    node.tell(N2, TraceHandles(4, [OTHER, ACTOR]))
    assert [message.has_changed for _, message in node.says()] == [True]


@pytest.mark.parametrize("ends", [False, True])
def test_finder_of_an_actor_after_the_second_look_waits_for_the_end_of_the_trace(ends):
    node = Named(looks=2)
    node.tell(N3, SeekNamed(9, ACTOR))
    assert node.says() == [CHANGED]
    node.tell(N3, SeekNamed(10, ACTOR))
    assert not node.says()
    node.tell(N2, EndTrace(4, [ACTOR, OTHER] if ends else []))
    answers = [item for item in node.says() if type(item[1]) is NamedFound]
    assert answers == [(N3, NamedFound(9, ends)), (N3, NamedFound(10, ends))]
    assert node.is_told_to_stop() is ends and not node.scheduler.traces.watches


@pytest.mark.parametrize("end", ["found", "ended", "the tracing node is lost"])
def test_a_process_here_that_finds_an_actor_waits_too(end):
    node = Named(looks=2)
    node.tell(DRIVER, FindActor(1, "", "one"))
    node.tell(SHARD, LookUpActorReply("", "one", ACTOR, b"", HERE))
    sent = node.take_sent()
    assert CHANGED in sent and not [message for _, message in sent if type(message) is FindActorReply]
    if end == "the tracing node is lost":
        node.tell("monitor", NodeLost(N2, "killed"))
    else:
        node.tell(N2, EndTrace(4, [ACTOR, OTHER] if end == "ended" else []))
    ((_, reply),) = node.take_sent(FindActorReply)
    assert reply.actor_id == (b"" if end == "ended" else ACTOR)
    assert node.is_told_to_stop() is (end == "ended")


@pytest.mark.parametrize("ends", [False, True])
def test_a_call_by_a_weak_handle_after_the_second_look_waits_too(ends):
    node = Named(looks=2)
    options = encode_options(TaskOptions({}, actor_id=ACTOR, method="m", found_at=HERE))
    node.tell(N3, ForwardCalls([TaskSpec(b"c" * 16, b"", options=options)]))
    sent = node.take_sent()
    assert CHANGED in sent and not [message for _, message in sent if type(message) is StartTasks]
    node.tell(N2, EndTrace(4, [ACTOR, OTHER] if ends else []))
    assert node.begun() == ([] if ends else [b"c" * 16])
    assert node.is_told_to_stop() is ends


def test_a_change_that_is_told_after_the_last_answer_ends_the_trace():
    node = Node()
    node.begin()
    node.tell(N2, TraceHandlesReply(1, [THEIRS]))
    node.says()
    node.tell(N2, TraceHandlesReply(1, [], has_changed=True))  # of a node that is not asked at present
    assert node.says() == [(N2, EndTrace(1, []))] and not node.is_told_to_stop()


@pytest.mark.parametrize("end", ["found", "gone", "lost"])
def test_finder_of_an_actor_of_another_node_asks_its_home(end):
    node = Node()
    node.tell(DRIVER, FindActor(1, "", "other"))
    node.tell(SHARD, LookUpActorReply("", "other", OTHER, b"", N2))
    sent = node.heard()
    ((home, question),) = [item for item in sent if type(item[1]) is SeekNamed]
    assert (home, question.actor_id) == (N2, OTHER)
    assert not [message for _, message in sent if type(message) is FindActorReply]
    node.tell(N3, NamedFound(question.request, is_gone=True))  # of a stranger
    if end == "lost":
        node.tell("monitor", NodeLost(N2, "killed"))
    else:
        node.tell(N2, NamedFound(question.request, is_gone=end == "gone"))
    ((_, reply),) = node.take_sent(FindActorReply)
    assert reply.actor_id == (b"" if end == "gone" else OTHER)
    assert not node.scheduler.names.elsewhere.unsure


# --- hosted actors ---


def test_hosted_actors_hold_what_their_process_holds():
    node, third = Node(hosted=True), b"x" * 16
    node.create(third, ActorOptions(hosted=True))
    node.settle()
    node.tell(DRIVER, ReleaseObjects([HANDLE]))
    node.tell(N2, TraceHandles(4, [OTHER, ACTOR, third]))
    ((_, reply),) = node.says()
    theirs, ours, others = reply.facts
    assert theirs.holders == [(ACTOR, HERE), (third, HERE)] and not theirs.is_reachable
    assert ours.is_home and not ours.is_reachable and others.is_reachable


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
