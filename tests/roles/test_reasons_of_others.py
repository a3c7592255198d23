"""The reasons why something is not there yet, with other nodes involved: each cause on a desk, word for word."""

import pytest
from msgspec.structs import replace

from tests.roles.desk import DRIVER
from tests.roles.reasons_desk import Node, ref
from zray.ids import FIRST_RETURN, return_id
from zray.roles.effects import Finding, HostProbed
from zray.roles.replica_effects import ShardStalled
from zray.wire.gcs import HeartbeatReply, HoldAtNodeReply, NodeJoined, ObjectLocated
from zray.wire.objects import HoldObjects
from zray.wire.reasons import ExplainReply
from zray.wire.scheduling import SpillRefused, TaskDeferred, TaskPlaced
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, encode_options
from zray.wire.tasks import WaitObjects
from zray.wire.where import LabelRule, Where, no_such_labels


@pytest.fixture
def member():
    """One of two nodes."""
    node = Node(is_embedded=False)
    node.join_cluster()
    node.tell("monitor", NodeJoined("far4567890abcdef/local", {"CPU": 4 * RESOURCE_UNIT}))
    return node


FAR = "far4567890abcdef/local"


def spilled(node, name="f", cpus=2.0):
    one = node.run_task(name, cpus=cpus)
    node.shards_acknowledge()
    return one


def test_it_was_passed_up(member):
    one = spilled(member)
    assert member.ask(one) == [f"{ref(one)}: task f was spilled to a global scheduler, which has not placed it yet"]


def test_actors_hold_what_it_needs(member):
    one = spilled(member)
    member.tell("global", TaskDeferred(one[:16], member.scheduler.tasks[one[:16]].trip))
    why = "waits for 2 CPU, which actors hold on every node that has it"
    assert member.ask(one) == [f"{ref(one)}: task f {why}"]


def test_no_node_can_run_it(member):
    one = spilled(member, cpus=64)
    why = "it asks for 64 CPU; the largest node (far45678) has 4 CPU"
    assert member.ask(one) == [f"{ref(one)}: task f waits for a node that can run it: {why}"]


def test_no_node_has_the_label(member):
    """Not a word of CPUs, of which there are enough."""
    spec = member.new_spec()
    rules = (LabelRule("disk", ("hdd",)),)
    where = Where(hard=rules)
    spec.options = encode_options(TaskOptions(resources={"CPU": RESOURCE_UNIT}, name="f", where=where))
    (one,) = member.submit(spec)
    member.shards_acknowledge()
    member.tell("global", SpillRefused(spec.task_id, no_such_labels(where)))
    lines = member.ask(one)
    assert lines == [f"{ref(one)}: task f waits for a node that can run it: {no_such_labels(where)}"]


def test_an_actor_finds_all_cpus_in_use(member):
    actor_id = member.create(cpus=3)
    one = member.call(actor_id)
    noted = "moves to another node when the GCS has recorded the task and its arguments"
    assert member.ask(one)[-1] == f"  actor Counter {noted}"
    for request in list(member.scheduler.acks.expected):
        member.tell("gcs-0", HoldAtNodeReply(request))
    line = member.ask(one)[-1]
    assert line.endswith("waits for resources: its request is in use on all nodes that have it")


def test_the_gcs_has_not_noted_it_since_a_disk_is_full(member):
    """The disk is named, and what waits for it; nothing else is."""
    why = "cannot write its log: No space left on device (/state), on the head's machine"
    member.tell("gcs-0", ShardStalled("gcs-0", [why]))
    stall = f"GCS shard 0 {why}"
    here = member.run_task(cpus=64)
    one = member.run_task(deps=[here], cpus=2)
    member.tell("gcs-0", ObjectLocated(here, 10_000_000, [FAR]))
    noted = "task f moves to another node when the GCS has recorded the task and its arguments"
    assert member.ask(one) == [stall, f"{ref(one)}: {noted}"]
    assert member.ask() == [stall]  # of a question that is about no object
    assert member.ask(one, by=FAR) == [f"{ref(one)}: {noted}"]  # that node knows of it
    assert member.scheduler.members.stalls() == [stall]
    member.tell("gcs-0", ShardStalled("gcs-0", []))
    assert member.ask(one) == [f"{ref(one)}: {noted}"] and not member.scheduler.members.stalls()


def placed(node):
    one = spilled(node)
    node.tell("global", TaskPlaced(one[:16], FAR, node.scheduler.tasks[one[:16]].trip))
    return one


def test_the_other_node_is_asked(member):
    one = placed(member)
    assert member.ask(one) is None
    ((request, asked),) = member.scheduler.explanations.asked.items()
    assert asked.hop.object_id == one
    member.tell(FAR, ExplainReply(request, [f"{ref(one)}: task f waits for 2 CPU", "  held by task g for 3 s"]))
    assert member.heard() == [
        f"{ref(one)}: task f was placed on node far45678",
        f"  on node far45678: {ref(one)}: task f waits for 2 CPU",
        "    held by task g for 3 s",
    ]
    assert not member.scheduler.explanations.asked


def place(node, one):
    """It goes up, and to the other node."""
    node.shards_acknowledge()
    node.tell("global", TaskPlaced(one[:16], FAR, node.scheduler.tasks[one[:16]].trip))
    return one


