"""Levels of a worker's stack: each row of their table is taken by messages."""

from itertools import count

from tests.roles.desk import DRIVER, FUNCTION, Desk
from tests.roles.test_lending import OneCpu, spec_of
from tests.roles.test_timed_waits import Timed
from zray.ids import return_id
from zray.roles.local_scheduler.tasks import pool
from zray.roles.local_scheduler.tasks.lending import TRANSITIONS, FrameState, Lending
from zray.wire.actors import CreateActor, StartActor
from zray.wire.objects import PutObject, PutObjects
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, StoredValue, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import AwaitRoom, CancelWait, StartTasks, WaitObjects

REQUESTS = count(20)
RUNS, WAITS, AWAITS_ROOM, LENDS, AWAITS_CPU, OWES = list(FrameState)[1:]


def running():
    return OneCpu()


def without_cpu():
    desk = Desk(cpus=1)
    (desk.first,) = desk.submit(spec_of(desk, 0))
    desk.worker = desk.give_birth()
    return desk


def waiting():
    desk = without_cpu()
    blocks(desk)
    return desk


def awaiting_room():
    desk = OneCpu()
    lacks_room(desk)
    return desk


def lending():
    return Timed()


def awaiting_cpu():
    desk = Timed()
    desk.tell(desk.worker, CancelWait(1))
    return desk


def owing():
    desk = Timed()
    desk.leave(1)
    return desk


def beside_an_actor():
    """An actor has taken the CPU that the worker has lent, for life."""
    desk = OneCpu()
    blocks(desk)
    desk.run_second()
    options = ActorOptions(resources={"CPU": RESOURCE_UNIT})
    desk.tell(DRIVER, CreateActor(TaskSpec(b"a" * 16, FUNCTION), options))
    while desk.starting:
        desk.give_birth()
    assert desk.take_sent(StartActor)
    return desk


def beside_a_generator():
    """A generator has the CPU that the worker has lent, and may have no end."""
    desk = OneCpu()
    blocks(desk)
    desk.run_second()
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(is_generator=True))
    desk.submit(spec)
    assert any(spec in queue for queue in desk.queues.values())
    return desk


def blocks(desk):
    desk.tell(desk.worker, WaitObjects(11, desk.submit(desk.new_spec(deps=(desk.first,))), 1, False, True))


def lacks_room(desk):
    desk.tell(desk.worker, AwaitRoom(next(REQUESTS)))


def over(desk):
    desk.tell(desk.worker, CancelWait(desk.top(desk.worker).wait.request))


def goes_on(desk):
    desk.tell(desk.worker, CancelWait(desk.top(desk.worker).wait.request, True))


def dies(desk):
    desk.kill(desk.worker)


def taker_comes(desk):
    """A task that takes what lies in the store is ready, and may have the CPU of who waits for room there."""
    stored = return_id(b"\x66" * 16, 1)
    desk.tell(DRIVER, PutObjects([PutObject(stored, StoredValue(0, 0, 1 << 20))]))
    desk.submit(desk.new_spec(deps=(stored,)))


def child_ends(desk):
    desk.end_child()


ROWS = [
    (RUNS, running, {blocks: LENDS, lacks_room: AWAITS_ROOM, dies: None}),
    (RUNS, without_cpu, {blocks: WAITS, lacks_room: WAITS, dies: None}),
    (WAITS, waiting, {blocks: WAITS, lacks_room: WAITS, over: RUNS, goes_on: RUNS, dies: None}),
    (AWAITS_ROOM, awaiting_room, {blocks: LENDS, lacks_room: AWAITS_ROOM, taker_comes: LENDS, over: RUNS}),
    (AWAITS_ROOM, awaiting_room, {goes_on: RUNS, dies: None}),
    (LENDS, lending, {blocks: LENDS, lacks_room: LENDS, over: AWAITS_CPU, goes_on: OWES, dies: None}),
    (LENDS, beside_an_actor, {over: OWES}),
    (LENDS, beside_a_generator, {over: OWES}),
    (AWAITS_CPU, awaiting_cpu, {blocks: LENDS, lacks_room: LENDS, child_ends: RUNS, goes_on: OWES, dies: None}),
    (OWES, owing, {blocks: LENDS, lacks_room: LENDS, child_ends: RUNS, dies: None}),
]


def test_each_row_is_taken(monkeypatch):
    taken, happened = set(), Lending._happened

    def record(self, worker, frame, event):
        taken.add((frame.state, event))
        happened(self, worker, frame, event)

    monkeypatch.setattr(Lending, "_happened", record)
    for state, make, events in ROWS:
        for event, then in events.items():
            desk = make()
            frame = desk.top(desk.worker)
            assert frame.state == state
            event(desk)
            assert frame.state == (then or FrameState.ENDED), f"{state.name}, {event.__name__}"
            assert then is None or desk.top(desk.worker) is frame
    assert taken == set(TRANSITIONS)


def test_level_that_awaits_room_inside_a_wait_that_is_over_still_has_its_cpu_for_takers(monkeypatch):
    monkeypatch.setattr(pool, "LIMITED_MAX", 0)
    desk = OneCpu()
    desk.scheduler.pool.count_max = 1
    desk.wait(1, desk.second)
    (message,) = [message for _, message in desk.take_sent(StartTasks)]
    assert message.nested
    lacks_room(desk)
    desk.tell(desk.worker, CancelWait(1))
    assert desk.top(desk.worker).state == AWAITS_ROOM
    taker_comes(desk)
    assert desk.top(desk.worker).state == LENDS


def test_wait_of_a_signals_handler_inside_one_for_room_lends_the_cpu_once():
    desk = awaiting_room()
    desk.wait(1, desk.second)
    desk.give_birth()
    taker_comes(desk)
    assert desk.free() == 0 and desk.top(desk.worker).state == LENDS
    desk.scheduler.check_everything()
