"""Why something is not there yet, in words (U02): each cause on a desk, word for word."""

import pytest

from tests.roles.desk import DRIVER, FUNCTION, Desk
from zray.ids import return_id
from zray.roles.effects import Finding, HostProbed
from zray.roles.local_scheduler.explain import HopTimeout
from zray.roles.local_scheduler.members import LoadTimeout
from zray.roles.local_scheduler.reasons import DEPTH_MAX
from zray.wire.actors import ActorStarted, CreateActor
from zray.wire.gcs import HeartbeatReply, NodeJoined, ObjectLocated, RecordTasksReply
from zray.wire.objects import HoldObjects
from zray.wire.reasons import LINE_CHARACTERS_MAX, LINES_MAX, Explain, ExplainReply
from zray.wire.scheduling import SpillRefused, TaskDeferred, TaskPlaced
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import Function, PublishFunction, SubmitTasks, WaitObjects
from zray.wire.where import LabelRule, Where, no_such_labels


class Node(Desk):
    """A desk that is asked."""

    def __init__(self, cpus=1, *, is_embedded=True):
        super().__init__(cpus)
        self.scheduler.is_embedded = is_embedded
        self.request = 0

    def ask(self, *object_ids, by=DRIVER):
        self.take_sent()
        self.request += 1
        self.tell(by, Explain(self.request, list(object_ids)))
        return self.heard(by)

    def heard(self, by=DRIVER):
        """The lines of the answer; None: there is none yet."""
        replies = [message for target, message in self.take_sent(ExplainReply) if target == by]
        assert len(replies) <= 1
        return replies[0].lines if replies else None

    def run_task(self, name="f", deps=(), cpus=1.0, by=DRIVER):
        """Submit one; the id of what it returns."""
        spec = self.new_spec(deps)
        spec.options = encode_options(TaskOptions(resources={"CPU": int(cpus * RESOURCE_UNIT)}, name=name))
        self.tell(by, SubmitTasks([spec]))
        return return_id(spec.task_id, 1)

    def create(self, name="Counter", cpus=0.0):
        spec = self.new_spec()
        resources = {"CPU": int(cpus * RESOURCE_UNIT)} if cpus else {}
        self.tell(DRIVER, CreateActor(spec, ActorOptions(resources=resources, class_name=name)))
        return spec.task_id

    def call(self, actor_id, deps=(), by=DRIVER):
        spec = self.new_spec(deps)
        spec.function_id = b""
        spec.options = encode_options(TaskOptions(resources={}, name="Counter.add", actor_id=actor_id, method="add"))
        self.tell(by, SubmitTasks([spec]))
        return return_id(spec.task_id, 1)

    def block(self, worker, *object_ids):
        self.tell(worker, WaitObjects(1, list(object_ids), len(object_ids), True, True))


def ref(object_id):
    return f"ObjectRef({object_id.hex()})"


def test_it_is_here():
    node = Node()
    (one,) = node.submit(node.new_spec())
    node.run_all()
    assert node.ask(one) == [f"{ref(one)}: is here"]


def test_a_worker_is_starting():
    node = Node()
    one = node.run_task()
    assert node.ask(one) == [f"{ref(one)}: task f waits for a worker process, of which 1 are starting"]


def test_it_runs():
    node = Node()
    one = node.run_task()
    node.give_birth()
    node.now += 12
    assert node.ask(one) == [f"{ref(one)}: task f runs on node local (pid 101) for 12 s"]


def test_each_task_of_a_lease_runs_since_the_one_before_it_ended():
    node = Node()
    node.scheduler.dispatch.takes(FUNCTION, 10)
    first, second = node.run_task("f"), node.run_task("f")
    worker = node.give_birth()
    assert len(node.queues[worker]) == 2
    node.now += 6
    assert node.ask(first) == [f"{ref(first)}: task f runs on node local (pid 101) for 6 s"]
    node.finish_one(worker)
    node.now += 4
    assert node.ask(second) == [f"{ref(second)}: task f runs on node local (pid 101) for 4 s"]


def test_others_have_the_cpus():
    node = Node(cpus=2)
    for _ in range(2):
        node.run_task("g")
        node.give_birth()
        node.now += 6
    one = node.run_task("f", cpus=2)
    assert node.ask(one) == [
        f"{ref(one)}: task f waits for 2 CPU: node local has 0 of 2 CPU free",
        "  held by task g x2, the longest for 12 s",
    ]


def test_an_actor_has_the_cpu_of_another():
    """The program of ray-project/ray#5468: it hung without a word."""
    node = Node()
    first, second = node.create("First", cpus=1), node.create("Second", cpus=1)
    node.give_birth()
    node.tell("worker-1", ActorStarted(first))
    node.now += 12
    one = node.call(second)
    assert node.ask(one) == [
        f"{ref(one)}: call Counter.add waits for its actor:",
        "  actor Second waits for 1 CPU: node local has 0 of 1 CPU free",
        "    held by actor First, which has nothing to do, for 12 s",
    ]


