"""The queue of one worker: what it runs with, in which order, and that each task is answered for exactly once."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zray.ids import return_id
from zray.roles import task_executor
from zray.roles.task_executor import EWMA_WEIGHT, REPORT_FACTOR, REPORT_US_MIN, TaskExecutor
from zray.wire.task_spec import StoredValue, TaskSpec
from zray.wire.tasks import Argument, Function, StartTasks, TaskResult, TasksFinished, TasksReturned, Timing

FUNCTIONS = [b"f" * 16, b"g" * 16]
PUT = [bytes([number]) * 20 for number in range(250, 253)]  # arguments that no task of this worker makes
STORED = StoredValue(0, 0, 100_000)


class ExecutorMachine(RuleBasedStateMachine):
    """The worker around it: one thread, which runs what it waits for on top of what waits."""

    def __init__(self):
        super().__init__()
        self.executor = TaskExecutor()
        self.count = 0
        self.queue = []
        self.nested = []
        self.running = []
        self.known = {}  # argument -> its value, while a task here takes it
        self.finished = []  # (task, values, wants_retry) since the last flush
        self.returned = []
        self.drained = []
        self.unanswered = []
        self.mean_us = {}
        self.told_us = {}

    def _forget_unused(self):
        """Returns what no task here takes any more."""
        used = {object_id for spec in (*self.queue, *self.nested, *self.running) for object_id in spec.deps}
        unused = self.known.keys() - used
        for object_id in unused:
            del self.known[object_id]
        return unused

    @rule(data=st.data(), count=st.integers(1, 4), nested=st.booleans())
    def start(self, data, count, nested):
        specs, arguments = [], {}
        for _ in range(count):
            self.count += 1
            ahead = [] if nested else [*self.queue, *specs, *self.running[:1]]
            made = [return_id(spec.task_id, index) for spec in ahead for index in (1, 2)]
            deps = data.draw(st.lists(st.sampled_from(PUT + made), max_size=3))
            arguments.update({object_id: object_id[:1] for object_id in deps if object_id in PUT})
            function_id = data.draw(st.sampled_from(FUNCTIONS))
            specs.append(TaskSpec(self.count.to_bytes(16, "big"), function_id, deps=tuple(deps)))
        given = [Argument(object_id, value) for object_id, value in arguments.items()]
        self.executor.on_start_tasks(StartTasks(specs, [], given, nested))
        (self.nested if nested else self.queue).extend(specs)
        self.known.update(arguments)
        self.unanswered += [spec.task_id for spec in specs]

    @precondition(lambda self: self.queue and not self.running)
    @rule()
    def begin(self):
        spec = self.executor.queue.popleft()
        assert spec == self.queue.pop(0)
        if self.executor.has_arguments(spec):
            assert self.executor.begin(spec) == [self.known[object_id] for object_id in spec.deps]
            self.running.append(spec)
        else:
            assert not all(object_id in self.known for object_id in spec.deps)
            self.executor.give_back(spec)
            self.returned.append(spec.task_id)
            assert set(self.executor.done_with(spec)) == self._forget_unused()

    @precondition(lambda self: self.running and self.nested)
    @rule()
    def begin_on_top(self):
        spec = self.executor.nested.popleft()
        assert spec == self.nested.pop(0)
        assert self.executor.begin(spec) == [self.known[object_id] for object_id in spec.deps]
        self.running.append(spec)

    @precondition(lambda self: self.running)
    @rule(
        values=st.lists(st.sampled_from([b"\1", b"\2", STORED]), min_size=1, max_size=3),
        wants_retry=st.booleans(),
        us=st.integers(0, 1000),
    )
    def end(self, values, wants_retry, us):
        spec = self.running.pop()
        self.executor.ran_for(spec.function_id, float(us))
        before = self.mean_us.setdefault(spec.function_id, float(us))
        self.mean_us[spec.function_id] = before + EWMA_WEIGHT * (us - before)
        stored = [return_id(spec.task_id, index) for index, value in enumerate(values, 1) if value is STORED]
        assert self.executor.finished(spec, values, wants_retry=wants_retry) == stored
        self.finished.append((spec.task_id, values, wants_retry))
        if not wants_retry:
            self.known.update({return_id(spec.task_id, index): value for index, value in enumerate(values, 1)})
        made = {return_id(spec.task_id, index) for index in range(1, len(values) + 1)}
        assert set(self.executor.done_with(spec)) == self._forget_unused() - made

    @rule(count=st.integers(0, 4))
    def the_node_has_reclaimed_tasks(self, count):
        self.drained += [spec.task_id for spec in reversed(self.queue[count:])]
        self.queue = self.queue[:count]
        assert set(self.executor.throw_out(count)) == self._forget_unused()

    @rule()
    def flush(self):
        finished, returned, drained = [], [], []
        for message in self.executor.take_messages():
            if type(message) is TasksFinished:
                assert not returned and not drained, "a result behind what was not run"
                finished += [(result.task_id, result.values, result.wants_retry) for result in message.results]
                self.told_us.update({timing.function_id: timing.mean_us for timing in message.timings})
            else:
                (drained if message.drained else returned).extend(message.task_ids)
        assert (finished, returned, drained) == (self.finished, self.returned, self.drained)
        for task_id in (*[task_id for task_id, _, _ in finished], *returned, *drained):
            self.unanswered.remove(task_id)
        self.finished, self.returned, self.drained = [], [], []
        for function_id, mean in self.mean_us.items():
            assert mean <= (self.told_us[function_id] + 1) * REPORT_FACTOR + REPORT_US_MIN
            assert mean * REPORT_FACTOR + REPORT_US_MIN >= self.told_us[function_id]

    @invariant()
    def agrees(self):
        assert list(self.executor.queue) == self.queue
        assert list(self.executor.nested) == self.nested
        assert self.executor.arguments == self.known

    def teardown(self):
        while self.running or self.queue:
            if self.nested and self.running:
                self.begin_on_top()
            elif self.running:
                self.end([b"\1"], False, 10)
            else:
                self.begin()
            self.agrees()
        self.flush()
        assert self.unanswered == [spec.task_id for spec in self.nested]
        if not self.nested:
            assert not self.executor.arguments
            assert not self.executor.uses


ExecutorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None, derandomize=True)
TestExecutor = ExecutorMachine.TestCase


A, B, C = (TaskSpec(name * 16, FUNCTIONS[0]) for name in (b"a", b"b", b"c"))


@pytest.fixture
def executor():
    return TaskExecutor()


def test_nothing_to_say_is_no_message(executor):
    executor.on_start_tasks(StartTasks([A]))
    assert executor.take_messages() == []


def test_code_that_comes_with_tasks_is_kept(executor):
    function = Function(FUNCTIONS[0], "f", b"code")
    executor.on_start_tasks(StartTasks([A], [function]))
    executor.on_start_tasks(StartTasks([B]))
    assert executor.functions == {FUNCTIONS[0]: function}


def test_a_value_made_here_is_there_for_the_one_behind(executor):
    taker = TaskSpec(b"t" * 16, FUNCTIONS[0], deps=(return_id(A.task_id, 2), return_id(A.task_id, 2)))
    executor.on_start_tasks(StartTasks([A, taker]))
    assert not executor.has_arguments(taker)
    executor.finished(A, [b"1", b"2"])
    assert executor.begin(taker) == [b"2", b"2"]
    assert executor.done_with(taker) == [return_id(A.task_id, 2)]
    assert not executor.arguments


def test_what_wants_another_attempt_is_no_argument(executor):
    taker = TaskSpec(b"t" * 16, FUNCTIONS[0], deps=(return_id(A.task_id, 1),))
    executor.on_start_tasks(StartTasks([A, taker]))
    executor.finished(A, [b"error"], wants_retry=True)
    assert not executor.has_arguments(taker)


def test_an_argument_stays_for_as_long_as_a_queued_task_takes_it(executor):
    first, second = (TaskSpec(name * 16, FUNCTIONS[0], deps=(PUT[0],)) for name in (b"1", b"2"))
    executor.on_start_tasks(StartTasks([first, second], [], [Argument(PUT[0], b"value")]))
    assert executor.done_with(first) == []
    assert executor.begin(second) == [b"value"]


def test_results_go_ahead_of_what_was_not_run(executor):
    executor.on_start_tasks(StartTasks([A, B, C]))
    executor.queue.popleft()
    executor.give_back(executor.queue.popleft())
    executor.throw_out()
    executor.finished(A, [b"1"], ((PUT[0],),))
    assert executor.take_messages() == [
        TasksFinished([TaskResult(A.task_id, [b"1"], ((PUT[0],),))]),
        TasksReturned([B.task_id]),
        TasksReturned([C.task_id], True),
    ]
    assert executor.take_messages() == []


def test_a_mean_is_told_when_it_has_moved(executor):
    def told_after(us):
        executor.ran_for(FUNCTIONS[0], us)
        executor.finished(A, [b"1"])
        return executor.take_messages()[0].timings

    assert told_after(500.0) == [Timing(FUNCTIONS[0], 500)]
    assert told_after(550.0) == []
    assert told_after(500.0) == []
    assert told_after(1500.0) == [Timing(FUNCTIONS[0], 706)]
    assert told_after(0.0) == []
    assert told_after(0.0) == [Timing(FUNCTIONS[0], 452)]


def test_the_mean_of_what_takes_long_is_told_each_time(executor):
    """So that the node's is that of all its workers."""
    told = []
    for us in (5_000.0, 5_010.0, 5_010.0):
        executor.ran_for(FUNCTIONS[0], us)
        executor.finished(A, [b"1"])
        told += [timing.mean_us for timing in executor.take_messages()[0].timings]
    assert told == [5_000, 5_002, 5_003]


