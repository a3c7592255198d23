"""How fast tasks go up: a few in each turn, and not many more than the others can run soon."""

from tests.roles.desk import DRIVER, FUNCTION, JOB, Desk
from tests.roles.test_trips import OTHER, acknowledge
from zray.roles.effects import ProcessLeft
from zray.roles.local_scheduler.forwarding.departures import (
    AWAY_MIN,
    LOOK_AGAIN_SECONDS,
    PATIENCE_SECONDS,
    TASKS_PER_TURN,
)
from zray.roles.local_scheduler.task import TaskState
from zray.wire.gcs import NodeJoined
from zray.wire.scheduling import PlaceTask, SpillTask, TaskAccepted, TaskDone, TaskPlaced
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, TaskSpec, encode_options


def desk_with_a_peer(cpus=1):
    desk = Desk(cpus=1)
    desk.scheduler.is_embedded = False
    desk.tell("monitor", NodeJoined(OTHER, {"CPU": cpus * RESOURCE_UNIT}))
    desk.scheduler.dispatch.mean_us[FUNCTION] = 10_000_000  # so long that the horizon adds nothing
    return desk


def gone_up(desk):
    """Messages that say so, once the shard has acknowledged what leaves."""
    acknowledge(desk)
    return [message for _, message in desk.take_sent(SpillTask)]


def look_again(desk, seconds=LOOK_AGAIN_SECONDS):
    """What goes up in the turns that follow, so much later."""
    desk.now += seconds
    desk.timer("Departures.let_more_go")
    found = gone_up(desk)
    while desk.tasks_in(TaskState.THROTTLED):
        desk.timer("Departures.depart_some")
        found += gone_up(desk)
    return found


def submit(desk, count, **options):
    """Tasks that nobody has a worker for."""
    blob = encode_options(TaskOptions(**options)) if options else b""
    specs = [desk.new_spec() for _ in range(count)]
    desk.submit(*[TaskSpec(spec.task_id, FUNCTION, options=blob) for spec in specs])


def test_a_flood_goes_up_in_many_turns():
    """Or heartbeats would wait for all of it."""
    desk = desk_with_a_peer(cpus=1_000)
    submit(desk, 4 * TASKS_PER_TURN)
    counts = [len(gone_up(desk))]
    while sum(counts) < 4 * TASKS_PER_TURN - 1 and len(counts) < 10:
        counts.append(len(look_again(desk)))
    assert max(counts) == TASKS_PER_TURN and len(counts) == 4, counts


def test_what_cannot_run_here_leaves_a_few_in_each_turn():
    desk = desk_with_a_peer()
    there = {"there": RESOURCE_UNIT}
    desk.tell("monitor", NodeJoined("n3/local", {"there": 1_000 * RESOURCE_UNIT}))
    submit(desk, TASKS_PER_TURN + 10, resources=there)
    assert len(gone_up(desk)) == TASKS_PER_TURN
    desk.now += 1.0
    desk.timer("Departures.depart_some")
    assert len(gone_up(desk)) == 10


def test_what_is_over_before_its_turn_does_not_leave():
    desk = desk_with_a_peer()
    desk.tell("monitor", NodeJoined("n3/local", {"there": 1_000 * RESOURCE_UNIT}))
    submit(desk, TASKS_PER_TURN + 10, resources={"there": RESOURCE_UNIT})
    gone_up(desk)
    desk.tell("host", ProcessLeft(DRIVER, "exit code 0"))
    desk.timer("Departures.depart_some")
    assert not gone_up(desk) and not desk.tasks_in(TaskState.THROTTLED)


def test_what_the_others_cannot_run_soon_stays_here():
    desk = desk_with_a_peer(cpus=4)
    submit(desk, 1_000)
    assert len(gone_up(desk)) == AWAY_MIN + 4
    assert not look_again(desk)


def test_when_some_are_done_others_go():
    desk = desk_with_a_peer(cpus=4)
    submit(desk, 1_000)
    for message in gone_up(desk)[:5]:
        task_id = message.spec.task_id
        desk.tell("global", TaskPlaced(task_id, OTHER, 1))
        desk.tell(OTHER, TaskAccepted(task_id, 1))
        desk.tell(OTHER, TaskDone(task_id, 1, [b"\x07"]))
    assert len(look_again(desk)) == 5


def test_those_that_were_placed_here_are_passed_over():
    """They stay, and do not keep others from going."""
    desk = desk_with_a_peer(cpus=4)
    submit(desk, 20)
    for number in range(10):
        desk.tell("global", PlaceTask(TaskSpec(bytes([200 + number]) * 16, FUNCTION), OTHER, JOB))
    assert {message.origin for message in gone_up(desk)} == {"local"}
    assert desk.scheduler.dispatch.ready_count == 10


def test_they_are_not_looked_through_in_each_turn():
    """A node whose whole queue others have placed has nothing to look for; until a task of its own is behind them."""
    desk = desk_with_a_peer(cpus=4)
    for number in range(10):
        desk.tell("global", PlaceTask(TaskSpec(bytes([200 + number]) * 16, FUNCTION), OTHER, JOB))
    (queue,) = desk.scheduler.dispatch.queues
    assert queue.stays_until > desk.now and not desk.scheduler.departures.looks_again
    first = queue.stays_until
    desk.tell("global", PlaceTask(TaskSpec(b"z" * 16, FUNCTION), OTHER, JOB))
    assert queue.stays_until == first, "it was looked through once more"
    submit(desk, 3)
    assert len(gone_up(desk)) == 3


def test_more_go_when_those_that_are_away_do_not_move():
    """They may wait for one that is still here."""
    desk = desk_with_a_peer(cpus=4)
    submit(desk, 1_000)
    gone_up(desk)
    assert not look_again(desk, PATIENCE_SECONDS / 2)
    counts = [len(look_again(desk, PATIENCE_SECONDS)) for _ in range(3)]
    assert counts == [AWAY_MIN, AWAY_MIN, 2 * AWAY_MIN]
