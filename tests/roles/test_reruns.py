"""Generators that have made a lost item and still run, at the node that runs them."""

import pytest

from tests.roles.desk import FUNCTION, Acknowledged, Desk
from zray.exceptions import encode_system_error, is_error_value
from zray.ids import item_id
from zray.wire.gcs import AddLocations
from zray.wire.objects import ResultMissing
from zray.wire.scheduling import JobFacts, PlaceTask, TaskDone
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import InterruptTask, ItemsYielded, StartTasks, TaskResult, TasksFinished

N2, N3 = "n2/local", "n3/local"
TASK = b"t" * 16
CANCELLED = encode_system_error("TaskCancelledError", "cancelled")


class Node(Acknowledged, Desk):
    """A node that runs a generator for another one, and has made two items."""

    def __init__(self, max_retries):
        super().__init__()
        self.join(N2, N3)
        options = encode_options(TaskOptions(max_retries=max_retries, is_generator=True, max_buffered=2))
        spec = TaskSpec(TASK, FUNCTION, options=options)
        self.tell("global", PlaceTask(spec, N2, b"job-away", JobFacts(home=N3), 1))
        self.heard()
        while self.starting:
            self.give_birth()
        (self.worker,) = [worker for worker, queue in self.queues.items() if queue]
        self.tell(self.worker, ItemsYielded(TASK, 0, [b"a", b"b"]))
        self.take_sent()

    def is_missing(self, number, sender=N2):
        self.tell(sender, ResultMissing(item_id(TASK, number), 1, 0))
        return self.take_sent(InterruptTask)

    def ends_with(self, value):
        self.tell(self.worker, TasksFinished([TaskResult(TASK, [value])]))
        return [message for _, message in self.heard()]


def attempts_in(said):
    return [attempts for message in said if type(message) is AddLocations for attempts in message.attempts]


def test_a_run_that_has_made_the_item_is_ended_and_begins_again():
    desk = Node(max_retries=1)
    assert desk.is_missing(1) == [(desk.worker, InterruptTask(TASK))]
    assert not desk.is_missing(0)  # the next run makes both
    said = desk.ends_with(CANCELLED)
    assert attempts_in(desk.told) == [(TASK, 1)]
    assert [spec.task_id for message in said if type(message) is StartTasks for spec in message.specs] == [TASK]
    assert not desk.is_missing(1)  # that run has not made it yet


@pytest.mark.parametrize("number, sender", [(2, N2), (1, N3)])
def test_a_run_goes_on_for_an_item_that_comes_and_for_a_stranger(number, sender):
    assert not Node(max_retries=1).is_missing(number, sender)


def test_a_run_that_was_faster_counts():
    desk = Node(max_retries=1)
    assert desk.is_missing(1)
    said = desk.ends_with(b"\x02")
    assert [message.values for message in said if type(message) is TaskDone] == [[b"\x02"]]
    assert TASK not in desk.scheduler.tasks and not desk.scheduler.reruns.ending


def test_an_item_that_may_not_be_made_again_is_an_error():
    desk = Node(max_retries=0)
    desk.tell(N2, ResultMissing(item_id(TASK, 1), 1, 0))
    assert not [message for _, message in desk.heard() if type(message) is InterruptTask]
    located = [message.objects for message in desk.told if type(message) is AddLocations and message.objects]
    assert [[object_id for object_id, _ in objects] for objects in located] == [[item_id(TASK, 1)]]
    assert is_error_value(desk.scheduler.objects.entries[item_id(TASK, 1)].value)
