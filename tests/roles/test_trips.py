"""Tasks that are stranded where actors hold what they need: they go back, and ask again."""

from tests.roles.desk import DRIVER, FUNCTION, JOB, Desk
from zray.ids import put_id
from zray.roles.local_scheduler.task import TaskState
from zray.wire.actors import CreateActor
from zray.wire.gcs import (
    AddLocations,
    HoldAtNode,
    HoldAtNodeReply,
    NodeJoined,
    ObjectLocated,
    RecordTasks,
    RecordTasksReply,
)
from zray.wire.objects import PutObject, PutObjects
from zray.wire.scheduling import (
    JobEnded,
    JobFacts,
    PlaceTask,
    SpillTask,
    TaskDeferred,
    TaskDone,
    TaskGivenBack,
    TaskPlaced,
)
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskSpec
from zray.wire.tasks import ObjectsReady

CPU = {"CPU": RESOURCE_UNIT}
OTHER = "n2/local"
TASK = b"t" * 16


def desk_with_a_peer():
    desk = Desk(cpus=1)
    desk.scheduler.is_embedded = False
    desk.tell("monitor", NodeJoined(OTHER, CPU))
    return desk


def start_actor(desk):
    """One that takes the only CPU for life."""
    desk.tell("driver-1", CreateActor(TaskSpec(b"a" * 16, FUNCTION), ActorOptions(resources=CPU)))
    while desk.starting:
        desk.give_birth()
    assert desk.scheduler.resources.held == CPU


def acknowledge(desk):
    """The shard has heard what leaves with a task.  What has gone up meanwhile is still to be looked at."""
    sent = desk.take_sent()
    desk.sent += [item for item in sent if type(item[1]) is SpillTask]
    for _, message in sent:
        if type(message) is RecordTasks and message.request:
            desk.tell("gcs-0", RecordTasksReply(message.request))
        elif type(message) is HoldAtNode and message.request:
            desk.tell("gcs-0", HoldAtNodeReply(message.request))


def place(desk, origin=OTHER, trip=1, attempts=0):
    desk.tell("global", PlaceTask(TaskSpec(TASK, FUNCTION), origin, JOB, trip=trip, attempts=attempts))


def test_a_placed_task_goes_back_when_an_actor_takes_the_cpu():
    desk = desk_with_a_peer()
    start_actor(desk)
    desk.take_sent()
    place(desk, trip=3, attempts=2)
    assert desk.take_sent(TaskGivenBack) == [(OTHER, TaskGivenBack(TASK, 3, 2))]
    assert TASK not in desk.scheduler.tasks
    assert TASK + b"\0\0\0\1" not in desk.scheduler.objects.entries


def test_a_placed_task_stays_behind_a_task_that_runs():
    """Ray paper 4.2.2: or two full nodes would play ball with it."""
    desk = desk_with_a_peer()
    desk.submit(desk.new_spec())
    desk.give_birth()
    desk.take_sent()
    place(desk)
    assert desk.take_sent(TaskGivenBack) == []
    assert TASK in desk.scheduler.tasks


def spilled(desk):
    """A task of ours that has gone up."""
    start_actor(desk)
    desk.submit(TaskSpec(TASK, FUNCTION))
    acknowledge(desk)
    (spill,) = desk.take_sent(SpillTask)
    return spill[1]


def test_what_is_given_back_asks_again_later():
    desk = desk_with_a_peer()
    assert spilled(desk).trip == 1
    desk.tell("global", TaskPlaced(TASK, OTHER, 1))
    desk.tell(OTHER, TaskGivenBack(TASK, 1, 1))
    assert desk.tasks_in(TaskState.DEFERRED) == [TASK]
    assert desk.take_sent(SpillTask) == []
    desk.timer("Trips.ask_again")
    acknowledge(desk)
    ((_, again),) = desk.take_sent(SpillTask)
    assert (again.trip, again.attempts) == (2, 1)


def test_news_of_an_earlier_trip_changes_nothing():
    desk = desk_with_a_peer()
    spilled(desk)
    desk.tell("global", TaskDeferred(TASK, 1))
    desk.timer("Trips.ask_again")
    acknowledge(desk)
    desk.tell("global", TaskPlaced(TASK, OTHER, 1))
    desk.tell(OTHER, TaskGivenBack(TASK, 1, 0))
    assert not desk.tasks_in(TaskState.PLACED, TaskState.ACCEPTED, TaskState.DEFERRED)


