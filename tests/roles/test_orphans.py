"""Tasks whose submitters are lost: what becomes of them when their parents run again, and when they fail."""

import pytest

from tests.roles.desk import FUNCTION, Acknowledged, Desk
from zray.exceptions import encode_system_error
from zray.ids import put_id, return_id
from zray.wire.gcs import (
    AddLocations,
    CannotRebuild,
    NodeLost,
    ObjectLost,
    RebuildObject,
)
from zray.wire.objects import PutMissing, PutObject, PutObjects
from zray.wire.scheduling import JobFacts, PlaceTask, TaskAccepted
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import StartTasks, SubmitTasks

N2, N3, HOME = "n2/local", "n3/local", "n4/local"
JOB_THERE = b"job-away"
TASK, PARENT = b"t" * 16, b"p" * 16
OBJECT, PUT = return_id(TASK, 1), put_id(PARENT, 3)
ERROR = encode_system_error("ObjectLostError", "gone")


class OrphanDesk(Acknowledged, Desk):
    def __init__(self):
        super().__init__()
        self.join(N2, N3, HOME)

    def place(self, origin, deps=(PUT,), trip=1):
        spec = TaskSpec(TASK, FUNCTION, deps=tuple(deps))
        self.tell("global", PlaceTask(spec, origin, JOB_THERE, JobFacts(home=HOME), trip=trip))
        return self.heard()

    def run_it(self, value):
        while self.starting:
            self.give_birth()
        (worker,) = [worker for worker, queue in self.queues.items() if queue]
        self.finish_one(worker, value)
        return self.heard()

    def announced(self):
        """Whether the shard was told that its result is here."""
        return any(type(message) is AddLocations and message.objects[0][0] == OBJECT for message in self.told)


@pytest.fixture
def desk():
    return OrphanDesk()


def accepted(said):
    return [(target, message.trip) for target, message in said if type(message) is TaskAccepted]


def test_the_next_run_of_its_parent_is_its_origin_then(desk):
    assert accepted(desk.place(N2, deps=())) == [(N2, 1)]
    desk.tell("monitor", NodeLost(N2, "killed"))
    assert accepted(desk.place(N3, deps=(), trip=2)) == [(N3, 2)]
    task = desk.scheduler.tasks[TASK]
    assert (task.origin, task.trip) == (N3, 2)
    desk.run_it(ERROR)
    assert desk.announced()  # it is somebody's again: its error counts


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_error_of_it_counts_only_while_somebody_waits_for_it(desk, is_lost):
    desk.place(N2, deps=())
    if is_lost:
        desk.tell("monitor", NodeLost(N2, "killed"))
    desk.run_it(ERROR)
    assert desk.announced() is not is_lost
    assert TASK not in desk.scheduler.tasks
    if is_lost:
        assert OBJECT not in desk.scheduler.objects.entries


def test_a_value_of_it_counts_always(desk):
    desk.place(N2, deps=())
    desk.tell("monitor", NodeLost(N2, "killed"))
    desk.run_it(b"\1fine")
    assert desk.announced()


@pytest.mark.parametrize("is_lost", [False, True])
def test_one_whose_argument_is_lost_was_never_here(desk, is_lost):
    desk.place(N2)
    if is_lost:
        desk.tell("monitor", NodeLost(N2, "killed"))
    desk.tell("gcs-0", ObjectLost(PUT, "it was put"))
    while desk.starting:
        desk.give_birth()
    assert any(type(message) is StartTasks for _, message in desk.heard()) is not is_lost
    if is_lost:
        assert TASK not in desk.scheduler.tasks
        assert OBJECT not in desk.scheduler.objects.entries


def test_who_has_it_made_again_here_hears_of_its_error(desk):
    """The shard takes us for the one who makes it: others wait."""
    desk.place(N2, deps=())
    desk.tell("monitor", NodeLost(N2, "killed"))
    desk.tell("gcs-0", RebuildObject(OBJECT, TaskSpec(TASK, FUNCTION)))
    desk.run_it(ERROR)
    assert desk.announced()


def test_what_is_here_is_not_made_again(desk):
    """What it takes may be gone by now."""
    desk.place(N2, deps=())
    desk.run_it(b"\1fine")
    desk.told.clear()
    said = desk.place(N3)
    assert accepted(said) == [(N3, 1)] and desk.announced()
    assert TASK not in desk.scheduler.tasks
    assert desk.scheduler.objects.entries[OBJECT].value == b"\1fine"


def test_what_has_failed_here_is_made_again(desk):
    desk.place(N2, deps=())
    desk.run_it(ERROR)
    desk.place(N3, deps=())
    desk.run_it(b"\1fine")
    assert desk.scheduler.objects.entries[OBJECT].value == b"\1fine"


@pytest.mark.parametrize("has_put", [False, True])
def test_what_a_task_has_put_in_this_run_it_does_not_put_again(desk, has_put):
    """Asked by the shard, and by the node of its origin."""
    desk.place(N2, deps=())
    while desk.starting:
        desk.give_birth()
    (worker,) = [worker for worker, queue in desk.queues.items() if queue]
    if has_put:
        desk.tell(worker, PutObjects([PutObject(put_id(TASK, 5), b"\1value", ())]))
        desk.tell(worker, SubmitTasks([]))
        desk.scheduler.objects.release_all([put_id(TASK, 5)], desk.scheduler.processes[worker])
    missing = put_id(TASK, 3)
    for sender, question in (("gcs-0", RebuildObject(missing, TaskSpec(TASK, FUNCTION))), (N2, PutMissing(missing))):
        desk.told.clear()
        desk.tell(sender, question)
        desk.heard()
        assert (CannotRebuild("local", missing) in desk.told) is has_put
