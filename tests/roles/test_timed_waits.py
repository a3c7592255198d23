"""Workers whose wait has a timeout, by hand: they go on at once, and owe the CPU that they have lent."""

from tests.roles.test_lending import OneCpu
from zray.ids import return_id
from zray.roles.local_scheduler.tasks import pool
from zray.roles.local_scheduler.tasks.lending import FrameState
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import (
    AwaitRoom,
    CancelWait,
    StartTasks,
    SubmitTasks,
    TaskResult,
    TasksFinished,
    WaitObjects,
    WaitReply,
)

CPU = 10_000


class Timed(OneCpu):
    """One CPU; the worker's task has a child, which runs in another worker."""

    def __init__(self):
        super().__init__()
        self.children = 0
        self.child = self.submit_child()
        self.wait(1, self.child)
        self.other = self.give_birth()
        assert [spec.task_id for spec in self.queues[self.other]] == [self.child[: len(self.running.task_id)]]
        self.windows[self.other] -= 1
        self.take_sent()

    def submit_child(self, worker=None):
        self.children += 1
        spec = TaskSpec((0xC0 + self.children).to_bytes(16, "big"), self.running.function_id)
        self.tell(worker or self.worker, SubmitTasks([spec]))
        return return_id(spec.task_id, 1)

    def wait(self, request, *object_ids, worker=None, limited=True):
        message = WaitObjects(request, list(object_ids), len(object_ids), False, True, False, limited)
        self.tell(worker or self.worker, message)

    def leave(self, request, worker=None):
        self.tell(worker or self.worker, CancelWait(request, True))

    def end_child(self):
        spec = self.queues[self.other].pop(0)
        self.tell(self.other, TasksFinished([TaskResult(spec.task_id, [b"\x01"])]))

    def owing(self):
        return self.workers_at(FrameState.AWAITS_CPU, FrameState.OWES)


def test_worker_whose_time_is_over_goes_on_at_once_and_owes_its_cpu():
    desk = Timed()
    desk.leave(1)
    assert desk.replies() == [1]
    assert desk.owing() == [desk.worker] and desk.free() == 0
    desk.end_child()
    assert desk.owing() == [] and desk.free() == 0, "it has its CPU again"
    assert not desk.queues[desk.other], "and the task that waits for a CPU has not"
    desk.end_first()
    desk.run_all()
    assert desk.free() == CPU


def test_wait_that_is_over_and_without_its_cpu_can_be_left():
    desk = Timed()
    desk.tell(desk.worker, CancelWait(1))
    assert desk.replies() == []
    desk.leave(1)
    assert desk.replies() == [1]
    assert desk.owing() == [desk.worker]


def test_worker_that_waits_again_owes_nothing():
    desk = Timed()
    for request in range(1, 5):
        desk.leave(request)
        assert desk.owing() == [desk.worker]
        desk.wait(request + 1, desk.child)
        assert desk.owing() == []
        assert desk.replies() == [request]
    desk.end_child()
    assert desk.replies() == [5]
    assert desk.free() == 0
    desk.end_first()
    desk.run_all()
    assert desk.free() == CPU


def test_worker_that_ends_its_task_while_it_owes_gives_nothing_back():
    desk = Timed()
    desk.leave(1)
    desk.end_first()
    assert desk.owing() == [] and desk.free() == 0
    desk.end_child()
    desk.run_all()
    assert desk.free() == CPU


def test_worker_that_dies_while_it_owes_gives_nothing_back():
    desk = Timed()
    desk.leave(1)
    desk.kill(desk.worker)
    assert desk.owing() == []
    desk.end_child()
    desk.run_all()
    assert desk.free() == CPU


def test_nested_task_that_was_sent_into_a_wait_is_taken_back_when_it_is_left(monkeypatch):
    """A worker throws out what comes ahead of the reply; so the reply leaves ahead of what its next wait is sent."""
    monkeypatch.setattr(pool, "LIMITED_MAX", 0)
    desk = OneCpu()
    desk.scheduler.pool.count_max = 1
    desk.wait(1, desk.second)
    (target, nested), *_ = desk.take_sent(StartTasks)
    assert target == desk.worker and nested.nested
    scheduler, now = desk.scheduler, desk.now + 1
    desk._perform(scheduler.handle(desk.worker, CancelWait(1, True), now))
    desk._perform(scheduler.handle(desk.worker, WaitObjects(2, [desk.second], 1, False, True), now))
    desk._perform(scheduler.end_turn(now))
    scheduler.check_everything()
    reply, again = [message for _, message in desk.take_sent() if type(message) in (WaitReply, StartTasks)]
    assert type(reply) is WaitReply and reply.request == 1
    assert again.nested and [spec.task_id for spec in again.specs] == [nested.specs[0].task_id]
    desk.tell(desk.worker, TasksFinished([TaskResult(again.specs[0].task_id, [b"\x01"])]))
    assert desk.replies() == [2]


def test_task_behind_a_wait_with_a_timeout_has_a_worker_of_its_own_beyond_the_cap():
    desk = OneCpu()
    desk.scheduler.pool.count_max = 1
    message = WaitObjects(1, [desk.second], 1, False, True, False, True)
    desk.tell(desk.worker, message)
    assert not desk.take_sent(StartTasks)
    desk.run_second()
    assert desk.replies() == [1]


def test_child_of_who_waits_again_begins_ahead_of_workers_that_owe():
    """With two parents that wait for short times the CPU would go from one to the other, and never to a child."""
    desk = Timed()
    grandchild = desk.submit_child(desk.other)
    desk.leave(1)
    desk.wait(1, grandchild, worker=desk.other)
    assert desk.owing() == [], "its CPU was free, and there was no worker for the grandchild yet"
    third = desk.give_birth()
    assert not desk.queues[third]
    desk.leave(1, worker=desk.other)
    assert desk.owing() == [desk.other]
    desk.wait(2, desk.child)
    assert [return_id(spec.task_id, 1) for spec in desk.queues[third]] == [grandchild]
    assert desk.owing() == [desk.other]


def test_wait_of_a_signals_handler_leaves_the_wait_around_it_as_it_was():
    desk = Timed()
    desk.wait(2, desk.second)
    desk.end_child()
    assert desk.replies() == []
    assert desk.finish_one(desk.other) is not None
    assert desk.replies() == [2, 1]
    assert desk.free() == 0
    desk.end_first()
    assert desk.free() == CPU


def test_handler_and_the_wait_around_it_are_left_one_after_the_other():
    for requests in ((2, 1), (1, 2)):
        desk = Timed()
        desk.wait(2, desk.second)
        for request in requests:
            desk.leave(request)
        assert desk.replies() == list(requests)
        assert desk.owing() == [desk.worker]
        desk.end_child()
        assert desk.owing() == [] and desk.free() == 0


def test_writer_that_is_refused_room_goes_on_at_once():
    desk = Timed()
    desk.leave(1)
    desk.tell(desk.worker, AwaitRoom(2))
    assert desk.owing() == []
    desk.leave(2)
    assert desk.replies() == [1, 2]
    assert desk.owing() == [desk.worker]
    desk.end_child()
    assert desk.owing() == []
