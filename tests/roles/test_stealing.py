"""Queued tasks move to nodes with nothing to do: whom a global scheduler asks, and what the one who is asked gives."""

import pytest

from tests.roles.desk import FUNCTION, JOB
from tests.roles.test_trips import OTHER, TASK, acknowledge, desk_with_a_peer
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.global_scheduler.placement import NodeLoad
from zray.roles.global_scheduler.stealing import PORTION_MAX, thefts
from zray.roles.local_scheduler.forwarding.stealing import PORTION_SECONDS, TRIPS_MAX
from zray.roles.local_scheduler.task import TaskState
from zray.roles.local_scheduler.worker import WorkerState
from zray.wire.drains import DrainNode
from zray.wire.gcs import NodeJoined
from zray.wire.scheduling import LoadReport, PlaceTask, SpillTask, StealTasks, TaskGivenBack, TaskPlaced, Thief
from zray.wire.task_spec import RESOURCE_UNIT, StoredValue, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import TaskResult, TasksFinished, Timing
from zray.wire.where import Where

THIEF = "n3/local"
CPUS = {"CPU": 2 * RESOURCE_UNIT}


def load(name, queue_count=0, mean=0.5, *, free=0, **more):
    fields = {"held": {}, **more}
    return NodeLoad(f"{name}/local", CPUS, {"CPU": free * RESOURCE_UNIT}, queue_count, mean, 1e9, **fields)


def asked(*loads, now=1.0):
    found = thefts(loads, 0.001, 1, now)
    return {victim.node[:2]: {thief.node[:2]: count for thief, count in orders} for victim, orders in found}


# --- the global scheduler ---


def test_an_idle_node_gets_what_it_does_soon():
    """Two that start at once, and as many for the half second after."""
    assert asked(load("n1", 60), load("n2", free=2)) == {"n1": {"n2": 4}}
    assert asked(load("n1", 60), load("n2", free=1)) == {"n1": {"n2": 3}}


def test_short_tasks_move_in_portions():
    assert asked(load("n1", 20_000, 0.001), load("n2", free=2)) == {"n1": {"n2": PORTION_MAX}}


def test_a_victim_keeps_its_share():
    assert asked(load("n1", 3, 10.0), load("n2", free=2)) == {"n1": {"n2": 2}}
    assert asked(load("n1", 1, 10.0), load("n2", free=2)) == {"n1": {"n2": 1}}


def test_nothing_moves_between_nodes_that_have_something_to_do():
    assert asked(load("n1", 60), load("n2", 4)) == {}


def test_a_short_wait_is_not_worth_a_trip():
    assert asked(load("n1", 20, 0.005), load("n2", free=2)) == {}


@pytest.mark.parametrize("more", [{"kind": "driver"}, {"is_draining": True}, {"held": CPUS}], ids=str)
def test_who_takes_nothing_is_no_thief(more):
    assert asked(load("n1", 60), load("n2", free=2, **more)) == {}


def test_what_is_on_its_way_to_a_thief_is_not_asked_for_again():
    loads = load("n1", 60), load("n2", free=2)
    assert asked(*loads, now=1.0) == {"n1": {"n2": 4}}
    assert asked(*loads, now=1.1) == {}
    loads[1].assign({"CPU": RESOURCE_UNIT})
    assert loads[1].coming_count == 3
    assert asked(*loads, now=1.5) == {"n1": {"n2": 3}}  # the others did not come


def test_who_had_nothing_to_give_does_not_stand_in_the_way_of_others():
    loads = load("n1", 90), load("n2", 60), load("n3", free=2)
    assert [list(asked(*loads, now=now)) for now in (1.0, 2.0, 3.0)] == [["n1"], ["n2"], ["n1"]]


def test_a_scheduler_looks_now_and_then_unless_it_is_there_to_be_compared_with():
    for policy, said in (("bottom_up", 1), ("central", 0), ("random", 0)):
        scheduler = GlobalScheduler("global", ["gcs-0"], policy=policy)
        for node in ("n1/local", "n2/local"):
            scheduler.handle("monitor", NodeJoined(node, CPUS), 0.0)
        report = LoadReport("n1/local", CPUS, {"CPU": 0}, 60, 0.5, 1e9)
        sent = [effect for now in (0.5, 0.55) for effect in scheduler.handle("n1/local", report, now)]
        assert [effect.message for effect in sent] == [StealTasks([Thief("n2/local", 4)])] * said


# --- who is asked ---


def desk_with_thief(count=0, **options):
    """One CPU, which is busy; and so many more tasks of ours behind."""
    desk = desk_with_a_peer()
    desk.scheduler.members.peers.clear()  # so that nothing goes up by itself
    spec = TaskSpec(b"busy".ljust(16), FUNCTION)
    desk.submit(spec, *[TaskSpec(number.to_bytes(16, "big"), FUNCTION, **options) for number in range(count)])
    worker = desk.give_birth()
    desk.scheduler.members.peers.update({THIEF: CPUS, OTHER: CPUS})
    desk.take_sent()
    return desk, worker


def steal(desk, count=10, thief=THIEF, **more):
    desk.now += 2 * PORTION_SECONDS
    desk.tell("global", StealTasks([Thief(thief, count, **more)]))


def gone(desk):
    """The numbers of the tasks that have gone up."""
    acknowledge(desk)
    return [message.spec.task_id[-1] for _, message in desk.take_sent(SpillTask)]