def test_an_argument_is_made_by_a_task_that_runs():
    node = Node()
    one = node.run_task("h")
    two = node.run_task("f", [one])
    node.give_birth()
    node.now += 9
    assert node.ask(two) == [
        f"{ref(two)}: task f waits for an argument:",
        f"  {ref(one)}: task h runs on node local (pid 101) for 9 s",
    ]


def test_its_code_is_missing():
    node = Node()
    spec = node.new_spec()
    spec.function_id = b"elsewhere" + b"." * 7
    (one,) = node.submit(spec)
    assert node.ask(one) == [
        f"{ref(one)}: task {spec.function_id.hex()} waits for its code, which the GCS was asked for"
    ]


def test_what_runs_waits_itself():
    node = Node()
    one = node.run_task("outer")
    worker = node.give_birth()
    two = node.run_task("inner", by=worker)
    node.block(worker, two)
    other = node.give_birth()
    assert node.ask(one) == [
        f"{ref(one)}: task outer runs on node local (pid 101), and waits itself for:",
        f"  {ref(two)}: task inner runs on node local (pid 102) for 0 s",
    ]
    third = node.run_task("third")
    node.now += 5
    node.finish_one(other)
    node.now += 2
    assert node.ask(one)[0] == f"{ref(one)}: task outer runs on node local (pid 101) for 7 s"  # it has its CPU again
    assert "task third waits for 1 CPU" in node.ask(third)[0]


def test_a_worker_that_waits_for_its_cpu():
    node = Node()
    one = node.run_task("outer")
    worker = node.give_birth()
    two = node.run_task("free", cpus=0, by=worker)
    node.block(worker, two)
    node.run_task("long", by=worker)
    while node.starting:
        node.give_birth()
    node.now += 12
    lines = node.ask(one)
    assert lines[0] == f"{ref(one)}: task outer runs on node local (pid 101), and waits itself for:"
    assert f"{ref(two)}: task free runs" in lines[1]
    other = next(name for name, queue in node.queues.items() if queue and queue[0].task_id == two[:16])
    node.finish_one(other)
    assert node.ask(one) == [
        f"{ref(one)}: task outer runs on node local (pid 101), and waits to get its CPU back",
        "  held by task long for 12 s",
    ]
    assert node.ask(two, by=worker) == [
        "all of it is here; this process waits to get its CPU back",
        "  held by task long for 12 s",
    ]


def test_a_call_waits_behind_others():
    node = Node()
    actor = node.create()
    worker = node.give_birth()
    node.tell(worker, ActorStarted(actor))
    node.now += 100
    first = node.call(actor)
    node.now += 7
    third = [node.call(actor) for _ in range(2)][1]
    assert node.ask(first) == [f"{ref(first)}: call Counter.add runs on node local (pid 101) for 7 s"]
    assert node.ask(third) == [
        f"{ref(third)}: call Counter.add waits on node local (pid 101), behind 2 others of the same actor:",
        "  call Counter.add runs for 7 s",
    ]


def test_the_constructor_runs():
    node = Node()
    actor = node.create()
    one = node.call(actor)
    node.give_birth()
    node.now += 5
    assert node.ask(one) == [
        f"{ref(one)}: call Counter.add waits for its actor:",
        "  actor Counter runs its constructor (pid 101) for 5 s",
    ]


def test_a_call_waits_for_its_argument():
    node = Node()
    actor = node.create()
    node.tell(node.give_birth(), ActorStarted(actor))
    made = node.run_task("h", cpus=8 / 8)
    one = node.call(actor, [made])
    assert node.ask(one)[0] == f"{ref(one)}: call Counter.add waits for an argument:"
    assert "task h waits for a worker process" in node.ask(one)[1]


# --- other nodes ---


@pytest.fixture
def member():
    """One of two nodes."""
    node = Node(is_embedded=False)
    node.tell("monitor", NodeJoined("far4567890abcdef/local", {"CPU": 4 * RESOURCE_UNIT}))
    return node


FAR = "far4567890abcdef/local"


def spilled(node, name="f", cpus=2.0):
    one = node.run_task(name, cpus=cpus)
    for request in list(node.scheduler.remote.leaving):
        while request in node.scheduler.remote.leaving:
            node.tell("gcs-0", RecordTasksReply(request))
    return one


