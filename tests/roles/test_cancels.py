"""Cancelled tasks and calls by hand: where each one ends, and who is told."""

import pytest

from tests.roles.desk import DRIVER, Desk
from tests.roles.reasons_desk import Node as ReasonsDesk
from tests.roles.test_flights import N2, N3, acknowledge, desk, hand_up  # noqa: F401  a fixture
from tests.roles.test_notices import Node as NoticeDesk
from tests.roles.test_restarts import N3 as HOME
from tests.roles.test_restarts import Elsewhere
from zray.ids import children_prefix, return_id
from zray.roles.effects import TasksReclaimed
from zray.wire.actors import ActorStarted
from zray.wire.homes import ActorLocated
from zray.wire.scheduling import JobFacts, PlaceTask, TaskAccepted, TaskPlaced
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import (
    CancelTask,
    CancelTaskReply,
    InterruptTask,
    SubmitTasks,
    TaskCleansUp,
    TaskResult,
    TasksFinished,
    Timing,
)

VALUE = b"\x01"


def value_of(node, task_id):
    return node.scheduler.objects.entries[return_id(task_id, 1)].value or b""


def is_cancelled(node, task_id):
    return b"CancelledError" in value_of(node, task_id)


def cancel(node, task_id, *, sender=DRIVER, **options):
    node.tell(sender, CancelTask(task_id, **options))


def running(node, **options):
    """A task that a worker has begun, and that worker."""
    spec = node.new_spec(**options)
    node.submit(spec)
    worker = node.give_birth()
    node.windows[worker] -= 1  # it has claimed the task
    node.take_sent()
    return spec, worker


def end(node, worker, spec, timings=(), **result):
    node.queues[worker].remove(spec)
    node.tell(worker, TasksFinished([TaskResult(spec.task_id, [VALUE], **result)], list(timings)))


def told(node, kind=InterruptTask):
    return [(target, message.task_id) for target, message in node.take_sent() if type(message) is kind]


def test_task_that_waits_or_is_queued_ends_at_once_and_never_runs():
    node = Desk(cpus=1)
    first, worker = running(node)
    queued, waiting = node.new_spec(), node.new_spec(deps=[return_id(first.task_id, 1)])
    node.submit(queued, waiting)
    for spec in (queued, waiting):
        cancel(node, spec.task_id)
        assert is_cancelled(node, spec.task_id)
    end(node, worker, first)
    node.run_all()
    assert not node.scheduler.tasks and node.scheduler.finished_count == 3
    node.scheduler.dispatch.check_everything()


def test_worker_gets_further_signals_until_its_task_ends():
    """A signal that comes right before a system call begins ends no sleep."""
    node = Desk(cpus=1)
    spec, worker = running(node)
    cancel(node, spec.task_id)
    assert node.interrupted == [worker]
    for count in (2, 3):
        node.timer("Cancels._signal")
        assert node.interrupted == [worker] * count
    end(node, worker, spec)
    node.timer("Cancels._signal")
    assert node.interrupted == [worker] * 3
    assert not node.timers.named("Cancels._signal")


def test_worker_is_told_once_and_the_value_of_a_task_that_is_faster_counts():
    node = Desk(cpus=1)
    spec, worker = running(node)
    for _ in range(2):
        cancel(node, spec.task_id)
    assert told(node) == [(worker, spec.task_id)]
    end(node, worker, spec)
    assert value_of(node, spec.task_id) == VALUE


def test_children_of_a_task_that_was_faster_are_not_cancelled_when_it_runs_again():
    node = Desk(cpus=1)
    spec, worker = running(node)
    cancel(node, spec.task_id)
    end(node, worker, spec)
    child = TaskSpec(children_prefix(spec.task_id) + b"child1", b"f" * 16)
    node.tell(worker, SubmitTasks([child]))
    assert not is_cancelled(node, child.task_id)


def test_task_that_its_worker_has_not_begun_comes_back_and_ends():
    node = Desk(cpus=1)
    specs = [node.new_spec() for _ in range(3)]
    node.submit(*specs)
    worker = node.give_birth()
    node.windows[worker] -= 1
    end(node, worker, specs[0], timings=[Timing(specs[0].function_id, 10)])
    assert node.queues[worker] == specs[1:], "the worker has both"
    node.windows[worker] -= 1  # it has claimed the second one
    cancel(node, specs[2].task_id)
    assert is_cancelled(node, specs[2].task_id)
    end(node, worker, specs[1])
    assert value_of(node, specs[1].task_id) == VALUE


