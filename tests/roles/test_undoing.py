"""What an ended program leaves behind goes in portions, and goes whole."""

import pytest

from zray.roles import effects as e
from zray.roles.local_scheduler.objects import undoing
from zray.wire.gcs import ObjectLocated
from zray.wire.objects import HoldObjects, ObjectFetched
from zray.wire.task_spec import StoredValue
from zray.wire.tasks import WaitObjects

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