def test_it_was_passed_up(member):
    one = spilled(member)
    assert member.ask(one) == [
        f"{ref(one)}: task f was passed up to a global scheduler, which has not said where it goes"
    ]


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
    for request in list(member.scheduler.remote.leaving):
        member.tell("gcs-0", RecordTasksReply(request))
    member.tell("global", SpillRefused(spec.task_id, no_such_labels(where)))
    lines = member.ask(one)
    assert lines == [f"{ref(one)}: task f waits for a node that can run it: {no_such_labels(where)}"]


def test_an_actor_finds_all_cpus_in_use(member):
    actor_id = member.create(cpus=3)
    line = member.ask(member.call(actor_id))[-1]
    assert line.endswith("waits for room: what it asks for is in use on all nodes that have it")


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
    for request in list(node.scheduler.remote.leaving):
        while request in node.scheduler.remote.leaving:
            node.tell("gcs-0", RecordTasksReply(request))
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
    member.tell("timer", HopTimeout(request))
    assert member.heard()[1] == "  on node far45678: it has not answered within 1 s"
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
        node.tell("timer", LoadTimeout())
        node.tell("host", HostProbed("monitor", finding))


def test_the_head_is_gone(member):
    """Where the task was placed is not all that there is to say: no news of it can come."""
    one = spilled(member)
    placed = f"{ref(one)}: task f was passed up to a global scheduler, which has not said where it goes"
    pass_seconds(member, 1, Finding.ENDED)
    assert member.ask(one) == [placed]
    pass_seconds(member, 9, Finding.ENDED)
    silent = "the head of the cluster has not been heard of for 10 s"
    assert member.ask(one) == [f"{silent} (its process has ended): this node waits up to 60 s for it", placed]
    assert member.ask(one, by=FAR) == [placed]
    member.tell("monitor", HeartbeatReply(member.scheduler.members.lease.number))
    assert member.ask(one) == [placed]
    pass_seconds(member, 3, Finding.STANDS_STILL)
    assert "for 3 s (it stands still, or is out of reach)" in member.ask(one)[0]


def test_the_head_of_a_program_outside_is_out_of_reach(member):
    """Its node is nobody's business."""
    member.scheduler.members.start("driver", head_wait=60.0)
    one = spilled(member)
    pass_seconds(member, 1, Finding.OUT_OF_REACH)
    member.tell("monitor", HeartbeatReply(member.scheduler.members.lease.number, 30.0))
    pass_seconds(member, 5, Finding.OUT_OF_REACH)
    silent = "the head of the cluster has not been heard of for 5 s (it stands still, or is out of reach)"
    assert member.ask(one)[0] == f"{silent}: this program waits up to 30 s for it"
    pass_seconds(member, 5, Finding.ENDED)
    silent = "the head of the cluster has not been heard of for 10 s (its process has ended)"
    assert member.ask(one)[0] == f"{silent}: this program waits up to 60 s for it"


def test_it_is_on_its_way(member):
    one = return_id(b"t" * 16, 1)
    member.tell(DRIVER, HoldObjects([one]))
    member.tell(DRIVER, WaitObjects(9, [one], 1))
    assert member.ask(one) == [f"{ref(one)}: is not made on node local, and no copy of it is known yet"]
    member.tell("gcs-0", ObjectLocated(one, 5_000_000, [FAR]))
    assert member.ask(one) == [f"{ref(one)}: 5,000,000 bytes are on their way to node local from node far45678"]


def test_nobody_knows_it():
    node = Node()
    one = return_id(b"t" * 16, 1)
    assert node.ask(one) == [f"{ref(one)}: node local knows nothing of it"]


# --- bounds ---


def test_a_long_chain_ends_and_a_wide_one_too():
    node = Node()
    last = node.run_task("h")
    for _ in range(50):
        last = node.run_task("f", [last])
    assert len(node.ask(last)) == DEPTH_MAX + 1
    many = [node.run_task("h") for _ in range(50)]
    one = node.run_task("x" * 1_000, many)
    lines = node.ask(one)
    assert lines[0].startswith(f"{ref(one)}: task xxx") and len(lines[0]) == LINE_CHARACTERS_MAX
    assert lines[-1] == "  and 48 more"


def test_a_diamond_is_told_once():
    node = Node()
    top = node.run_task("h")
    left, right = node.run_task("f", [top]), node.run_task("g", [top])
    lines = node.ask(node.run_task("join", [left, right]))
    assert sum(f"{ref(top)}: see above" in line for line in lines) == 1


def test_an_answer_is_short_whatever_there_is():
    node = Node(cpus=1)
    node.tell(DRIVER, PublishFunction(Function(FUNCTION, "n" * 500, b"code")))
    level = [node.run_task(f"t{number}") for number in range(8)]
    for depth in range(6):
        level = [node.run_task(f"u{depth}-{number}", level) for number in range(8)]
    assert len(node.ask(*level[:4])) <= LINES_MAX