@pytest.mark.parametrize("how", ["raises", "dies"])
def test_cancelled_task_is_not_retried(how):
    node = Desk(cpus=1)
    spec, worker = running(node)
    cancel(node, spec.task_id)
    if how == "raises":
        end(node, worker, spec, wants_retry=True)
        assert value_of(node, spec.task_id) == VALUE, "the error of the attempt that was cancelled"
    else:
        node.windows[worker] = 0
        node.kill(worker)
        assert is_cancelled(node, spec.task_id)
    assert not node.scheduler.tasks


def test_force_ends_the_worker_and_no_other_task():
    node = Desk(cpus=1)
    spec, worker = running(node)
    other = node.new_spec()
    node.submit(other)
    cancel(node, spec.task_id, force=True, request=7)
    assert (DRIVER, CancelTaskReply(7)) in node.take_sent()
    assert b"TaskForceCancelledError" in value_of(node, spec.task_id)
    assert node.killed == [worker]
    node.kill(worker)
    node.run_all()
    assert value_of(node, other.task_id) == VALUE


@pytest.mark.parametrize("recursive", [True, False])
def test_children_are_cancelled_with_a_task_that_runs_and_those_that_it_submits_later(recursive):
    node = Desk(cpus=1)
    spec, worker = running(node)
    early, late = (TaskSpec(children_prefix(spec.task_id) + bytes([number]) * 6, b"f" * 16) for number in (1, 2))
    node.tell(worker, SubmitTasks([early]))
    cancel(node, spec.task_id, recursive=recursive)
    node.tell(worker, SubmitTasks([late]))
    assert [is_cancelled(node, child.task_id) for child in (early, late)] == [recursive] * 2


def test_what_a_task_submits_once_it_knows_that_it_is_cancelled_runs():
    node = Desk(cpus=1)
    spec, worker = running(node)
    early, late = (TaskSpec(children_prefix(spec.task_id) + bytes([number]) * 6, b"f" * 16) for number in (1, 2))
    cancel(node, spec.task_id)
    node.tell(worker, SubmitTasks([early]))
    node.tell(worker, TaskCleansUp(spec.task_id))
    node.tell(worker, SubmitTasks([late]))
    assert [is_cancelled(node, child.task_id) for child in (early, late)] == [True, False]


def test_user_hears_of_a_task_that_goes_on():
    node = NoticeDesk()
    spec, worker = running(node)
    cancel(node, spec.task_id)
    assert not node.lines
    node.timer("Cancels._is_held_up")
    (notice,) = node.lines
    assert "5 s ago, and still runs" in notice and "force=True" in notice


class CallDesk(NoticeDesk):
    create, call = ReasonsDesk.create, ReasonsDesk.call


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}, {"groups": {"io": 2}}], ids=str)
def test_user_hears_of_a_call_that_runs_and_of_none_that_waits_behind_it(options):
    node = CallDesk()
    actor = node.create(**options)
    node.tell(node.give_birth(), ActorStarted(actor))
    group = {"group": "io"} if "groups" in options else {}
    calls = [node.call(actor, **group)[:16] for _ in range(3 if options else 2)]
    for call in (calls[-1], calls[0]):
        cancel(node, call)
        node.timer("Cancels._is_held_up")
        assert len(node.lines) == (call == calls[0])


# --- forwarded tasks ---


def test_task_that_a_scheduler_has_ends_here_and_where_it_is_placed_then(desk):  # noqa: F811
    task_id = hand_up(desk)
    cancel(desk, task_id)
    assert is_cancelled(desk, task_id)
    desk.take_sent()
    desk.tell("global", TaskPlaced(task_id, N2, 1))
    assert told(desk, CancelTask) == [(N2, task_id)]


def test_node_that_has_the_task_is_told(desk):  # noqa: F811
    task_id = hand_up(desk)
    desk.tell("global", TaskPlaced(task_id, N2, 1))
    desk.tell(N2, TaskAccepted(task_id, 1))
    desk.take_sent()
    cancel(desk, task_id)
    assert is_cancelled(desk, task_id)
    assert told(desk, CancelTask) == [(N2, task_id)]