def test_a_run_that_is_far_longer_than_those_before_is_unlike_them(executor):
    assert not executor.is_unlike(FUNCTIONS[0], 1e6)  # nothing is known of it
    executor.ran_for(FUNCTIONS[0], 100.0)
    assert [executor.is_unlike(FUNCTIONS[0], us) for us in (100.0, 800.0, 801.0, 1e6)] == [False, False, True, True]
    assert not executor.is_unlike(FUNCTIONS[1], 1e6)


def test_of_the_code_the_latest_stays_and_what_the_queue_needs(executor, monkeypatch):
    monkeypatch.setattr(task_executor, "LEARNED_COUNT_MAX", 2)
    executor.count_max = 2
    names = [bytes([number]) * 16 for number in range(5)]
    specs = [TaskSpec(b"t" * 15 + name[:1], name) for name in names]
    for name, spec in zip(names, specs, strict=True):
        executor.on_start_tasks(StartTasks([spec], [Function(name, "f", b"code")]))
        if name != names[1]:
            executor.begun = executor.queue.pop()  # all but the second are run, or taken back
    assert list(executor.functions) == [names[1], names[3], names[4]]
    assert executor.take_forgotten() == [names[0], names[2]] and executor.take_forgotten() == []
    assert executor.code_bytes == 12


def test_of_the_code_there_is_so_much_but_the_newest_stays(executor, monkeypatch):
    monkeypatch.setattr(task_executor, "LEARNED_BYTES_MAX", 10)
    executor.bytes_max = 10
    for name in (b"a" * 16, b"b" * 16, b"a" * 16, b"c" * 16):
        executor.learn([Function(name, "f", b"code")])
    assert list(executor.functions) == [b"a" * 16, b"c" * 16]
    executor.learn([Function(b"d" * 16, "f", b"code" * 5)])
    assert (list(executor.functions), executor.code_bytes) == ([b"d" * 16], 20)
