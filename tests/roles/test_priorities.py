"""Priorities of tasks: ready tasks of a program start in their order."""

from msgspec.structs import replace

from tests.roles.desk import DRIVER, Desk
from zray.wire.task_spec import TaskOptions, encode_options
from zray.wire.tasks import SubmitTasks


def submit(desk, *priorities):
    """Submit a task of each priority.  Returns their ids."""
    specs = [replace(desk.new_spec(), options=encode_options(TaskOptions(priority=each))) for each in priorities]
    desk.tell(DRIVER, SubmitTasks(specs))
    return [spec.task_id for spec in specs]


def order_of_runs(desk):
    """Ids of the tasks in the order in which they run."""
    ran = []
    while desk.starting or any(desk.queues.values()):
        if desk.starting:
            desk.give_birth()
            continue
        spec = desk.finish_one(next(worker for worker, queue in desk.queues.items() if queue))
        ran += [spec.task_id] if spec is not None else []
    return ran


def test_tasks_with_a_higher_priority_start_first():
    desk = Desk(cpus=1)
    low, middle, high, last = submit(desk, -1, 0, 7, -1)
    assert order_of_runs(desk) == [high, middle, low, last]


def test_lease_of_a_lower_priority_ends_for_a_higher_one():
    desk = Desk(cpus=1)
    first, *rest = submit(desk, *[0] * 20)
    worker = desk.give_birth()
    (urgent,) = submit(desk, 5)
    ran = order_of_runs(desk)
    assert set(ran) == {first, urgent, *rest}
    assert ran.index(urgent) <= 2, "it waits for what the worker was sent, and no longer"
    assert desk.workers_in(1) == [worker]


def test_order_of_equal_priorities_is_that_of_submission():
    desk = Desk(cpus=1)
    ids = submit(desk, 3, 3, 3)
    assert order_of_runs(desk) == ids