def test_an_argument_of_a_task_that_was_placed_is_unfinished_too(member):
    """The other node knows nothing of who makes it; this one does, and goes on from there."""
    made = placed(member)
    one = place(member, member.run_task("g", [made], cpus=2.0))
    assert member.ask(one) is None
    ((request, asked),) = member.scheduler.explanations.asked.items()
    assert asked.hop.object_id == made
    member.tell(FAR, ExplainReply(request, [f"{ref(made)}: task f runs on node far45678 for 3 s"]))
    assert member.heard() == [
        f"{ref(one)}: task g was placed on node far45678, and waits for an argument:",
        f"  {ref(made)}: task f was placed on node far45678",
        f"    on node far45678: {ref(made)}: task f runs on node far45678 for 3 s",
    ]


def test_the_other_node_does_not_answer(member):
    one = placed(member)
    assert member.ask(one) is None
    (request,) = member.scheduler.explanations.asked
    member.tell("stranger/local", ExplainReply(request, ["nonsense"]))
    assert member.heard() is None
    member.timer("Explanations.answer_alone")
    assert member.heard()[1] == "  on node far45678: no answer within 0.8 s"
    member.tell(FAR, ExplainReply(request, ["late"]))
    assert member.heard() is None


def test_who_is_asked_by_a_node_asks_nobody(member):
    one = placed(member)
    assert member.ask(one, by=FAR) == [f"{ref(one)}: task f was placed on node far45678"]
    assert not member.scheduler.explanations.asked
    assert member.ask(one, by="stranger/local") is None


def pass_seconds(node, seconds, finding):
    """The head answers nothing; that is what its machine looks like."""
    for _ in range(10 * seconds):
        node.now += 0.1
        node.timer("Members.report")
        node.tell("host", HostProbed("monitor", finding))


def test_the_head_is_gone(member):
    """Where the task was placed is not all that there is to say: no news of it can come."""
    one = spilled(member)
    placed = f"{ref(one)}: task f was spilled to a global scheduler, which has not placed it yet"
    pass_seconds(member, 1, Finding.ENDED)
    assert member.ask(one) == [placed]
    pass_seconds(member, 9, Finding.ENDED)
    silent = "no heartbeat from the head of the cluster for 10 s"
    assert member.ask(one) == [f"{silent} (its process has ended): this node waits up to 60 s for it", placed]
    assert member.ask(one, by=FAR) == [placed]
    member.tell("monitor", HeartbeatReply(member.scheduler.members.lease.number))
    assert member.ask(one) == [placed]
    pass_seconds(member, 3, Finding.STANDS_STILL)
    assert "for 3 s (it is suspended, or unreachable)" in member.ask(one)[0]


def test_the_head_of_a_program_outside_is_out_of_reach(member):
    """Its node is nobody's business."""
    member.scheduler.members.start("driver", head_wait=60.0)
    one = spilled(member)
    pass_seconds(member, 1, Finding.OUT_OF_REACH)
    member.tell("monitor", HeartbeatReply(member.scheduler.members.lease.number, 30.0))
    pass_seconds(member, 5, Finding.OUT_OF_REACH)
    silent = "no heartbeat from the head of the cluster for 5 s (it is suspended, or unreachable)"
    assert member.ask(one)[0] == f"{silent}: this program waits up to 30 s for it"
    pass_seconds(member, 5, Finding.ENDED)
    silent = "no heartbeat from the head of the cluster for 10 s (its process has ended)"
    assert member.ask(one)[0] == f"{silent}: this program waits up to 60 s for it"


def test_it_is_on_its_way(member):
    one = return_id(b"t" * 16, 1)
    member.tell(DRIVER, HoldObjects([one]))
    member.tell(DRIVER, WaitObjects(9, [one], 1))
    assert member.ask(one) == [f"{ref(one)}: is not computed on node local, and no copy of it is known yet"]
    member.tell("gcs-0", ObjectLocated(one, 5_000_000, [FAR]))
    assert member.ask(one) == [f"{ref(one)}: 5,000,000 bytes are on their way to node local from node far45678"]


@pytest.mark.parametrize("is_named", [True, False])
def test_who_made_an_actor_is_asked_why_it_has_no_place(member, is_named):
    """It has one when its group has, say; until then it is its maker's, and the GCS says nothing."""
    actor_id = b"a" * 16
    if is_named:
        member.scheduler.routes.name_found(actor_id, FAR)
    else:
        job = member.scheduler.processes[DRIVER].job
        job.facts = replace(job.facts, home=FAR)
    one = member.call(actor_id)
    assert member.ask(one) is None
    ((request, asked),) = member.scheduler.explanations.asked.items()
    assert asked.hop.object_id == actor_id + FIRST_RETURN
    member.tell(FAR, ExplainReply(request, ["it waits for placement group 12ab"]))
    assert member.heard() == [
        f"{ref(one)}: call Counter.add waits for the GCS to locate its actor",
        "  on node far45678: it waits for placement group 12ab",
    ]


def test_nobody_knows_it():
    node = Node()
    one = return_id(b"t" * 16, 1)
    assert node.ask(one) == [f"{ref(one)}: node local has no record of it"]
