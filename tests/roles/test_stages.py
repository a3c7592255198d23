"""Records of waits at a node: long ones alone, once for tasks that go together, each with what was waited for."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER, FUNCTION, Desk
from tests.roles.test_trips import OTHER, acknowledge
from zray.ids import return_id
from zray.roles.work_effects import RecordFetch, RecordWait
from zray.wire.environment import Environment
from zray.wire.events import LONG_SECONDS, Stage
from zray.wire.gcs import NodeJoined, ObjectLocated
from zray.wire.objects import FetchFailed, FetchObject, HoldObjects, ObjectFetched
from zray.wire.scheduling import TaskDeferred, TaskPlaced
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, StoredValue, TaskOptions, encode_options
from zray.wire.tasks import CancelTask, WaitObjects

LONG = 1.0


class Noting:
    """A desk that keeps the records of its node."""

    def __init__(self, *arguments, is_on=True, **options):
        self.records = []
        super().__init__(*arguments, **options)
        self.scheduler.stages.is_on = is_on

    def _perform(self, effects):
        self.records += [effect for effect in effects if type(effect) in (RecordWait, RecordFetch)]
        super()._perform(effects)

    def told(self):
        """(stage, id of the first task, number of tasks, seconds) of each record since the last look."""
        records, self.records = self.records, []
        return [(each.stage, each.task_id, each.count, pytest.approx(each.end - each.begin)) for each in records]


class Node(Noting, Desk):
    """A desk of tasks."""


class ActorNode(Noting, ActorDesk):
    """A desk of actors."""


def busy(desk):
    """A node whose one worker has a task; returns the worker."""
    desk.submit(desk.new_spec())
    worker = desk.give_birth()
    desk.told()
    return worker


def test_long_wait_for_a_worker_is_recorded_with_its_times():
    desk = Node(cpus=1)
    worker = busy(desk)
    spec = desk.new_spec()
    desk.submit(spec)
    begin = desk.now
    desk.now += LONG
    desk.finish_one(worker)
    assert desk.records == [RecordWait(Stage.QUEUE, spec.task_id, begin, begin, desk.now, 1, "f")]


def test_short_wait_is_not_recorded():
    desk = Node(cpus=1)
    worker = busy(desk)
    desk.submit(desk.new_spec())
    desk.now += LONG_SECONDS / 2
    desk.finish_one(worker)
    assert not desk.records


def test_nothing_is_recorded_where_records_are_off():
    desk = Node(cpus=1, is_on=False)
    worker = busy(desk)
    desk.submit(desk.new_spec())
    desk.now += LONG
    desk.finish_one(worker)
    assert not desk.records


def test_tasks_that_go_together_have_one_record_with_the_begins_of_the_first_and_the_last():
    desk = Node(cpus=1)
    worker = busy(desk)
    desk.scheduler.dispatch.mean_us[FUNCTION] = 10
    specs = [desk.new_spec() for _ in range(40)]
    desk.submit(*specs[:20])
    begin = desk.now
    desk.now += LONG
    desk.submit(*specs[20:])
    last_begin = desk.now
    desk.now += LONG
    desk.finish_one(worker)
    while desk.queues[worker]:
        desk.finish_one(worker)
    (record,) = desk.records
    assert (record.task_id, record.count) == (specs[0].task_id, 40)
    assert (record.begin, record.last_begin) == (begin, last_begin)


def test_tasks_whose_ids_do_not_follow_each_other_have_records_of_their_own():
    desk = Node(cpus=1)
    worker = busy(desk)
    desk.scheduler.dispatch.mean_us[FUNCTION] = 10
    specs = [desk.new_spec() for _ in range(6)][::2]
    desk.submit(*specs)
    desk.now += LONG
    desk.finish_one(worker)
    assert [(record.task_id, record.count) for record in desk.records] == [(spec.task_id, 1) for spec in specs]


def test_tasks_that_are_sent_once_more_ahead_of_others_have_records_by_their_ids():
    desk = Node(cpus=1)
    worker = busy(desk)
    desk.scheduler.dispatch.mean_us[FUNCTION] = 10
    specs = [desk.new_spec() for _ in range(40)]
    desk.submit(*specs[8:], *specs[:8])  # as where a worker has given the last ones back
    desk.now += LONG
    desk.finish_one(worker)
    assert [(record.task_id, record.count) for record in desk.records] == [
        (specs[8].task_id, 32),
        (specs[0].task_id, 8),
    ]


def test_wait_for_an_argument_and_for_a_worker_are_told_apart():
    desk = Node(cpus=1)
    worker = busy(desk)
    maker = desk.new_spec()
    (argument,) = desk.submit(maker)
    other, follower = desk.new_spec(), desk.new_spec([argument])
    desk.submit(other, follower)
    desk.now += LONG
    desk.finish_one(worker)
    desk.told()
    desk.now += LONG
    desk.finish_one(worker)
    assert (Stage.ARGUMENTS, follower.task_id, 1, 2 * LONG) in [
        (stage, task_id, count, round(float(seconds.expected))) for stage, task_id, count, seconds in desk.told()
    ]
    while desk.queues[worker] or desk.scheduler.tasks:
        desk.now += LONG
        desk.finish_one(worker)
    assert (Stage.QUEUE, follower.task_id) in [record[:2] for record in desk.told()]


def test_task_that_is_cancelled_before_it_runs_has_its_wait():
    desk = Node(cpus=1)
    busy(desk)
    spec = desk.new_spec()
    desk.submit(spec)
    desk.now += LONG
    desk.tell(DRIVER, CancelTask(spec.task_id))
    ((stage, task_id, *_),) = desk.told()
    assert (stage, task_id) == (Stage.QUEUE, spec.task_id)


def ready_to_retry():
    """Return a node of one CPU, its worker, and a task that the worker has, and that may run once more."""
    desk = Node(cpus=1)
    worker = busy(desk)
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(max_retries=1))
    desk.submit(spec)
    desk.finish_one(worker)
    return desk, worker, spec


def test_time_that_a_task_ran_before_its_retry_is_no_wait():
    desk, worker, _ = ready_to_retry()
    desk.now += LONG
    desk.kill(worker)
    desk.give_birth()
    assert not desk.told() and any(desk.queues.values())


def test_short_wait_of_a_task_that_runs_again_is_recorded():
    desk, worker, spec = ready_to_retry()
    desk.told()
    desk.now += LONG
    desk.windows[worker] -= 1  # it has begun
    desk.kill(worker)
    desk.give_birth()
    ((record,),) = [desk.records]
    assert (record.stage, record.task_id, record.count, record.attempts) == (Stage.QUEUE, spec.task_id, 1, 1)


def test_tasks_that_go_together_have_records_by_their_attempts():
    desk = Node(cpus=1)
    worker = busy(desk)
    desk.scheduler.dispatch.mean_us[FUNCTION] = 10
    specs = [desk.new_spec() for _ in range(6)]
    desk.submit(*specs)
    for spec, attempts in zip(specs, (1, 1, 0, 2, 0, 1), strict=True):
        desk.scheduler.tasks[spec.task_id].tried(attempts)
    desk.finish_one(worker)
    assert [(record.task_id, record.count, record.attempts) for record in desk.records] == [
        (specs[0].task_id, 2, 1),
        (specs[3].task_id, 1, 2),
        (specs[5].task_id, 1, 1),
    ]


# --- other nodes ---


def node_with_a_peer():
    desk = Node(cpus=1)
    desk.scheduler.is_embedded = False
    desk.tell("monitor", NodeJoined(OTHER, {"CPU": RESOURCE_UNIT}))
    desk.scheduler.dispatch.mean_us[FUNCTION] = 10_000_000
    return desk


def goes_up(desk):
    """A task on its way to a global scheduler."""
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(resources={"CPU": 2 * RESOURCE_UNIT}))
    desk.tell("monitor", NodeJoined("large/local", {"CPU": 2 * RESOURCE_UNIT}))
    desk.submit(spec)
    acknowledge(desk)
    assert not desk.told()
    return spec


def test_choice_of_a_node_is_one_wait():
    desk = node_with_a_peer()
    spec = goes_up(desk)
    desk.now += LONG
    desk.tell("global", TaskPlaced(spec.task_id, "large/local", 1))
    ((stage, task_id, _, seconds),) = desk.told()
    assert (stage, task_id) == (Stage.PLACING, spec.task_id) and seconds.expected >= LONG


def test_task_that_no_node_has_room_for_waits_for_room():
    desk = node_with_a_peer()
    spec = goes_up(desk)
    for trip in (1, 2, 3):
        desk.now += LONG
        desk.tell("global", TaskDeferred(spec.task_id, trip))
        desk.timer("Trips.ask_again")
        acknowledge(desk)
    assert not desk.told()
    desk.tell("global", TaskPlaced(spec.task_id, "large/local", 4))
    ((stage, task_id, _, seconds),) = desk.told()
    assert (stage, task_id) == (Stage.ROOM, spec.task_id) and seconds.expected >= 3 * LONG


ARGUMENT = return_id(b"elsewhere".ljust(16, b"-"), 1)


@pytest.fixture
def fetching():
    """A node that fetches a value."""
    desk = Node()
    desk.scheduler.is_embedded = False
    desk.tell(DRIVER, HoldObjects([ARGUMENT]))
    desk.tell(DRIVER, WaitObjects(1, [ARGUMENT], 1, block=True))
    desk.tell("gcs-0", ObjectLocated(ARGUMENT, 1_000_000, [OTHER]))
    assert desk.take_sent(FetchObject)
    return desk


def test_way_of_a_value_is_recorded(fetching):
    begin = fetching.now
    fetching.now += LONG
    fetching.tell("objects", ObjectFetched(ARGUMENT, StoredValue(0, 0, 1_000_000)))
    assert fetching.records == [RecordFetch(ARGUMENT, begin, fetching.now, 1_000_000)]
    assert not fetching.scheduler.stages.fetching


def test_value_that_does_not_come_has_no_record(fetching):
    fetching.now += LONG
    fetching.tell("objects", FetchFailed(ARGUMENT, "the node is gone"))
    assert not fetching.records and not fetching.scheduler.stages.fetching


def test_value_that_comes_soon_has_no_record(fetching):
    fetching.tell("objects", ObjectFetched(ARGUMENT, b"\x01small"))
    assert not fetching.records


# --- actors ---

ACTOR = b"actor".ljust(16, b"-")


def test_actor_and_its_calls_have_their_waits():
    desk = ActorNode(cpus=1)
    desk.create(ACTOR, ActorOptions({}, class_name="Keeper"))
    call = desk.new_call(b"driver", ACTOR)
    desk.submit(call)
    desk.now += LONG
    worker = desk.give_birth()
    ((stage, task_id, _, seconds),) = desk.told()
    assert (stage, task_id) == (Stage.WORKER, ACTOR) and seconds.expected >= LONG
    desk.now += LONG
    desk.construct(worker)
    ((stage, task_id, count, seconds),) = desk.told()
    assert (stage, task_id, count) == (Stage.QUEUE, call.task_id, 1) and seconds.expected >= 2 * LONG


@pytest.mark.parametrize(("packages", "stage"), [("", Stage.WORKER), ("of its own", Stage.PACKAGES)])
def test_resources_of_an_actor_are_told_from_its_process(packages, stage):
    desk = ActorNode(cpus=1)
    worker = busy(desk)
    options = ActorOptions({"CPU": RESOURCE_UNIT}, class_name="Keeper", environment=Environment(packages=packages))
    desk.create(ACTOR, options)
    desk.now += LONG
    desk.finish_one(worker)
    desk.told()
    desk.now += 2 * LONG
    desk.give_birth()
    ((told, actor, _, seconds),) = desk.told()
    assert (told, actor) == (stage, ACTOR) and 2 * LONG <= seconds.expected < 3 * LONG


def test_arguments_of_an_actor_are_told_from_its_process():
    desk = ActorNode(cpus=1)
    (argument,) = desk.submit(desk.new_spec())
    worker = desk.give_birth()
    desk.create(ACTOR, ActorOptions({}, class_name="Keeper"), deps=[argument])
    desk.now += LONG
    desk.finish_one(worker)
    assert (Stage.ARGUMENTS, ACTOR) in [record[:2] for record in desk.told()]


def test_records_of_an_actor_have_its_class():
    desk = ActorNode(cpus=1)
    desk.create(ACTOR, ActorOptions({}, class_name="Keeper"))
    desk.now += LONG
    desk.give_birth()
    assert [record.name for record in desk.records] == ["Keeper"]
