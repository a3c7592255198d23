"""Notices of hung tasks: one line a task, after ten times the usual time of its function; no timer on an idle node."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.test_notices import DRIVER, Node
from zray.roles.effects import SetTimer
from zray.roles.local_scheduler.reporting import hung
from zray.roles.local_scheduler.reporting.hung import HUNG_SECONDS, LOOK_SECONDS, RUNS_MIN
from zray.roles.work_effects import WriteLine
from zray.sim.trace import name_of
from zray.wire.task_spec import ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import SubmitTasks, TaskResult, TasksFinished, Timing, WaitObjects

LOOK = "HungTasks.look"


class HungNode(Node):
    """A node that times its runs: each takes `seconds`, as its worker says."""

    def _perform(self, effects):
        found = [it.delay for it in effects if type(it) is SetTimer and name_of(it.message) == LOOK]
        self.delays = [*getattr(self, "delays", ()), *found]
        super()._perform(effects)

    def begin(self):
        """A task that a worker has begun; returns the worker, and the task's id."""
        spec = self.new_spec()
        self.tell(DRIVER, SubmitTasks([spec]))
        while not any(self.queues.values()):
            self.give_birth()
        worker = next(worker for worker, queue in self.queues.items() if queue)
        self.queues[worker].clear()
        self.windows[worker] -= 1
        return worker, spec

    def run(self, seconds):
        worker, spec = self.begin()
        timing = Timing(spec.function_id, round(1e6 * seconds))
        self.tell(worker, TasksFinished([TaskResult(spec.task_id, [b"\x01"])], [timing]))

    def looks(self, seconds):
        """The clock moves on, and the node looks."""
        self.now += seconds
        self.timer(LOOK)


def node_with_runs(seconds, count=RUNS_MIN, **options):
    node = HungNode(**options)
    for _ in range(count):
        node.run(seconds)
    return node


def test_task_of_ten_times_the_usual_time_is_told_once():
    node = node_with_runs(6.0)
    worker, spec = node.begin()
    node.looks(59.0)
    assert not node.notices()
    node.looks(3.0)
    (text,) = node.notices()
    pid = node.scheduler.pool.workers[worker].process.pid
    assert text == (
        f"task f (pid={pid}, node=local) has run for 62 s, 10 times as long as usual (6 s): "
        f"`zray stack {spec.task_id.hex()}` shows where it stands"
    )
    assert node.lines == [text]
    for _ in range(3):
        node.looks(100.0)
    assert not node.notices()


def test_short_task_is_told_after_ten_seconds():
    node = node_with_runs(0.001)
    node.begin()
    node.looks(HUNG_SECONDS - 1.0)
    assert not node.notices()
    node.looks(1.0)
    (text,) = node.notices()
    assert "has run for 10 s, 10,000 times as long as usual (1 ms)" in text


def test_task_is_told_as_soon_as_it_is_hung():
    node = node_with_runs(6.0)
    node.begin()
    node.now += 55.0
    node.timer(LOOK)
    assert node.delays[-1] == pytest.approx(60.0 - 55.0, abs=0.01)


@pytest.mark.parametrize("count", [0, RUNS_MIN - 1])
def test_task_of_a_function_with_few_runs_is_not_told(count):
    node = node_with_runs(0.5, count)
    node.begin()
    for _ in range(3 if count else 0):
        node.looks(100.0)
    assert not node.notices()
    assert bool(node.timers.named(LOOK)) == bool(count)


def test_task_that_began_before_its_function_was_known_is_told():
    node = HungNode(cpus=2)
    node.begin()
    for _ in range(RUNS_MIN):
        node.run(0.5)
    node.looks(20.0)
    assert len(node.notices()) == 1


def test_task_in_a_wait_is_not_told():
    node = node_with_runs(0.5)
    worker, spec = node.begin()
    other = node.new_spec()
    (object_id,) = node.submit(other)
    node.tell(worker, WaitObjects(1, [object_id], 1, block=True))
    node.looks(100.0)
    assert not node.notices()


def test_program_without_output_is_not_told():
    node = node_with_runs(0.5, log_to_driver=False)
    node.begin()
    node.looks(100.0)
    assert not node.notices() and len(node.lines) == 1


def test_node_without_running_tasks_does_not_look():
    node = node_with_runs(0.5)
    assert len(node.timers.named(LOOK)) == 1
    node.looks(LOOK_SECONDS)
    assert not node.timers.named(LOOK)
    node.run(0.5)
    node.run(0.5)
    assert len(node.timers.named(LOOK)) == 1


