"""The local scheduler by itself: every order of submitting, finishing, dying and letting go."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.roles.desk import DRIVER, JOB, Desk
from zray.exceptions import SYSTEM_ERROR
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.local_scheduler.task import TaskState
from zray.roles.local_scheduler.tasks.pool import START_FAILURES_MAX
from zray.roles.local_scheduler.worker import WorkerState
from zray.roles.role import Later
from zray.wire.objects import HoldObjects, PutObject, PutObjects, ReleaseObjects, UnpinObjects
from zray.wire.task_spec import StoredValue, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import (
    CancelWait,
    ObjectsReady,
    SubmitTasks,
    TaskResult,
    TasksFinished,
    TasksReturned,
    Timing,
    WaitObjects,
    WaitReply,
)


class SchedulerMachine(RuleBasedStateMachine):
    """The driver's refs are what it was given and has not let go of."""

    def __init__(self):
        super().__init__()
        self.desk = Desk(cpus=2)
        self.refs = []
        self.specs = []
        self.finished = []
        self.request = 0

    @rule(data=st.data(), count=st.integers(1, 4))
    def submit(self, data, count):
        specs = []
        for _ in range(count):
            known = self.refs + [spec.task_id + b"\0\0\0\1" for spec in specs]
            deps = data.draw(st.lists(st.sampled_from(known), max_size=2)) if known else []
            specs.append(self.desk.new_spec(deps))
        self.refs += self.desk.submit(*specs)
        self.specs += specs

    @precondition(lambda self: self.specs)
    @rule(data=st.data())
    def submit_again(self, data):
        """A repeat: it neither runs twice nor changes a count."""
        spec = data.draw(st.sampled_from(self.specs))
        object_id = spec.task_id + b"\0\0\0\1"
        entries = self.desk.scheduler.objects.entries
        if object_id in entries and object_id in self.refs:
            tasks, count = len(self.desk.scheduler.tasks), entries[object_id].count
            self.desk.submit(spec)
            assert len(self.desk.scheduler.tasks) == tasks
            assert entries[object_id].count == count

    @precondition(lambda self: self.desk.starting)
    @rule()
    def worker_comes(self):
        self.desk.give_birth()

    @precondition(lambda self: self.desk.starting)
    @rule()
    def worker_fails_to_start(self):
        if self.desk.scheduler.pool.failures < START_FAILURES_MAX:
            order = self.desk.starting.pop(0)
            self.desk.tell("host", e.WorkerStartFailed(order.worker, "no memory"))

    @precondition(lambda self: any(self.desk.queues.values()))
    @rule(data=st.data())
    def worker_goes_on(self, data):
        worker = data.draw(st.sampled_from([worker for worker, queue in self.desk.queues.items() if queue]))
        spec = self.desk.finish_one(worker)
        if spec is not None:
            self.finished.append((worker, spec))

    @precondition(lambda self: self.finished)
    @rule(data=st.data())
    def result_again(self, data):
        """Late and repeated results change nothing."""
        worker, spec = data.draw(st.sampled_from(self.finished))
        before = dict(self.desk.scheduler.statistics())
        self.desk.tell(worker, TasksFinished([TaskResult(spec.task_id, [b"\2"])]))
        after = dict(self.desk.scheduler.statistics())
        assert before.pop("rejected") < after.pop("rejected")
        assert before == after

    @precondition(lambda self: self.desk.queues)
    @rule(data=st.data())
    def worker_dies(self, data):
        self.desk.kill(data.draw(st.sampled_from(sorted(self.desk.queues))))

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def let_go(self, data):
        index = data.draw(st.integers(0, len(self.refs) - 1))
        self.desk.tell(DRIVER, ReleaseObjects([self.refs.pop(index)]))

    @precondition(lambda self: self.refs)
    @rule(data=st.data(), count=st.integers(1, 3))
    def wait(self, data, count):
        ids = data.draw(st.lists(st.sampled_from(self.refs), min_size=1, max_size=3, unique=True))
        self.request += 1
        self.desk.tell(DRIVER, WaitObjects(self.request, ids, count))

    @precondition(lambda self: self.request)
    @rule(data=st.data())
    def cancel(self, data):
        self.desk.tell(DRIVER, CancelWait(data.draw(st.integers(1, self.request))))

    @rule()
    def time_passes(self):
        self.desk.now += 0.01
        dispatch = self.desk.scheduler.dispatch
        dispatch.looks_at = self.desk.now
        self.desk.tell("timer", Later(dispatch.check_progress, ()))

    @invariant()
    def agrees(self):
        self.desk.scheduler.check_everything()
        for object_id in self.refs:
            assert object_id in self.desk.scheduler.objects.entries, "a ref that the driver holds is gone"

    def teardown(self):
        self.desk.run_all()
        self.desk.tell(DRIVER, ReleaseObjects(self.refs))
        scheduler = self.desk.scheduler
        assert not scheduler.tasks
        assert not scheduler.objects.entries
        assert scheduler.resources.all_free()
        assert not scheduler.processes[DRIVER].wait_by_request


SchedulerMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
TestScheduler = SchedulerMachine.TestCase


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.scheduler.check_everything()


def test_a_result_goes_to_whoever_submitted(desk):
    """Results are pushed (docs/design/decisions.md)."""
    (ref,) = desk.submit(desk.new_spec())
    worker = desk.give_birth()
    desk.take_sent()
    desk.finish_one(worker, b"\7")
    assert (DRIVER, ObjectsReady([(ref, b"\7")])) in desk.take_sent()


def test_a_task_waits_for_its_argument(desk):
    (first,) = desk.submit(desk.new_spec())
    desk.submit(desk.new_spec(deps=[first]))
    worker = desk.give_birth()
    assert len(desk.queues[worker]) == 1
    desk.finish_one(worker, b"\7")
    assert desk.queues[worker][0].deps == (first,)


def test_a_wait_is_answered_once_and_after_the_values(desk):
    (ref,) = desk.submit(desk.new_spec())
    desk.tell(DRIVER, WaitObjects(5, [ref], 1))
    worker = desk.give_birth()
    desk.take_sent()
    desk.finish_one(worker)
    told = [message for target, message in desk.take_sent() if target == DRIVER]
    assert told == [ObjectsReady([(ref, b"\1")]), WaitReply(5, [ref])]
    desk.tell(DRIVER, CancelWait(5))
    assert not desk.take_sent(WaitReply)


def test_a_blocked_worker_lends_its_cpu_and_the_reply_grants_it():
    """Resources are never oversubscribed."""
    desk = Desk(cpus=1)
    desk.submit(desk.new_spec())
    worker = desk.give_birth()
    desk.windows[worker] -= 1  # it runs
    child = desk.new_spec()
    desk.tell(worker, SubmitTasks([child]))
    desk.tell(worker, WaitObjects(1, [child.task_id + b"\0\0\0\1"], 1, True, True))
    assert desk.scheduler.resources.all_free()
    other = desk.give_birth()
    assert not desk.scheduler.resources.free["CPU"]
    desk.take_sent()
    desk.finish_one(other)
    assert [target for target, _ in desk.take_sent(WaitReply)] == [worker]
    assert not desk.scheduler.resources.free["CPU"]


def test_what_a_worker_had_not_begun_is_not_blamed():
    """Only the task that ran is blamed."""
    desk = Desk(cpus=1)
    specs = [desk.new_spec() for _ in range(3)]
    desk.submit(*specs)
    desk.scheduler.dispatch.mean_us[specs[0].function_id] = 10
    worker = desk.give_birth()
    assert len(desk.queues[worker]) == 3
    desk.windows[worker] -= 1
    desk.kill(worker)
    attempts = [desk.scheduler.tasks[spec.task_id].attempts for spec in specs]
    assert attempts == [1, 0, 0]


def test_a_task_that_kills_its_workers_ends_with_an_error_that_says_how(desk):
    (ref,) = desk.submit(desk.new_spec())
    for _ in range(4):
        worker = next((worker for worker, queue in desk.queues.items() if queue), None)
        while worker is None:
            desk.give_birth()
            worker = next((worker for worker, queue in desk.queues.items() if queue), None)
        desk.windows[worker] -= 1
        desk.kill(worker)
    value = desk.scheduler.objects.entries[ref].value
    assert value[0] == SYSTEM_ERROR
    assert b"killed by signal 9" in value
    assert b"The worker that ran task f died, in the last of 4 attempts." in value


def test_a_task_that_may_not_be_repeated_says_nothing_of_attempts(desk):
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(max_retries=0))
    (ref,) = desk.submit(spec)
    worker = desk.give_birth()
    desk.windows[worker] -= 1
    desk.kill(worker)
    assert b"The worker that ran task f died." in desk.scheduler.objects.entries[ref].value


def test_a_ref_inside_a_value_lives_as_long_as_the_value(desk):
    (inner,) = desk.submit(desk.new_spec())
    outer = b"o" * 20
    desk.tell(DRIVER, PutObjects([PutObject(outer, b"\1", (inner,))]))
    desk.tell(DRIVER, ReleaseObjects([inner]))
    desk.run_all()
    assert inner in desk.scheduler.objects.entries
    desk.tell(DRIVER, ReleaseObjects([outer]))
    assert not desk.scheduler.objects.entries


def test_a_large_value_is_freed_when_nobody_reads_it(desk):
    """A process pins a value whose location it has been told."""
    big = b"b" * 20
    desk.tell(DRIVER, PutObjects([PutObject(big, StoredValue(0, 0, 100_000))]))
    desk.tell(DRIVER, ReleaseObjects([big]))
    assert big in desk.scheduler.objects.pins
    desk.take_sent()
    desk.tell(DRIVER, UnpinObjects([(big, 1)]))
    assert [message.object_ids for target, message in desk.take_sent() if target == "objects"] == [[big]]


