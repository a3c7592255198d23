"""The reasons why something is not there yet, in words: each cause on a desk, word for word."""

import pytest

from tests.roles.desk import DRIVER, FUNCTION
from tests.roles.reasons_desk import Node, ref
from zray.roles.local_scheduler.reporting.reasons import DEPTH_MAX
from zray.wire.actors import ActorStarted, ForwardCalls
from zray.wire.environment import Environment
from zray.wire.reasons import ASKED_MAX, LINE_CHARACTERS_MAX, LINES_MAX
from zray.wire.task_spec import TaskOptions, encode_options
from zray.wire.tasks import Function, ItemsDrawn, ItemsYielded, PublishFunction


def test_it_is_here():
    node = Node()
    (one,) = node.submit(node.new_spec())
    node.run_all()
    assert node.ask(one) == [f"{ref(one)}: is here"]


def test_what_is_here_is_not_among_what_others_wait_for():
    node = Node(cpus=2)
    here = node.submit(*(node.new_spec() for _ in range(6)))
    node.run_all()
    late = node.run_task("slow")
    while node.starting:
        node.give_birth()
    running = node.ask(late)
    assert "task slow runs on node local" in running[0] and len(running) == 1
    assert node.ask(*here, late) == running
    assert node.ask(*here, late, left_out=3) == [*running, "and 3 more"]
    assert node.ask(*here) == [*(f"{ref(one)}: is here" for one in here[:4]), "and 2 more"]


def test_a_worker_that_is_blocked_hears_of_what_is_not_there():
    """It has not been told which of it has come: all that it names may be here."""
    node = Node(cpus=2)
    here = node.submit(*(node.new_spec() for _ in range(ASKED_MAX)))
    node.run_all()
    node.run_task("outer")
    while node.starting:
        node.give_birth()
    (worker,) = (name for name, queue in node.queues.items() if queue)
    late = [node.run_task("slow", cpus=2, by=worker) for _ in range(6)]
    node.block(worker, *here, *late)
    lines = node.ask(*here, by=worker, left_out=len(late))
    assert "is here" not in str(lines) and [line for line in lines if line.startswith(ref(late[0]))], lines
    assert lines[-1] == "and 2 more"


def test_a_worker_is_starting():
    node = Node()
    one = node.run_task()
    assert node.ask(one) == [f"{ref(one)}: task f waits for a worker process, of which 1 are starting"]


def test_packages_are_being_installed():
    node = Node()
    spec = node.new_spec()
    spec.options = encode_options(TaskOptions(environment=Environment(packages="a request")))
    (one,) = node.submit(spec)
    words = "task f waits for its environment: node local installs packages, or starts it"
    assert node.ask(one) == [f"{ref(one)}: {words}"]


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
        "    held by actor First, which is idle, for 12 s",
    ]


def test_actors_that_are_called_hold_their_cpus_since_they_began():
    node = Node(cpus=2)
    holders = [node.create("Trial", cpus=1) for _ in range(2)]
    for number, _ in enumerate(holders, 1):
        node.give_birth()
        node.tell(f"worker-{number}", ActorStarted(holders[number - 1]))
    node.now += 50
    for holder in holders:
        node.call(holder)
    node.now += 10
    one = node.run_task("f")
    assert node.ask(one) == [
        f"{ref(one)}: task f waits for 1 CPU: node local has 0 of 2 CPU free",
        "  held by actor Trial x2, the longest for 60 s",
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
    assert node.ask(one) == [f"{ref(one)}: task {spec.function_id.hex()} waits for its code from the GCS"]


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
    lines = node.ask(third)
    assert "task third waits for 1 CPU" in lines[0]
    assert lines[1] == "  held by task outer for 2 s"  # that CPU was the inner one's before


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
        "all values are here; this process waits to get its CPU back",
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


@pytest.mark.parametrize("by", [DRIVER, "n2/local"])
@pytest.mark.parametrize("kind", ["serial", "threaded", "group", "hosted"])
def test_a_call_waits_behind_generators_whose_items_are_not_drawn(kind, by):
    node = Node(is_embedded=by == DRIVER)
    options = {"group": {"groups": {"io": 1}}, "threaded": {"max_concurrency": 2}, "hosted": {"hosted": True}}
    actor = node.create(**options.get(kind, {}))
    worker = node.give_birth()
    node.tell(worker, ActorStarted(actor))
    group = {"group": "io"} if kind == "group" else {}
    generators = []
    for _ in range(2 if kind == "threaded" else 1):
        options = {"is_generator": True, "max_buffered": 2, **group}
        if by == DRIVER:
            generators.append(node.call(actor, **options)[:16])
            continue
        spec = node.new_spec()
        spec.function_id = b""
        spec.options = encode_options(TaskOptions(resources={}, name="Counter.add", actor_id=actor, **options))
        node.tell(by, ForwardCalls([spec]))
        generators.append(spec.task_id)
    call = node.call(actor, **group)
    for generator in generators:
        node.tell(worker, ItemsYielded(generator, 0, [b"a", b"b"]))
    is_waiting, of_whom = node.ask(call)
    others = "2 others" if kind == "threaded" else "1 other"
    assert f"call Counter.add waits on node local (pid 101), behind {others} of the same actor" in is_waiting
    assert ("concurrency group 'io'" in is_waiting) == (kind == "group")
    assert of_whom == "  call Counter.add runs, and waits until more of its items are drawn (`max_buffered`)"
    node.tell(by, ItemsDrawn(generators[0], 1))
    assert "drawn" not in node.ask(call)[1]
    if kind == "group":
        other = node.call(actor)
        assert node.ask(other) == [f"{ref(other)}: call Counter.add runs on node local (pid 101)"]