def test_look_is_bounded(monkeypatch):
    monkeypatch.setattr(hung, "LOOKED_AT_MAX", 0)
    node = node_with_runs(0.5)
    node.begin()
    node.looks(100.0)
    assert not node.notices()


def test_task_with_a_name_of_its_own_is_told_with_it():
    node = node_with_runs(0.5)
    spec = node.new_spec()
    spec.options = encode_options(TaskOptions(name="train"))
    node.tell(DRIVER, SubmitTasks([spec]))
    while not any(node.queues.values()):
        node.give_birth()
    node.looks(100.0)
    (text,) = node.notices()
    assert text.startswith("task train (")


# --- calls of actors ---

ACTOR, OTHER = b"actor".ljust(16, b"-"), b"other".ljust(16, b"-")


class CallNode(ActorDesk):
    """A node with an actor, whose calls take as long as the clock says."""

    def __init__(self, **options):
        super().__init__()
        self.create(ACTOR, ActorOptions({}, class_name="Keeper", **options))
        self.worker = self.give_birth()
        self.construct(self.worker)

    def begin(self, method="step"):
        """A call that the actor has begun."""
        spec = self.new_call(b"driver", ACTOR)
        options = TaskOptions({}, actor_id=ACTOR, name=f"Keeper.{method}", method=method)
        spec.options = encode_options(options)
        self.submit(spec)
        return self.begin_call(self.worker)

    def run(self, seconds, count=RUNS_MIN, method="step"):
        for _ in range(count):
            spec = self.begin(method)
            self.now += seconds
            self.end_call(self.worker, spec)

    def looks(self, seconds):
        self.now += seconds
        if self.timers.named(LOOK):
            self.timer(LOOK)

    def _perform(self, effects):
        self.lines = [*getattr(self, "lines", ()), *(it.text for it in effects if type(it) is WriteLine)]
        super()._perform(effects)

    def notices(self):
        """Lines of the node's log."""
        lines, self.lines = self.lines, []
        return lines


def test_call_of_ten_times_the_usual_time_of_its_method_is_told_once():
    node = CallNode()
    node.run(6.0)
    spec = node.begin()
    node.looks(59.0)
    assert not node.notices()
    node.looks(3.0)
    (text,) = node.notices()
    pid = node.scheduler.pool.workers[node.worker].process.pid
    assert text == (
        f"call Keeper.step (pid={pid}, node=local) has run for 62 s, 10 times as long as usual (6 s): "
        f"`zray stack {spec.task_id.hex()}` shows where it stands"
    )
    for _ in range(3):
        node.looks(100.0)
    assert not node.notices()


def test_methods_have_times_of_their_own():
    node = CallNode()
    node.run(0.001, method="look")
    node.run(30.0, method="train")
    node.begin("train")
    node.looks(100.0)
    assert not node.notices()
    node.looks(250.0)
    assert len(node.notices()) == 1


def test_call_of_a_method_with_few_calls_is_not_told():
    node = CallNode()
    node.run(0.5, RUNS_MIN - 1)
    node.begin()
    for _ in range(3):
        node.looks(100.0)
    assert not node.notices() and not node.timers.named(LOOK)


def test_calls_that_run_at_once_are_not_told():
    node = CallNode(max_concurrency=4)
    node.run(0.5)
    node.begin()
    node.looks(100.0)
    assert not node.notices()


def test_calls_of_another_actor_of_the_class_make_a_time_the_usual_one():
    node = CallNode()
    first = node.begin()
    node.create(OTHER, ActorOptions({}, class_name="Keeper"))
    other = node.give_birth()
    node.construct(other)
    for _ in range(RUNS_MIN):
        spec = node.new_call(b"driver", OTHER)
        spec.options = encode_options(TaskOptions({}, actor_id=OTHER, name="Keeper.step", method="step"))
        node.submit(spec)
        assert node.begin_call(other) is spec
        node.now += 0.1
        node.end_call(other, spec)
    node.looks(20.0)
    (text,) = node.notices()
    assert first.task_id.hex() in text


def test_actor_without_calls_keeps_no_timer():
    node = CallNode()
    node.run(0.5)
    node.looks(LOOK_SECONDS)
    assert not node.timers.named(LOOK)
