"""Work that ends with the process that asked for it, on one node."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER
from zray.exceptions import decode_system_error
from zray.host.process.process_utils import how_it_ended
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.local_scheduler.objects import undoing
from zray.wire.objects import HoldObjects, ReleaseObjects
from zray.wire.task_spec import ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import SubmitTasks

CHILD, BESIDE = b"c" * 16, b"d" * 16


class FateDesk(ActorDesk):
    """A node of 4 CPUs, and a task or an actor there that submits work."""

    def __init__(self, cpus=4):
        super().__init__(cpus)

    def parent(self, **options):
        """A task of the driver that runs, and the worker that runs it."""
        spec = self.spec(**options)
        self.submit(spec)
        while not any(spec in queue for queue in self.queues.values()):
            self.give_birth()
        (worker,) = [worker for worker, queue in self.queues.items() if spec in queue]
        self.begin(worker)
        return spec, worker

    def spec(self, deps=(), **options):
        spec = self.new_spec(deps=deps)
        spec.options = encode_options(TaskOptions({"CPU": 10_000}, **options))
        return spec

    def begin(self, worker):
        self.windows[worker] -= 1

    def by(self, worker, *specs):
        """Submitted by that worker.  What runs of it is begun."""
        self.tell(worker, SubmitTasks(list(specs)))
        while self.starting:
            self.give_birth()
        return [return_id(spec.task_id, 1) for spec in specs]

    def runs(self, spec):
        (worker,) = [worker for worker, queue in self.queues.items() if spec in queue]
        return worker

    def free_cpus(self):
        return self.scheduler.resources.free["CPU"] // 10_000

    def die(self):
        """All that are killed; others throw out what was taken back."""
        while dying := [worker for worker in self.killed if worker in self.queues]:
            self.kill(dying[0])
        for worker in [worker for worker, queue in self.queues.items() if queue and not self.windows[worker]]:
            if self.scheduler.pool.workers[worker].stale:
                self.finish_one(worker)


@pytest.fixture
def desk():
    return FateDesk()


def test_a_task_that_runs_ends_with_its_submitter(desk):
    _, worker = desk.parent(max_retries=0)
    child = desk.spec()
    desk.by(worker, child)
    desk.begin(desk.runs(child))
    assert desk.free_cpus() == 2
    desk.kill(worker)
    assert child.task_id not in desk.scheduler.tasks
    desk.die()
    assert desk.free_cpus() == 4


@pytest.mark.parametrize("is_dropped", [False, True])
def test_task_of_a_dead_process_ends_whether_or_not_its_ref_was_dropped(desk, is_dropped):
    _, worker = desk.parent(max_retries=0)
    child = desk.spec()
    refs = desk.by(worker, child)
    if is_dropped:
        desk.tell(worker, ReleaseObjects(refs))
    desk.kill(worker)
    desk.die()
    assert child.task_id not in desk.scheduler.tasks and not desk.scheduler.objects.entries.keys() & set(refs)


def test_task_goes_on_while_others_hold_its_result(desk):
    _, worker = desk.parent(max_retries=0)
    child = desk.spec()
    refs = desk.by(worker, child)
    runner = desk.runs(child)
    desk.tell(DRIVER, HoldObjects(refs))
    desk.kill(worker)
    assert not desk.killed and child.task_id in desk.scheduler.tasks
    desk.finish_one(runner)
    assert desk.scheduler.objects.entries[refs[0]].value == b"\1"


def test_argument_of_another_task_is_made(desk):
    _, worker = desk.parent(max_retries=0)
    child = desk.spec()
    refs = desk.by(worker, child)
    desk.submit(desk.spec(deps=refs))
    desk.kill(worker)
    assert not desk.killed and child.task_id in desk.scheduler.tasks


def test_a_line_of_tasks_ends_whole(desk):
    _, worker = desk.parent(max_retries=0)
    first = desk.spec()
    refs = desk.by(worker, first)
    second = desk.spec(deps=refs)
    further = desk.by(worker, second)
    third = desk.spec(deps=further)
    desk.by(worker, third)
    desk.kill(worker)
    desk.die()
    assert not any(spec.task_id in desk.scheduler.tasks for spec in (first, second, third))
    assert desk.free_cpus() == 4


def test_work_of_ended_tasks_ends_with_them(desk):
    """However deep."""
    _, worker = desk.parent(max_retries=0)
    workers = [worker]
    for _ in range(2):
        child = desk.spec()
        desk.by(workers[-1], child)
        workers.append(desk.runs(child))
        desk.begin(workers[-1])
    assert desk.free_cpus() == 1
    desk.kill(worker)
    desk.die()
    assert desk.free_cpus() == 4 and not desk.scheduler.tasks
    assert desk.killed == workers[1:]


def test_tasks_that_wait_for_room_do_not_start(desk):
    _, worker = desk.parent(max_retries=0)
    children = [desk.spec() for _ in range(10)]
    desk.by(worker, *children)
    desk.kill(worker)
    desk.die()
    assert not desk.scheduler.tasks and not desk.scheduler.dispatch.ready_count


def test_a_retry_makes_its_children_again(desk):
    parent, worker = desk.parent(max_retries=1)
    child = desk.spec()
    refs = desk.by(worker, child)
    desk.begin(desk.runs(child))
    desk.kill(worker)
    desk.die()
    assert child.task_id not in desk.scheduler.tasks
    while desk.starting:
        desk.give_birth()
    again = desk.runs(parent)
    assert desk.by(again, child) == refs
    runner = desk.runs(child)
    assert runner not in desk.killed
    desk.finish_one(runner)
    assert desk.scheduler.objects.entries[refs[0]].value == b"\1"


def test_a_child_that_the_retry_has_asked_for_already_goes_on(desk, monkeypatch):
    """The task asks for it before the end of its first run has been settled."""
    monkeypatch.setattr(undoing, "PORTION_COUNT_MAX", 0)
    parent, worker = desk.parent(max_retries=1)
    child = desk.spec()
    desk.by(worker, child)
    desk.kill(worker)
    while desk.starting:
        desk.give_birth()
    desk.by(desk.runs(parent), child)
    monkeypatch.undo()
    desk.timer("Undoing.go_on")
    assert child.task_id in desk.scheduler.tasks and not desk.killed


@pytest.mark.parametrize("reason", [how_it_ended(0), how_it_ended(1 << 8)])
def test_a_worker_that_ends_in_order_leaves_its_children(desk, reason):
    """A worker after the last of max_calls leaves its tasks, too."""
    parent, worker = desk.parent(max_retries=0)
    child = desk.spec()
    desk.by(worker, child)
    desk.windows[worker] += 1
    desk.finish_one(worker)
    del desk.queues[worker]
    desk.tell("host", e.WorkerExited(worker, reason, desk.windows.pop(worker)))
    assert (child.task_id in desk.scheduler.tasks) == reason.endswith("0")


def test_other_tasks_of_a_worker_that_is_killed_run_elsewhere(desk):
    """None of them has begun."""
    desk = FateDesk(cpus=2)
    _, worker = desk.parent(max_retries=0)
    desk.scheduler.dispatch.mean_us[b"function" * 2] = 100
    children = [desk.spec(max_retries=0) for _ in range(3)]
    refs = desk.by(worker, *children)
    runner = desk.runs(children[0])
    desk.begin(runner)
    assert all(desk.runs(child) == runner for child in children)
    desk.tell(DRIVER, HoldObjects(refs[1:]))
    desk.kill(worker)
    desk.die()
    desk.run_all()
    assert [desk.scheduler.objects.entries[ref].value for ref in refs[1:]] == [b"\1"] * 2
    assert refs[0] not in desk.scheduler.objects.entries


def test_a_task_that_has_not_begun_costs_no_worker(desk):
    desk = FateDesk(cpus=2)
    _, worker = desk.parent(max_retries=0)
    desk.scheduler.dispatch.mean_us[b"function" * 2] = 100
    children = [desk.spec() for _ in range(3)]
    refs = desk.by(worker, *children)
    runner = desk.runs(children[0])
    desk.begin(runner)
    desk.tell(DRIVER, HoldObjects(refs[:1]))
    desk.kill(worker)
    assert not desk.killed
    desk.windows[runner] += 1
    desk.finish_one(runner)
    desk.run_all()
    assert desk.scheduler.objects.entries[refs[0]].value == b"\1"
    assert not desk.scheduler.tasks and not desk.scheduler.resources.free["CPU"] % 20_000


# --- actors ---


def actor(desk, sender, actor_id=CHILD, **options):
    handle = return_id(actor_id, 1)
    desk.create(actor_id, ActorOptions(resources={"CPU": 10_000}, class_name="Child", **options), sender=sender)
    return handle


def start(desk, actor_id=CHILD):
    while not any(process.actor_id == actor_id for process in desk.actors.values()):
        desk.give_birth()
    (worker,) = [worker for worker, process in desk.actors.items() if process.actor_id == actor_id]
    desk.construct(worker)
    return worker


def error_of(desk, object_id):
    return decode_system_error(desk.scheduler.objects.entries[object_id].value)


@pytest.mark.parametrize("is_held", [False, True])
def test_an_actor_ends_with_its_last_handle_in_the_middle_of_a_call(desk, is_held):
    _, worker = desk.parent(max_retries=0)
    handle = actor(desk, worker)
    home = start(desk)
    call = desk.new_call(b"p", CHILD)
    (ref,) = desk.by(worker, call)
    desk.begin_call(home)
    desk.tell(DRIVER, HoldObjects([ref, handle] if is_held else [ref]))
    desk.kill(worker)
    assert (home in desk.killed) is not is_held
    if not is_held:
        assert "the process that had its last handle died" in str(error_of(desk, ref))
    desk.die()
    assert desk.free_cpus() == (3 if is_held else 4)


def test_actor_that_is_not_made_yet_is_made_no_more(desk):
    _, worker = desk.parent(max_retries=0)
    blocks = [desk.spec() for _ in range(3)]
    desk.submit(*blocks)
    actor(desk, worker)
    call = desk.new_call(b"p", CHILD)
    (ref,) = desk.by(worker, call)
    desk.tell(DRIVER, HoldObjects([ref]))
    desk.kill(worker)
    assert CHILD not in desk.scheduler.calls.actors
    assert "the process that had its last handle died" in str(error_of(desk, ref))
    desk.run_all()


def test_a_detached_actor_lives_on(desk):
    _, worker = desk.parent(max_retries=0)
    actor(desk, worker, name="it", detached=True)
    desk.answer_name()
    home = start(desk)
    desk.kill(worker)
    assert CHILD in desk.scheduler.calls.actors and home not in desk.killed


def test_work_of_a_killed_actor_ends(desk):
    """A task that runs, and an actor that it has made."""
    actor(desk, DRIVER)
    worker = start(desk)
    child = desk.spec()
    desk.by(worker, child)
    actor(desk, worker, BESIDE)
    start(desk, BESIDE)
    assert desk.free_cpus() == 1
    desk.kill(worker)
    desk.die()
    assert desk.free_cpus() == 4 and not desk.scheduler.calls.actors


def test_an_actor_that_leaves_in_order_leaves_its_tasks(desk):
    handle = actor(desk, DRIVER)
    worker = start(desk)
    child = desk.spec()
    desk.by(worker, child)
    desk.tell(DRIVER, ReleaseObjects([handle]))
    assert desk.is_dying(worker)
    desk.kill(worker)
    assert child.task_id in desk.scheduler.tasks


def test_a_call_that_waits_for_a_task_keeps_that_not_alive(desk):
    """Both are of the process that died; the callee is another's."""
    _, worker = desk.parent(max_retries=0)
    actor(desk, DRIVER)
    start(desk)
    child = desk.spec()
    (ref,) = desk.by(worker, child)
    call = desk.new_call(b"p", CHILD, deps=[ref])
    desk.by(worker, call)
    desk.kill(worker)
    desk.die()
    assert call.task_id not in desk.scheduler.tasks and child.task_id not in desk.scheduler.tasks
    assert desk.free_cpus() == 3
