"""Requests that no node can hold: an error at once, or a wait that the user is told of."""

import pytest

from tests.roles.desk import Desk
from zray.exceptions import decode_system_error
from zray.roles import effects as e
from zray.roles.local_scheduler.forwarding.infeasible import NOTICES_MAX, WARN_SECONDS
from zray.roles.local_scheduler.task import TaskState
from zray.wire.actors import CreateActor, SpillActor
from zray.wire.gcs import HoldAtNodeReply, NodeJoined, NodeLost
from zray.wire.scheduling import JobFacts, JobNotice, SpillRefused, SpillTask
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import ObjectsReady, SubmitTasks

UNIT = RESOURCE_UNIT


class Node(Desk):
    """A node, of a cluster or alone, whose one driver wants this of the infeasible."""

    def __init__(self, infeasible="", *, is_embedded=False):
        super().__init__(cpus=2)
        self.scheduler.is_embedded = is_embedded
        self.tell("host", e.ProcessJoined("driver-2", "driver", 2, b"job-0002", 0, JobFacts(infeasible=infeasible)))
        self.job = self.scheduler.jobs[b"job-0002"]

    def ask_for(self, name="f", **resources):
        """By the second driver.  The task's id."""
        spec = self.new_spec()
        spec.options = encode_options(
            TaskOptions(resources={key: int(amount * UNIT) for key, amount in resources.items()}, name=name)
        )
        self.tell("driver-2", SubmitTasks([spec]))
        return spec.task_id

    def errors(self):
        return [
            decode_system_error(value) for _, message in self.take_sent(ObjectsReady) for _, value in message.objects
        ]

    def notices(self):
        return [(target, message.text) for target, message in self.take_sent(JobNotice)]

    def join(self, node, kind="node", **total):
        self.tell("monitor", NodeJoined(node, {key: amount * UNIT for key, amount in total.items()}, kind))

    def acknowledge(self):
        """The shards have heard what leaves; what goes up then."""
        self.shards_acknowledge()
        return [message.spec.task_id for _, message in self.take_sent(SpillTask)]

    def pass_time(self, seconds, timer):
        self.now += seconds
        self.timer(timer)


def test_alone_it_is_an_error_at_once():
    node = Node(is_embedded=True)
    node.ask_for(CPU=64)
    (error,) = node.errors()
    assert type(error).__name__ == "TaskUnschedulableError"
    assert str(error) == (
        "No node can ever run this task: it asks for 64 CPU; the largest node (local) has 2 CPU.  "
        "Start a session that has it (zray.init(num_cpus=64)), or ask for less."
    )


def test_alone_it_waits_for_ever_where_that_is_asked_for():
    node = Node("wait", is_embedded=True)
    node.ask_for("patient", CPU=64)
    assert not node.errors()
    node.pass_time(WARN_SECONDS, "Infeasible.warn")
    ((driver, text),) = node.notices()
    assert driver == "driver-2"
    assert text.startswith("task patient has waited for 10 s: it asks for 64 CPU; the largest node (local) has 2 CPU")
    assert "it will wait for ever" in text and "ZRAY_INFEASIBLE=raise" in text


def test_in_a_cluster_it_waits_and_its_user_is_told_once():
    node = Node()
    for _ in range(100):
        node.ask_for(GPU=1)
    node.ask_for("other", disk=1)
    assert not node.errors() and len(node.tasks_in(TaskState.PARKED)) == 101
    node.pass_time(WARN_SECONDS, "Infeasible.warn")
    texts = [text for _, text in node.notices()]
    assert len(texts) == 2
    assert "task f has waited for 10 s: it asks for 1 GPU; the largest node (local) has 0 GPU" in texts[0]
    assert "task other" in texts[1]
    node.ask_for(GPU=1)
    assert not node.scheduler.infeasible.suspects  # said already


def test_in_a_cluster_it_is_an_error_where_that_is_asked_for():
    node = Node("raise")
    node.join("other/local", CPU=4)
    node.ask_for(GPU=1)
    (error,) = node.errors()
    assert "it asks for 1 GPU" in str(error) and "zray start --address" in str(error)


def test_the_largest_node_is_named():
    node = Node("raise")
    node.join("aaaabbbbcccc/local", CPU=32)
    node.join("ddddeeeeffff/local", CPU=8, GPU=1)
    node.join("0000111122223333/local", kind="driver", CPU=0, GPU=100)
    node.ask_for(CPU=64)
    node.ask_for(CPU=16, GPU=1)
    node.ask_for(GPU=2)
    said = [str(error) for error in node.errors()]
    assert "the largest node (aaaabbbb) has 32 CPU" in said[0]
    assert "the largest node (ddddeeee) has 8 CPU, 1 GPU" in said[1]
    assert "the largest node (ddddeeee) has 1 GPU" in said[2]
    node.scheduler.members.facts = ("driver", "", b"")  # nothing runs on a program's own
    assert node.scheduler.address not in node.scheduler.infeasible.totals()


def test_it_goes_up_when_a_node_joins_that_can_run_it():
    node = Node()
    gpu, disk = node.ask_for(GPU=1), node.ask_for(disk=1)
    node.join("other/local", CPU=4)
    assert not node.acknowledge()
    node.join("third/local", CPU=4, GPU=1)
    assert node.acknowledge() == [gpu]
    assert node.tasks_in(TaskState.PARKED) == [disk]
    # The global scheduler has not heard of that node yet.
    node.tell("global", SpillRefused(gpu, "it asks for 1 GPU; nobody has it"))
    assert not node.errors() and gpu in node.tasks_in(TaskState.PARKED)
    node.pass_time(1.0, "Infeasible.pass_up_once_more")
    assert node.acknowledge() == [gpu]
    assert node.tasks_in(TaskState.PARKED) == [disk]


