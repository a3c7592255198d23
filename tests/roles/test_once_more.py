"""Calls on ordinary actors that have ended, and are made once more: what they returned went with a node."""

import pytest
from msgspec.structs import replace

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER, Acknowledged
from zray.exceptions import decode_system_error
from zray.ids import FIRST_RETURN, return_id
from zray.wire.actors import CallResult, CallsFinished, ForwardCalls, ResultsHeld
from zray.wire.gcs import (
    CannotRebuild,
    HoldAtNode,
    NodeLost,
    RebuildObject,
    RecordTasks,
    ReleaseAtNode,
)
from zray.wire.homes import ActorLocated, LocateActor
from zray.wire.objects import HoldObjects, ReleaseObjects
from zray.wire.task_spec import ActorOptions, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import ObjectsReady, WaitObjects

N2, N3 = "n2/local", "n3/local"
ACTOR, TASK = b"a" * 16, b"t" * 16
OBJECT, SECOND = return_id(TASK, 1), return_id(TASK, 2)
HANDLE = ACTOR + FIRST_RETURN


def call(*, deps=(), caller=b"", **options):
    options = encode_options(TaskOptions(resources={}, actor_id=ACTOR, method="m", **options))
    return TaskSpec(TASK, b"", deps=tuple(deps), options=options, caller=caller)


class LargeDesk(Acknowledged, ActorDesk):
    def __init__(self):
        super().__init__()
        self.join(N2, N3)


@pytest.fixture
def desk():
    return LargeDesk()


def forwarded(said):
    return [(target, message) for target, message in said if type(message) is ForwardCalls]


def errors(said):
    """What the driver gets, by object."""
    ready = [message for _, message in said if type(message) is ObjectsReady]
    return {object_id: decode_system_error(value) for message in ready for object_id, value in message.objects}


def lost_and_wanted(desk, spec, *object_ids):
    """The driver has refs on what it returned, and the shard's order comes."""
    desk.tell(DRIVER, HoldObjects(list(object_ids)))
    desk.tell(DRIVER, WaitObjects(1, list(object_ids), 1, True, False))
    desk.heard()
    desk.tell("gcs-0", RebuildObject(object_ids[0], spec))
    return desk.heard()


def test_the_call_goes_to_where_the_actor_is_now_and_has_used_up_an_attempt(desk):
    """Nobody here had a handle on it: one is held until the call has ended."""
    lost_and_wanted(desk, call(max_retries=-1), OBJECT)
    assert LocateActor(ACTOR, "local", False) in desk.told
    assert any(type(message) is HoldAtNode and HANDLE in message.object_ids for message in desk.told)
    desk.tell("gcs-0", ActorLocated(ACTOR, N3))
    ((target, message),) = forwarded(desk.heard())
    (again,) = message.specs
    assert target == N3 and again.task_id == TASK and message.attempts == [1] and not message.answered
    assert again.caller == TASK  # in no order among others
    desk.tell("gcs-0", RebuildObject(OBJECT, call(max_retries=-1)))  # to whoever has it in hand
    assert not forwarded(desk.heard())
    desk.tell(N3, CallsFinished([CallResult(TASK, [b"\1small"])]))
    desk.heard()
    assert desk.scheduler.objects.entries[OBJECT].value == b"\1small"
    assert not desk.scheduler.tasks
    desk.tell(DRIVER, ReleaseObjects([OBJECT]))
    desk.heard()
    assert any(type(message) is ReleaseAtNode and HANDLE in message.object_ids for message in desk.told)


def test_it_is_repeated_only_as_often_as_it_may_be(desk):
    """The call that ended is the first, this is the second."""
    lost_and_wanted(desk, call(max_retries=1), OBJECT)
    desk.tell("gcs-0", ActorLocated(ACTOR, N3))
    assert forwarded(desk.heard())
    desk.tell("monitor", NodeLost(N3, "killed"))
    desk.tell("gcs-0", ActorLocated(ACTOR, N2))
    found = errors(desk.heard())
    assert type(found[OBJECT]).__name__ == "ActorUnavailableError"


def test_an_actor_that_is_gone_for_good_says_so(desk):
    lost_and_wanted(desk, call(max_retries=-1), OBJECT)
    desk.tell("gcs-0", ActorLocated(ACTOR, "", N2))
    found = errors(desk.heard())
    assert type(found[OBJECT]).__name__ == "ActorDiedError" and "its node n2 is lost" in str(found[OBJECT])
    assert not desk.scheduler.tasks and not desk.scheduler.routes.by_actor


