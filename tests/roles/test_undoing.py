"""What an ended program leaves behind goes in portions, and goes whole."""

import pytest
from msgspec.structs import replace

from zray.ids import item_id
from zray.roles import effects as e
from zray.roles.local_scheduler.objects import undoing
from zray.wire.gcs import ObjectLocated
from zray.wire.objects import HoldObjects, ObjectFetched
from zray.wire.task_spec import StoredValue, TaskOptions, encode_options
from zray.wire.tasks import ItemsYielded, LeaveGenerator, WaitObjects

from .desk import DRIVER, JOB, Desk


@pytest.mark.parametrize("portion", [1, 2, 1_000])
def test_the_tasks_of_a_driver_that_is_gone_end_in_portions(portion, monkeypatch):
    """No turn takes more, however many it had; others are served between."""
    monkeypatch.setattr(undoing, "PORTION_COUNT_MAX", portion)
    desk = Desk()
    node = desk.scheduler
    first = desk.submit(desk.new_spec())
    desk.submit(*[desk.new_spec(deps=first) for _ in range(10)], *[desk.new_spec() for _ in range(10)])
    desk.tell("host", e.ProcessJoined("driver-2", "driver", 2, b"job-0002"))
    desk.tell("host", e.ProcessLeft(DRIVER, "killed"))
    assert JOB not in node.jobs and DRIVER not in node.processes and not node.tasks
    turns = 0
    while node.undoing.steps:
        left = len(node.objects.entries)
        desk.timer("Undoing.go_on")
        assert left - len(node.objects.entries) <= 2 * portion  # a result, and the argument that nobody else takes
        turns += 1
    assert not node.objects.entries
    assert turns >= 21 // portion


def test_what_two_programs_leave_goes_one_after_the_other(monkeypatch):
    monkeypatch.setattr(undoing, "PORTION_COUNT_MAX", 1)
    desk = Desk()
    desk.submit(*[desk.new_spec() for _ in range(3)])
    desk.tell("host", e.ProcessJoined("driver-2", "driver", 2, b"job-0002"))
    desk.tell("host", e.ProcessLeft(DRIVER, "killed"))
    desk.tell("host", e.ProcessLeft("driver-2", "killed"))
    while desk.scheduler.undoing.steps:
        desk.timer("Undoing.go_on")
    assert not desk.scheduler.objects.entries


def test_what_comes_for_a_program_that_is_gone_is_not_pinned_for_ever(monkeypatch):
    """It still holds the ref when the value is fetched, in the midst of its undoing."""
    monkeypatch.setattr(undoing, "PORTION_COUNT_MAX", 1)
    wanted = b"w" * 20
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.tell(DRIVER, HoldObjects([b"1" * 20, b"2" * 20, wanted]))
    desk.tell(DRIVER, WaitObjects(1, [wanted], 1, True, True))
    desk.tell("gcs-0", ObjectLocated(wanted, 1_000_000, ["n1/local"]))
    desk.tell("host", e.ProcessLeft(DRIVER, "killed"))
    assert desk.scheduler.undoing.steps
    desk.tell("objects", ObjectFetched(wanted, StoredValue(0, 0, 1_000_000)))
    while desk.scheduler.undoing.steps:
        desk.timer("Undoing.go_on")
    assert not desk.scheduler.objects.pins


@pytest.mark.parametrize("has_died", [False, True])
def test_unread_items_of_a_generator_that_was_left_go_in_portions(has_died, monkeypatch):
    """The node serves others between, and the process may end meanwhile."""
    monkeypatch.setattr(undoing, "PORTION_COUNT_MAX", 2)
    desk = Desk()
    entries = desk.scheduler.objects.entries
    desk.tell("host", e.ProcessJoined("driver-2", "driver", 2, b"job-0002"))
    spec = replace(desk.new_spec(), options=encode_options(TaskOptions(is_generator=True)))
    desk.submit(spec)
    worker = desk.give_birth()
    desk.tell(worker, ItemsYielded(spec.task_id, 0, [b"%d" % number for number in range(10)]))
    desk.tell(DRIVER, LeaveGenerator(spec.task_id, 3))
    unread = [item_id(spec.task_id, number) for number in range(3, 10)]
    assert [item in entries for item in unread] == [False] * 2 + [True] * 5
    if has_died:
        desk.tell("host", e.ProcessLeft(DRIVER, "killed"))
    turns = 0
    while desk.scheduler.undoing.steps:
        desk.timer("Undoing.go_on")
        turns += 1
    assert turns >= 3
    assert not any(item in entries for item in unread)
    assert (item_id(spec.task_id, 0) in entries) is not has_died