def test_the_last_ones_of_ours_go_up():
    desk, _ = desk_with_thief(5)
    steal(desk, 2)
    assert sorted(gone(desk)) == [3, 4]


def test_those_of_others_go_back_and_say_why():
    desk, _ = desk_with_thief()
    desk.tell("global", PlaceTask(TaskSpec(TASK, FUNCTION), OTHER, JOB, trip=2))
    steal(desk)
    assert desk.take_sent(TaskGivenBack) == [(OTHER, TaskGivenBack(TASK, 2, 0, THIEF))]
    assert TASK not in desk.scheduler.tasks


def test_who_has_been_up_often_stays():
    desk, _ = desk_with_thief()
    desk.tell("global", PlaceTask(TaskSpec(TASK, FUNCTION), OTHER, JOB, trip=TRIPS_MAX))
    steal(desk)
    assert not desk.take_sent(TaskGivenBack)


def test_one_portion_at_a_time():
    """Several global schedulers see the same."""
    desk, _ = desk_with_thief(9)
    steal(desk, 2)
    desk.tell("global-2", StealTasks([Thief(THIEF, 2)]))
    assert len(gone(desk)) == 2


@pytest.mark.parametrize(
    "where", [Where(node="local"), Where(node="n3", is_soft=True), Where(is_spread=True)], ids=["here", "there", "turn"]
)
def test_what_says_where_it_runs_stays(where):
    desk, _ = desk_with_thief()
    desk.tell(
        "global", PlaceTask(TaskSpec(TASK, FUNCTION, options=encode_options(TaskOptions(where=where))), OTHER, JOB)
    )
    steal(desk)
    assert not desk.take_sent(TaskGivenBack)


def test_what_the_thief_has_no_room_for_stays():
    desk, _ = desk_with_thief(5)
    steal(desk, held=CPUS)
    steal(desk, thief="n9/local")
    assert not gone(desk)


def test_nothing_goes_from_a_node_that_leaves():
    desk, _ = desk_with_thief(5)
    desk.tell("monitor", DrainNode())
    gone(desk)
    desk.scheduler.drain.send_away = lambda: None
    desk.submit(desk.new_spec())
    steal(desk)
    assert not gone(desk)


def test_what_takes_large_objects_of_this_node_stays():
    desk, _ = desk_with_thief()
    scheduler = desk.scheduler
    scheduler.load.wait_seconds = lambda: 4.0
    scheduler.load.bandwidth = 1e6
    for number in range(3):
        (dep,) = desk.submit(desk.new_spec())
        entry = scheduler.objects.entries[dep]
        task = TaskSpec(bytes([65 + number]) * 16, FUNCTION, deps=(dep,))
        desk.tell("global", PlaceTask(task, OTHER, JOB))
        entry.value = StoredValue(0, 0, 1_000_000)
        scheduler.lifecycle.argument_is_here(scheduler.tasks[task.task_id])
    steal(desk)
    # What comes in half of the time that it would wait here may go.
    assert len(desk.take_sent(TaskGivenBack)) == 2


def test_what_stands_behind_a_long_task_is_taken_back_and_goes():
    desk, worker = desk_with_thief(2)
    spec = desk.queues[worker].pop(0)
    desk.windows[worker] -= 1
    desk.tell(worker, TasksFinished([TaskResult(spec.task_id, [b"\x01"])], [Timing(FUNCTION, 1_000_000)]))
    assert desk.workers_in(WorkerState.LEASED) == [worker]
    assert desk.inflight(worker) == 2
    desk.take_sent()
    steal(desk)
    assert desk.inflight(worker) == 1
    steal(desk)
    assert len(gone(desk)) == 1


# --- whose task it is ---


def test_a_task_that_is_back_for_a_thief_goes_up_at_once():
    desk, _ = desk_with_thief(1)
    steal(desk)
    (task_id,) = [task_id for task_id in desk.scheduler.tasks if task_id[-1] == 0]
    gone(desk)
    desk.tell("global", TaskPlaced(task_id, OTHER, 1))
    desk.tell(OTHER, TaskGivenBack(task_id, 1, 0, THIEF))
    assert not desk.tasks_in(TaskState.PLACED, TaskState.ACCEPTED)
    acknowledge(desk)
    desk.tell(OTHER, TaskGivenBack(task_id, 1, 0, THIEF))  # a repeat
    assert desk.scheduler.tasks[task_id].trip == 2


def test_task_that_is_back_before_its_scheduler_has_named_the_node_goes_up_at_once():
    desk, _ = desk_with_thief(1)
    steal(desk)
    (task_id,) = [task_id for task_id in desk.scheduler.tasks if task_id[-1] == 0]
    gone(desk)
    desk.tell(OTHER, TaskGivenBack(task_id, 1, 0, THIEF))
    acknowledge(desk)
    desk.tell("global", TaskPlaced(task_id, OTHER, 1))  # of the attempt before
    assert desk.tasks_in(TaskState.SCHEDULER) == [task_id]


def test_a_task_that_is_back_for_us_runs_here():
    desk, worker = desk_with_thief(1)
    steal(desk)
    (task_id,) = [task_id for task_id in desk.scheduler.tasks if task_id[-1] == 0]
    gone(desk)
    desk.finish_one(worker)
    desk.tell(OTHER, TaskGivenBack(task_id, 1, 0, "local"))
    assert [spec.task_id for spec in desk.queues[worker]] == [task_id]