def test_others_of_the_kind_wait_for_the_one_that_asks():
    desk = desk_with_a_peer()
    spilled(desk)
    desk.tell("global", TaskDeferred(TASK, 1))
    desk.submit(desk.new_spec())
    assert desk.take_sent(SpillTask) == []
    desk.timer("Trips.ask_again")
    acknowledge(desk)
    assert [message.trip for _, message in desk.take_sent(SpillTask)] == [1, 2]


def test_a_task_that_is_sent_back_to_a_node_full_of_actors_waits():
    """The global scheduler had not heard of the actor: no circle within one turn."""
    desk = desk_with_a_peer()
    spilled(desk)
    place(desk, origin="local", trip=1)
    assert desk.take_sent(SpillTask) == []
    assert desk.tasks_in(TaskState.DEFERRED) == [TASK]


def test_only_its_drivers_node_ends_a_job():
    """The word of a third node does not end a job (docs/security.md, S5)."""
    desk = desk_with_a_peer()
    desk.tell("global", PlaceTask(TaskSpec(TASK, FUNCTION), OTHER, b"job-0002", JobFacts(home=OTHER)))
    desk.tell("n3/local", JobEnded(b"job-0002"))
    assert TASK in desk.scheduler.tasks
    desk.tell(OTHER, JobEnded(b"job-0002"))
    assert TASK not in desk.scheduler.tasks and b"job-0002" not in desk.scheduler.jobs


# --- done elsewhere ---


def test_small_results_of_a_placed_task_go_straight_back():
    desk = desk_with_a_peer()
    place(desk, trip=2)
    worker = desk.give_birth()
    desk.take_sent()
    desk.finish_one(worker, b"\x07")
    assert desk.take_sent(TaskDone) == [(OTHER, TaskDone(TASK, 2, [b"\x07"]))]


def test_large_results_of_a_placed_task_are_fetched():
    desk = desk_with_a_peer()
    desk.scheduler.inline_bytes_max = 100
    place(desk)
    worker = desk.give_birth()
    desk.finish_one(worker, b"\xc4" + bytes(100))
    assert desk.take_sent(TaskDone) == []


def desk_whose_task_is_elsewhere():
    """A task of the driver's, on its first trip."""
    desk = desk_with_a_peer()
    start_actor(desk)
    spec = desk.new_spec()
    (ref,) = desk.submit(spec)
    desk.take_sent()
    return desk, spec.task_id, ref


def test_the_origin_gives_the_result_to_whoever_submitted():
    desk, task_id, ref = desk_whose_task_is_elsewhere()
    desk.tell(OTHER, TaskDone(task_id, 1, [b"\x07"]))
    assert (DRIVER, ObjectsReady([(ref, b"\x07")])) in desk.take_sent(ObjectsReady)
    assert task_id not in desk.scheduler.tasks
    desk.tell("gcs-0", ObjectLocated(ref, 1, [OTHER]))
    assert desk.take_sent() == []  # it is not fetched


def test_results_of_another_trip_or_node_or_too_few_change_nothing():
    desk, task_id, _ = desk_whose_task_is_elsewhere()
    desk.tell("global", TaskPlaced(task_id, OTHER, 1))
    desk.tell("n3/local", TaskDone(task_id, 1, [b"\x07"]))
    desk.tell(OTHER, TaskDone(task_id, 2, [b"\x07"]))
    desk.tell(OTHER, TaskDone(task_id, 1, []))
    assert task_id in desk.scheduler.tasks
    assert desk.scheduler.rejected


def test_what_is_acknowledged_comes_after_where_its_arguments_are():
    """Who gets the task asks at once where they are: a put that has no place yet, in a cluster that has lost a node, is
    taken for lost (its shard may get the one request and, a moment later, the other)."""
    desk = desk_with_a_peer()
    put = put_id(b"t" * 16, 1)
    desk.tell(DRIVER, PutObjects([PutObject(put, b"\x01v")]))
    start_actor(desk)
    desk.take_sent()
    desk.submit(desk.new_spec(deps=[put]))
    said = [message for target, message in desk.take_sent() if target == "gcs-0"]
    about = [message for message in said if put in getattr(message, "object_ids", ()) or type(message) is AddLocations]
    assert [type(message) for message in about] == [HoldAtNode, AddLocations, HoldAtNode]
    assert not about[0].request and about[2].request
