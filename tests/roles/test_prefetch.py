"""How much work a worker has before it, and when what it has not begun is another's."""

from tests.roles.desk import FUNCTION, Desk
from zray.roles.local_scheduler.tasks.dispatch import MEAN_WEIGHT, PROGRESS_SECONDS
from zray.roles.local_scheduler.worker import INFLIGHT_US_BUSY, INFLIGHT_US_MAX
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import STEADY_US, TaskResult, TasksFinished, Timing


def desk_with_workers(mean_us, *, count=2, tasks=200):
    """They have been given what they should have."""
    desk = Desk(cpus=count)
    desk.scheduler.dispatch.mean_us[FUNCTION] = mean_us
    desk.submit(*[desk.new_spec() for _ in range(tasks)])
    for _ in range(count):
        desk.give_birth()
    return desk, list(desk.queues)


def finish(desk, worker, count):
    """It has finished so many before the node has its turn."""
    specs = [desk.queues[worker].pop(0) for _ in range(count)]
    desk.windows[worker] -= count
    desk.tell(worker, TasksFinished([TaskResult(spec.task_id, [b"\x01"]) for spec in specs]))


def test_who_runs_dry_before_the_node_has_its_turn_gets_more():
    """The node is busy; its workers need not be idle for that."""
    desk, (worker, other) = desk_with_workers(5_000)
    assert len(desk.queues[worker]) == 2
    given = []
    for _ in range(6):
        finish(desk, worker, len(desk.queues[worker]))
        given.append(len(desk.queues[worker]))
    assert given == [2, 4, 7, 13, 13, 13]
    assert desk.scheduler.pool.workers[worker].reach_us == INFLIGHT_US_BUSY
    assert len(desk.queues[other]) == 2, "it did not run dry"


def test_it_gets_less_again_when_it_does_not():
    desk, (worker, _) = desk_with_workers(5_000, tasks=1_000)
    for _ in range(5):
        finish(desk, worker, len(desk.queues[worker]))
    for _ in range(250):
        finish(desk, worker, 1)
    assert desk.scheduler.pool.workers[worker].reach_us == INFLIGHT_US_MAX
    assert len(desk.queues[worker]) == 2


def test_who_has_nothing_left_takes_over_at_once_what_another_has_not_begun():
    desk, (first, second) = desk_with_workers(50_000, tasks=3)
    assert [len(desk.queues[worker]) for worker in (first, second)] == [2, 1]
    finish(desk, second, 1)
    assert desk.inflight(first) == 1
    desk.timer("Dispatch.check_progress")  # any turn: what was taken back is ready
    assert len(desk.queues[second]) == 1


def test_a_worker_is_looked_at_when_it_should_have_moved():
    """Not every few milliseconds: a look costs the node a turn, and tells nothing before."""
    desk, (first, _) = desk_with_workers(50_000)
    begun = desk.scheduler.pool.workers[first].progress_at
    desk.now = begun + PROGRESS_SECONDS
    desk.timer("Dispatch.check_progress")
    assert begun + 0.09 < desk.scheduler.dispatch.looks_at <= desk.now + 0.1
    assert desk.inflight(first) == 2
    desk.now = begun + 0.101
    desk.timer("Dispatch.check_progress")
    assert desk.inflight(first) == 1, "what is behind a task that lasts is another's"


def test_a_look_that_came_too_late_for_another_changes_nothing():
    desk, _ = desk_with_workers(50_000)
    at = desk.scheduler.dispatch.looks_at = desk.now + 1.0
    desk.timer("Dispatch.check_progress")
    assert desk.scheduler.dispatch.looks_at == at


def test_what_long_tasks_take_is_the_mean_of_all_workers():
    """One that the machine has held up for long says little of the next task."""
    desk, (worker, _) = desk_with_workers(2 * STEADY_US)
    spec = desk.queues[worker].pop(0)
    desk.windows[worker] -= 1
    desk.tell(worker, TasksFinished([TaskResult(spec.task_id, [b"\x01"])], [Timing(FUNCTION, 6 * STEADY_US)]))
    assert desk.scheduler.dispatch.mean_us[FUNCTION] == STEADY_US * (2 + 4 * MEAN_WEIGHT)


def test_it_gets_no_more_than_others_when_others_wait_for_their_turn():
    """Or they would wait for all that it has been given."""
    desk, (worker, _) = desk_with_workers(5_000)
    for _ in range(5):
        finish(desk, worker, len(desk.queues[worker]))
    other = desk.new_spec()
    desk.submit(TaskSpec(other.task_id, FUNCTION, options=encode_options(TaskOptions(name="another kind"))))
    finish(desk, worker, len(desk.queues[worker]))
    assert desk.scheduler.pool.workers[worker].reach_us == INFLIGHT_US_MAX
    assert len(desk.queues[worker]) == 2