def test_what_it_returned_beside_and_nobody_here_wants_is_held_until_it_has_ended(desk):
    lost_and_wanted(desk, call(max_retries=-1, num_returns=2), OBJECT)
    desk.tell("gcs-0", ActorLocated(ACTOR, N3))
    desk.heard()
    desk.told.clear()
    desk.tell(N3, CallsFinished([CallResult(TASK, [200_000, 200_000])]))
    said = desk.heard()
    (held,) = [message for target, message in said if type(message) is ResultsHeld]
    assert set(held.object_ids) == {OBJECT, SECOND}
    released = [name for message in desk.told if type(message) is ReleaseAtNode for name in message.object_ids]
    assert released.count(SECOND) == 1 and OBJECT not in released


def test_what_lies_elsewhere_is_recorded_before_its_node_may_forget_it(desk):
    """A young call is not recorded yet; what it takes goes first."""
    desk.tell(DRIVER, HoldObjects([HANDLE]))
    for options, is_recorded in (({"max_retries": -1}, True), ({"max_retries": 0}, False)):
        spec = call(**options)
        desk.submit(spec)
        desk.tell("gcs-0", ActorLocated(ACTOR, N3))
        assert forwarded(desk.heard())
        desk.told.clear()
        desk.tell(N3, CallsFinished([CallResult(TASK, [200_000])]))
        assert any(type(message) is ResultsHeld for _, message in desk.heard())
        recorded = [spec for message in desk.told if type(message) is RecordTasks for spec in message.specs]
        assert (spec in recorded) == is_recorded
        desk.tell(DRIVER, ReleaseObjects([OBJECT]))
        desk.heard()


def test_a_task_that_may_run_once_only_has_run_and_is_an_error_now(desk):
    """Its node is lost before the shard has heard of what it returned there, and takes it to be in our hands still."""
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(max_retries=0, name="f"))
    object_id = return_id(spec.task_id, 1)
    found = errors(lost_and_wanted(desk, spec, object_id))
    assert type(found[object_id]).__name__ == "ObjectReconstructionFailedError"
    assert "its task 'f' may run once only" in str(found[object_id])
    assert CannotRebuild("local", object_id) in desk.told
    assert not desk.scheduler.tasks


def run_here(desk, **options):
    """An actor of this node whose call, the first one, is under way.  The worker and the call."""
    desk.create(ACTOR, ActorOptions(resources={}, **options))
    desk.settle()
    (worker,) = desk.actors
    running = desk.new_call(b"driver", ACTOR)
    desk.submit(running)
    assert desk.begin_call(worker) is running
    desk.heard()
    return worker, running


def asked(desk, origin):
    """What it had returned is to be made once more, by order of the shard or of another node.  What is said of it."""
    spec = call(max_retries=-1)
    if origin:
        desk.tell(origin, ForwardCalls([replace(spec, caller=TASK)], attempts=[1]))
    else:
        desk.tell("gcs-0", RebuildObject(OBJECT, spec))
    return desk.heard()


@pytest.mark.parametrize("origin", ["", N2])
def test_one_that_waits_itself_for_what_it_had_returned_is_told_that_it_is_lost(desk, origin):
    """It would wait for ever: it runs one call after the other."""
    worker, running = run_here(desk)
    desk.tell(worker, HoldObjects([OBJECT]))
    desk.wait(worker, running, 1, [OBJECT])
    desk.heard()
    said = asked(desk, origin)
    (value,) = [value for _, message in said if type(message) is ObjectsReady for _, value in message.objects]
    error = decode_system_error(value)
    assert type(error).__name__ == "ObjectReconstructionFailedError" and "the actor itself waits" in str(error)
    assert not desk.can_begin(worker)


@pytest.mark.parametrize("origin", ["", N2])
def test_it_waits_behind_no_other_call_of_its_former_caller(desk, origin):
    """The first one in that line waits for what it makes."""
    worker, running = run_here(desk)
    desk.tell(DRIVER, HoldObjects([OBJECT]))
    behind = TaskSpec(TASK[:10] + b"behind", b"", deps=(OBJECT,), options=call().options)
    desk.submit(behind)
    asked(desk, origin)
    desk.end_call(worker, running)
    again = desk.begin_call(worker)
    assert again.task_id == TASK