def test_placed_task_is_interrupted_for_its_origin_only(desk):  # noqa: F811
    spec = desk.new_spec()
    desk.tell("global", PlaceTask(spec, N2, b"job of n2", JobFacts(home=N2)))
    acknowledge(desk)
    worker = desk.give_birth()
    acknowledge(desk)
    assert desk.queues[worker] == [spec]
    desk.windows[worker] -= 1
    cancel(desk, spec.task_id, sender=N3, trip=1)
    assert told(desk) == []
    cancel(desk, spec.task_id, sender=N2, trip=1)
    assert told(desk) == [(worker, spec.task_id)]


def test_task_that_is_not_here_is_asked_of_all_nodes(desk):  # noqa: F811
    cancel(desk, b"t" * 16)
    assert told(desk, CancelTask) == [(N2, b"t" * 16), (N3, b"t" * 16)]


# --- calls ---


def test_call_that_waits_for_its_actors_home_ends_and_the_others_leave():
    node = Elsewhere()
    first, second = node.call(0), node.call(0)
    cancel(node, first)
    assert is_cancelled(node, first) and node.waiting() == [second]
    node.tell("gcs-0", ActorLocated(b"a" * 16, HOME))
    assert not node.waiting()


def test_call_that_was_sent_on_is_cancelled_by_its_actors_node():
    node = Elsewhere()
    node.tell("gcs-0", ActorLocated(b"a" * 16, HOME))
    call = node.call(0)
    node.heard()
    cancel(node, call)
    assert (HOME, CancelTask(call)) in node.take_sent() or (HOME, CancelTask(call)) in node.told


def test_future_cancels_a_task_that_waits_and_none_that_has_begun():
    node = Desk(cpus=1)
    first, worker = running(node)
    queued, waiting = node.new_spec(), node.new_spec(deps=[return_id(first.task_id, 1)])
    node.submit(queued, waiting)
    node.take_sent()
    for spec in (first, queued, waiting, queued):
        cancel(node, spec.task_id, request=3, only_waiting=True)
    replies = [message for _, message in node.take_sent() if type(message) is CancelTaskReply]
    assert [bool(reply.error) for reply in replies] == [True, False, False, True]
    assert is_cancelled(node, queued.task_id) and is_cancelled(node, waiting.task_id)
    end(node, worker, first)
    assert value_of(node, first.task_id) == VALUE


def test_future_cancels_a_task_that_a_worker_has_not_begun_and_the_others_run():
    node = Desk(cpus=1)
    specs = [node.new_spec() for _ in range(5)]
    node.submit(*specs)
    worker = node.give_birth()
    node.windows[worker] -= 1
    end(node, worker, specs[0], timings=[Timing(specs[0].function_id, 10)])
    assert node.queues[worker] == specs[1:], "the worker has all"
    node.windows[worker] -= 1  # it has claimed the second one
    node.take_sent()
    for spec in (specs[1], specs[3], specs[3]):
        cancel(node, spec.task_id, request=3, only_waiting=True)
    replies = [bool(message.error) for _, message in node.take_sent() if type(message) is CancelTaskReply]
    assert replies == [True, False, True]
    assert is_cancelled(node, specs[3].task_id) and not node.interrupted
    end(node, worker, specs[1])
    node.run_all()
    assert [value_of(node, spec.task_id) == VALUE for spec in specs] == [True, True, True, False, True]
    node.scheduler.dispatch.check_everything()


def test_future_cancels_a_task_whose_worker_dies_meanwhile():
    node = Desk(cpus=1)
    spec, worker = running(node)
    perform, node._perform = node._perform, lambda effects: None
    cancel(node, spec.task_id, request=3, only_waiting=True)
    node._perform = perform
    node.kill(worker)
    node.take_sent()
    node.tell("", TasksReclaimed(worker, 0, spec.task_id))
    (reply,) = [message for _, message in node.take_sent() if type(message) is CancelTaskReply]
    assert not reply.error and is_cancelled(node, spec.task_id)


def test_force_is_refused_for_calls():
    node = Elsewhere()
    call = node.call(0)
    cancel(node, call, force=True, request=3)
    replies = [message for _, message in node.take_sent() if type(message) is CancelTaskReply]
    assert len(replies) == 1 and "kill()" in replies[0].error
    assert node.waiting() == [call]