@pytest.mark.parametrize("infeasible", ["raise", "wait", ""])
@pytest.mark.parametrize("is_guest", [True, False])
def test_a_scheduler_that_has_not_heard_of_a_node_yet_decides_nothing(infeasible, is_guest):
    """It may hear of a node later than that node's tasks are spilled; no other node joins after that."""
    node = Node(infeasible)
    if is_guest:
        node.scheduler.members.facts = ("driver", "", b"")
    node.join("third/local", CPU=4, GPU=1)
    gpu = node.ask_for(GPU=1)
    assert node.acknowledge() == [gpu]
    for _ in range(2):
        node.timers.clear()
        node.tell("global", SpillRefused(gpu, "it asks for 1 GPU; the largest node (local) has 0 GPU"))
        assert not node.errors() and node.timers.named("Infeasible.pass_up_once_more")
        node.pass_time(1.0, "Infeasible.pass_up_once_more")
        assert node.acknowledge() == [gpu]
    node.tell("monitor", NodeLost("third/local", "gone"))
    node.acknowledge()
    node.tell("global", SpillRefused(gpu, "it asks for 1 GPU; the largest node (local) has 0 GPU"))
    assert len(node.errors()) == (infeasible == "raise")


def test_a_node_that_is_to_leave_has_no_place_for_what_it_refuses():
    """Else that would be passed up until the node has left; and it may wait for who waits for that."""
    node = Node("raise")
    node.join("third/local", CPU=4, GPU=1)
    spec = node.new_spec()
    node.tell("driver-2", CreateActor(spec, ActorOptions(resources={"GPU": UNIT}, class_name="Trainer")))
    node.tell("gcs-0", HoldAtNodeReply(1))
    gpu = node.ask_for(GPU=1)
    assert node.acknowledge() == [gpu]
    for task_id in (spec.task_id, gpu):
        node.tell("global", SpillRefused(task_id, "nobody has it", False, ["third/local", "unknown/local"]))
    assert len(node.errors()) == 2 and node.scheduler.members.leaving == {"third/local"}


@pytest.mark.parametrize("infeasible", ["raise", "wait", ""])
def test_nor_of_an_actor(infeasible):
    node = Node(infeasible)
    node.join("third/local", CPU=4, GPU=1)
    spec = node.new_spec()
    node.tell("driver-2", CreateActor(spec, ActorOptions(resources={"GPU": UNIT}, class_name="Trainer")))
    node.tell("gcs-0", HoldAtNodeReply(1))
    assert len(node.take_sent(SpillActor)) == 1
    node.tell("global", SpillRefused(spec.task_id, "it asks for 1 GPU; the largest node (local) has 0 GPU"))
    assert not node.errors()
    node.pass_time(1.0, "ActorMoves.ask_in_time")
    assert len(node.take_sent(SpillActor)) == 1


def test_what_found_a_node_in_time_is_not_told_of():
    node = Node()
    node.ask_for(GPU=1)
    node.now += WARN_SECONDS / 2
    node.tell("gcs-0", HoldAtNodeReply(0))  # any turn
    node.join("third/local", CPU=4, GPU=1)
    node.acknowledge()
    node.pass_time(WARN_SECONDS / 2, "Infeasible.warn")
    assert not node.notices() and not node.scheduler.infeasible.suspects


def test_the_end_of_its_job_is_its_end():
    node = Node()
    node.ask_for(GPU=1)
    node.tell("host", e.ProcessLeft("driver-2", "gone"))
    assert not node.scheduler.tasks
    node.pass_time(WARN_SECONDS, "Infeasible.warn")
    assert not node.notices()


def test_an_actor_waits_too_and_its_user_is_told():
    node = Node()
    spec = node.new_spec()
    node.tell("driver-2", CreateActor(spec, ActorOptions(resources={"GPU": UNIT}, class_name="Trainer")))
    assert spec.task_id in node.scheduler.calls.actors
    node.pass_time(WARN_SECONDS, "Infeasible.warn")
    ((_, text),) = node.notices()
    assert text.startswith("actor Trainer has waited for 10 s: it asks for 1 GPU; the largest node (local) has 0 GPU")


@pytest.mark.parametrize("infeasible, is_embedded", [("raise", False), ("", True)])
def test_an_actor_is_an_error_too(infeasible, is_embedded):
    node = Node(infeasible, is_embedded=is_embedded)
    spec = node.new_spec()
    node.tell("driver-2", CreateActor(spec, ActorOptions(resources={"GPU": UNIT}, class_name="Trainer")))
    (error,) = node.errors()
    assert type(error).__name__ == "ActorUnschedulableError"
    assert "No node can ever hold this actor: it asks for 1 GPU; the largest node (local) has 0 GPU" in str(error)


def test_a_users_terminal_is_not_flooded():
    node = Node()
    for number in range(3 * NOTICES_MAX):
        node.ask_for(**{f"disk-{number}": 1})
    node.pass_time(WARN_SECONDS, "Infeasible.warn")
    assert len(node.notices()) == NOTICES_MAX
    for number in range(5 * NOTICES_MAX):
        node.tell("other/local", JobNotice(b"job-0002", f"something {number}"))
    assert len(node.notices()) == NOTICES_MAX


def test_what_another_node_has_to_say_reaches_the_driver_that_is_here():
    node = Node()
    node.tell("other/local", JobNotice(b"job-0002", "hear, hear"))
    node.tell("other/local", JobNotice(b"job-9999", "nobody's"))
    assert node.notices() == [("driver-2", "hear, hear")]