def test_a_task_that_runs_again_holds_what_its_first_run_made(desk):
    """A re-executed parent makes the same children."""
    desk.submit(desk.new_spec())
    worker = desk.give_birth()
    desk.windows[worker] -= 1
    child = TaskSpec(b"c" * 16, desk.new_spec().function_id)
    ref = child.task_id + b"\0\0\0\1"
    put = PutObjects([PutObject(b"p" * 20, b"\1")])
    desk.tell(worker, SubmitTasks([child]))
    desk.tell(worker, put)
    desk.tell(DRIVER, HoldObjects([b"p" * 20]))
    desk.kill(worker)
    again = desk.give_birth()
    desk.tell(again, SubmitTasks([child]))
    desk.tell(again, put)
    entries = desk.scheduler.objects.entries
    process = desk.scheduler.processes[again]
    assert desk.scheduler.objects.is_held_by(entries[ref], process)
    assert desk.scheduler.objects.is_held_by(entries[b"p" * 20], process)
    desk.run_all()
    assert ref in entries


def test_a_worker_that_has_lost_half_of_its_tasks_loses_the_rest_when_it_does_not_move(desk):
    """It had them since such tasks took no time before."""
    desk.submit(desk.new_spec())
    first = desk.give_birth()
    spec = desk.queues[first].pop(0)
    desk.windows[first] -= 1
    desk.tell(first, TasksFinished([TaskResult(spec.task_id, [b"\1"])], [Timing(spec.function_id, 60)]))
    desk.submit(*[desk.new_spec() for _ in range(60)])
    while desk.starting:
        desk.give_birth()
    assert desk.scheduler.pool.workers[first].stale, "none of its tasks went to the others"
    desk.now += 1.0
    desk.timer("Dispatch.check_progress")
    leased = desk.workers_in(WorkerState.LEASED)
    assert {desk.inflight(worker) for worker in leased} == {1}
    assert len(desk.tasks_in(TaskState.READY)) == 60 - len(leased)


def test_the_driver_takes_everything_with_it(desk):
    """The driver's tasks are cancelled, its objects are freed, its workers end."""
    refs = desk.submit(*[desk.new_spec() for _ in range(5)])
    desk.submit(desk.new_spec(deps=refs[:1]))
    worker = desk.give_birth()
    desk.windows[worker] -= 1
    desk.tell("host", e.ProcessLeft(DRIVER, "killed"))
    assert worker in desk.killed
    desk.kill(worker)
    assert not desk.scheduler.tasks
    assert not desk.scheduler.objects.entries
    assert JOB not in desk.scheduler.jobs


@pytest.mark.parametrize(
    "message",
    [
        SubmitTasks([TaskSpec(b"x" * 16, b"f" * 16)]),
        PutObjects([PutObject(b"x" * 20, b"\1")]),
        HoldObjects([b"x" * 20]),
        ReleaseObjects([b"x" * 20]),
        UnpinObjects([(b"x" * 20, 1)]),
        WaitObjects(1, [b"x" * 20], 1),
        CancelWait(1),
        TasksFinished([TaskResult(b"x" * 16, [b"\1"])]),
        TasksReturned([b"x" * 16]),
        e.WorkerExited("worker-99", "gone", 0),
        e.WorkerStartFailed("worker-99", "gone"),
        e.TasksReclaimed("worker-99", 3),
        e.ProcessLeft("driver-99", "gone"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_from_a_process_that_is_gone_changes_nothing(desk, message):
    desk.take_sent()
    before = dict(desk.scheduler.statistics())
    desk.tell("worker-99", message)
    after = dict(desk.scheduler.statistics())
    before.pop("rejected")
    after.pop("rejected")
    assert before == after
    assert not desk.take_sent()


def test_who_has_waited_for_an_argument_goes_ahead_of_what_was_submitted_after_it():
    """Makers of large values do not fill the store while those that would free them stand behind."""
    desk = Desk(cpus=1)
    for _ in range(4):
        desk.submit(maker := desk.new_spec())
        desk.submit(desk.new_spec([return_id(maker.task_id, 1)]))
    order = []
    (worker,) = [desk.give_birth() for _ in range(1)]
    while desk.queues[worker]:
        order.append(int.from_bytes(desk.finish_one(worker).task_id, "big"))
    assert order == [1, 2, 3, 4, 5, 6, 7, 8]


def test_nobody_goes_ahead_of_older_ones():
    desk = Desk(cpus=1)
    worker = desk.give_birth()
    (value,) = desk.submit(slow := desk.new_spec())
    desk.submit(*(others := [desk.new_spec() for _ in range(3)]), taker := desk.new_spec([value]), desk.new_spec())
    order = [desk.finish_one(worker) for _ in range(6)]
    assert order[:5] == [slow, *others, taker]
