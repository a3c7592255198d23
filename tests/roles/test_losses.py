"""Lost nodes: what a shard has made again, what a local scheduler takes back."""

import pytest

from tests.roles.desk import DRIVER, JOB, Desk
from zray.exceptions import ObjectLostError, ObjectReconstructionFailedError, decode_system_error
from zray.ids import put_id, return_id
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard
from zray.wire.chain import LineageFound
from zray.wire.drains import TakeCopies
from zray.wire.gcs import (
    AddLocations,
    CannotRebuild,
    FetchFunctionReply,
    HoldAtNode,
    NodeLost,
    ObjectLocated,
    ObjectLost,
    RebuildObject,
    RecordTasks,
    ReleaseAtNode,
    SubscribeObject,
)
from zray.wire.objects import HoldObjects, ObjectFetched, ReleaseObjects, UnpinObjects
from zray.wire.scheduling import JobEnded, JobFacts, PlaceTask, SpillTask, TaskAccepted, TaskPlaced
from zray.wire.task_spec import RESOURCE_UNIT, StoredValue, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import Function, ObjectsReady, SubmitTasks, TaskResult, TasksFinished, WaitObjects

N1, N2, N3 = "n1/local", "n2/local", "n3/local"
TASK = b"t" * 16
OBJECT, PUT = return_id(TASK, 1), put_id(TASK, 0)
SPEC = TaskSpec(TASK, b"f" * 16)
ACTOR = b"a" * 16


def call(**options):
    return TaskSpec(TASK, b"", options=encode_options(TaskOptions(actor_id=ACTOR, method="add", **options)))


CALL, ONCE, LOGGED = call(), call(max_retries=0), call(max_retries=-1, is_logged=True)


def sent(role, sender, message):
    effects = role.handle(sender, message, 1.0)
    return [(effect.destination, effect.message) for effect in effects if type(effect) is Send]


# --- the shard ---


@pytest.fixture
def shard():
    return GcsShard("gcs-0")


def lose(shard, node):
    return sent(shard, "monitor", NodeLost(node, "silent"))


def test_what_somebody_waits_for_is_made_again_once(shard):
    sent(shard, N1, RecordTasks(N1, [SPEC]))
    sent(shard, N2, AddLocations(N2, [(OBJECT, 9)]))
    sent(shard, N3, HoldAtNode(N3, [OBJECT], 0))
    sent(shard, N1, SubscribeObject(N1, OBJECT))
    assert lose(shard, N2) == []  # nobody waits
    assert sent(shard, N3, SubscribeObject(N3, OBJECT)) == [(N3, RebuildObject(OBJECT, SPEC, 0, True))]
    # The one that makes it is asked, not another one.
    assert sent(shard, N1, SubscribeObject(N1, OBJECT)) == [(N3, RebuildObject(OBJECT, SPEC, 1))]
    assert lose(shard, N3) == [(N1, RebuildObject(OBJECT, SPEC, 1, True))]


def test_who_has_the_task_in_hand_is_asked_first(shard):
    sent(shard, N1, RecordTasks(N1, [SPEC]))
    sent(shard, N3, HoldAtNode(N3, [OBJECT], 0))
    lose(shard, N2)
    assert sent(shard, N3, SubscribeObject(N3, OBJECT)) == [(N1, RebuildObject(OBJECT, SPEC))]
    assert sent(shard, N1, CannotRebuild(N1, OBJECT)) == [(N3, RebuildObject(OBJECT, SPEC, 0, True))]
    assert sent(shard, N3, CannotRebuild(N3, OBJECT)) == []


def test_when_its_creators_node_is_dead_a_holder_makes_it(shard):
    sent(shard, N2, RecordTasks(N2, [SPEC]))
    sent(shard, N1, HoldAtNode(N1, [OBJECT], 0))
    sent(shard, N1, SubscribeObject(N1, OBJECT))
    assert lose(shard, N2) == [(N1, RebuildObject(OBJECT, SPEC, 0, True))]


def test_a_put_that_is_gone_is_lost_and_so_is_what_may_run_once_only(shard):
    once = TaskSpec(TASK, b"f" * 16, options=encode_options(TaskOptions(max_retries=0)))
    sent(shard, N1, RecordTasks(N1, [once]))
    for object_id in (PUT, OBJECT):
        sent(shard, N1, HoldAtNode(N1, [object_id], 0))
        sent(shard, N2, AddLocations(N2, [(object_id, 9)]))
    lose(shard, N2)
    for object_id, word, has_task in ((PUT, "was put", False), (OBJECT, "once only", True)):
        ((target, message),) = sent(shard, N1, SubscribeObject(N1, object_id))
        assert (target, type(message)) == (N1, ObjectLost)
        assert word in message.reason and object_id.hex() in message.reason
        assert message.has_task is has_task


# What a task has put that is in hand, and is run again: its node is lost, N1 has it in hand, N3 waits for the value.


@pytest.fixture
def bereft(shard):
    sent(shard, N1, RecordTasks(N1, [SPEC]))
    for node in (N2, N3):
        sent(shard, node, HoldAtNode(node, [PUT], 0))
    sent(shard, N2, AddLocations(N2, [(PUT, 9)]))
    lose(shard, N2)
    assert sent(shard, N3, SubscribeObject(N3, PUT)) == [(N1, RebuildObject(PUT, SPEC))]
    return shard


def test_what_a_task_puts_that_is_in_hand_may_come_again(bereft):
    ((target, found),) = sent(bereft, N1, AddLocations(N1, [(PUT, 9)]))
    assert (target, type(found)) == (N3, ObjectLocated)


@pytest.mark.parametrize(
    "message",
    [
        CannotRebuild(N1, PUT),
        CannotRebuild(N1, OBJECT),
        AddLocations(N1, [(OBJECT, 9)]),
        ReleaseAtNode(N1, [OBJECT]),
        NodeLost(N1, "silent"),
    ],
    ids=["not in hand", "not to be made", "over", "let go", "lost too"],
)
def test_when_its_task_is_over_it_comes_no_more(bereft, message):
    lost = [(target, it) for target, it in sent(bereft, N1, message) if type(it) is ObjectLost]
    assert [(target, "was put" in it.reason, it.has_task) for target, it in lost] == [(N3, True, False)]


def test_what_has_lost_the_record_of_its_task_could_have_been_made_again(shard):
    """The head of a chain says so where it is not in its store; or nobody had told the shard of it."""
    sent(shard, N1, HoldAtNode(N1, [OBJECT], 0))
    sent(shard, N2, AddLocations(N2, [(OBJECT, 9)]))
    lose(shard, N2)
    ((_, message),) = sent(shard, N1, SubscribeObject(N1, OBJECT))
    assert "the record of its task" in message.reason and message.has_task
    sent(shard, N1, HoldAtNode(N1, [OBJECT], 0))
    shard.is_chained = True
    sent(shard, N1, RecordTasks(N1, [SPEC]))
    assert sent(shard, N1, SubscribeObject(N1, OBJECT)) == []
    found = LineageFound(OBJECT, None, "The record of its task cannot be read: no disk")
    (message,) = [effect.message for effect in shard.lineage_found(found, 1.0)]
    assert "cannot be read" in message.reason and message.has_task


def test_an_answer_is_made_again_as_what_a_task_returns_is(shard):
    sent(shard, N1, RecordTasks(N1, [CALL]))
    sent(shard, N3, HoldAtNode(N3, [OBJECT], 0))
    sent(shard, N2, AddLocations(N2, [(OBJECT, 9)]))
    lose(shard, N2)
    assert sent(shard, N3, SubscribeObject(N3, OBJECT)) == [(N3, RebuildObject(OBJECT, CALL, 0, True))]
    assert sent(shard, N1, SubscribeObject(N1, OBJECT)) == [(N3, RebuildObject(OBJECT, CALL, 1))]
    assert sent(shard, N3, CannotRebuild(N3, OBJECT, True)) == [(N1, RebuildObject(OBJECT, CALL, 0, True))]


@pytest.mark.parametrize("once", [ONCE, LOGGED])
def test_the_answer_of_a_call_that_is_under_way_is_not_lost_with_any_node(shard, once):
    """Its caller's node has it in hand; without one, nobody asks the actor again."""
    sent(shard, N1, RecordTasks(N1, [once]))
    sent(shard, N3, HoldAtNode(N3, [OBJECT], 0))
    lose(shard, N2)
    assert sent(shard, N3, SubscribeObject(N3, OBJECT)) == [(N1, RebuildObject(OBJECT, once))]
    ((target, message),) = sent(shard, N1, CannotRebuild(N1, OBJECT))
    assert (target, type(message)) == (N3, ObjectLost) and "an actor's answer" in message.reason
    ((target, message),) = sent(shard, N3, SubscribeObject(N3, OBJECT))
    assert (target, type(message)) == (N3, ObjectLost)


# --- the local scheduler ---


@pytest.fixture
def desk():
    """With one CPU that is busy, and a peer."""
    desk = Desk(cpus=1)
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N2] = {"CPU": RESOURCE_UNIT, "disk": RESOURCE_UNIT}
    return desk


def spilled(desk, **options):
    """A task that N2 runs for this node."""
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(resources={"disk": RESOURCE_UNIT}, **options))
    desk.submit(spec)
    acknowledge(desk)
    desk.tell("global", TaskPlaced(spec.task_id, N2))
    return spec


def acknowledge(desk):
    from zray.wire.gcs import RecordTasksReply

    for target, message in desk.take_sent():
        if type(message) is RecordTasks and message.request:
            desk.tell(target, RecordTasksReply(message.request))


def test_a_task_of_a_lost_node_goes_up_again_as_often_as_it_may(desk):
    spec = spilled(desk, max_retries=1)
    desk.take_sent()
    desk.tell("monitor", NodeLost(N2, "killed"))
    acknowledge(desk)
    assert [message.spec for _, message in desk.take_sent(SpillTask)] == [spec]
    desk.tell("global", TaskPlaced(spec.task_id, N3, 2))
    desk.tell("monitor", NodeLost(N3, "killed too"))
    ((_, ready),) = desk.take_sent(ObjectsReady)
    ((_, value),) = ready.objects
    error = decode_system_error(value)
    assert type(error).__name__ == "NodeDiedError" and "2 attempts" in str(error) and "killed too" in str(error)


def test_a_task_placed_on_a_node_that_was_lost_before_uses_up_no_attempt(desk):
    desk.tell("monitor", NodeLost(N3, "killed"))
    spec = spilled(desk, max_retries=0)
    desk.take_sent()
    desk.tell("global", TaskPlaced(spec.task_id, N3, 1))
    acknowledge(desk)
    assert [message.spec for _, message in desk.take_sent(SpillTask)] == [spec]


def test_with_the_drivers_node_its_jobs_end(desk):
    spec = desk.new_spec()
    desk.tell("global", PlaceTask(spec, N2, b"job-0002", JobFacts(home=N2)))
    worker = desk.give_birth()
    assert desk.queues[worker] == [spec]
    desk.tell("monitor", NodeLost(N2, "killed"))
    assert desk.killed == [worker]
    assert set(desk.scheduler.jobs) == {JOB}
    desk.tell("global", PlaceTask(desk.new_spec(), N3, b"job-0002", JobFacts(home=N2)))
    assert set(desk.scheduler.jobs) == {JOB}


def test_an_order_to_rebuild_what_nobody_here_wants_is_declined(desk):
    desk.tell("gcs-0", RebuildObject(OBJECT, SPEC))
    assert desk.take_sent(CannotRebuild) == [("gcs-0", CannotRebuild("local", OBJECT))]


def test_who_has_a_task_in_hand_waits_for_what_that_puts_again(desk):
    spec = spilled(desk)
    put = put_id(spec.task_id, 0)
    desk.tell("gcs-0", RebuildObject(put, spec))
    assert not desk.take_sent(CannotRebuild)
    desk.tell("gcs-0", RebuildObject(PUT, SPEC))
    assert desk.take_sent(CannotRebuild) == [("gcs-0", CannotRebuild("local", PUT))]


def test_what_had_been_asked_for_then_is_asked_for_anew(desk):
    """The shard forgets who declines: it answers no more."""
    desk.tell(N2, TakeCopies(1, [(OBJECT, 9)]))  # no program here wants it
    entry = desk.scheduler.objects.entries[OBJECT]
    desk.scheduler.remote.subscribe(entry)
    desk.tell("gcs-0", RebuildObject(OBJECT, SPEC))
    assert CannotRebuild in {type(message) for _, message in desk.take_sent()}
    desk.scheduler.remote.subscribe(entry)
    desk.tell(DRIVER, HoldObjects([PUT]))  # a turn's end
    assert desk.take_sent(SubscribeObject) == [("gcs-0", SubscribeObject("local", OBJECT))]


def test_what_was_asked_for_and_was_made_here_is_asked_for_no_more_when_it_is_let_go_of(desk):
    """The shard answers no node that does not hold it."""
    desk.tell(DRIVER, HoldObjects([OBJECT]))
    desk.tell(DRIVER, WaitObjects(1, [OBJECT], 1, True, False))
    assert desk.take_sent(SubscribeObject)
    desk.tell("global", PlaceTask(SPEC, N2, JOB))
    desk.tell("gcs-0", FetchFunctionReply(Function(b"f" * 16, "f", b"code")))
    desk.run_all()
    assert desk.take_sent(ObjectsReady)
    desk.tell(DRIVER, ReleaseObjects([OBJECT]))
    assert desk.take_sent(ReleaseAtNode) == [("gcs-0", ReleaseAtNode("local", [OBJECT]))]
    assert OBJECT in desk.scheduler.objects.entries and not desk.scheduler.remote.subscribed


def test_what_others_wait_for_is_announced_after_the_record_of_who_makes_what_is_inside(desk):
    """A parent that runs again elsewhere has the same child: nobody here had given a ref on it away."""
    outer, inner = desk.new_spec(), desk.new_spec()
    (ref,) = desk.submit(outer)
    worker = desk.give_birth()
    desk.tell(worker, SubmitTasks([inner]))
    desk.windows[worker] -= 1
    contained = (return_id(inner.task_id, 1),)
    desk.tell(worker, TasksFinished([TaskResult(outer.task_id, [b"\1"], [contained])]))
    desk.take_sent()
    desk.tell("gcs-0", RebuildObject(ref, outer))
    said = [message for target, message in desk.take_sent() if target == "gcs-0"]
    recorded = [spec for message in said if type(message) is RecordTasks for spec in message.specs]
    assert inner in recorded and type(said[-1]) is AddLocations
    assert [object_id for object_id, _ in said[-1].objects] == [ref]


def test_a_task_that_went_up_after_its_value_had_come_is_over_when_that_is_somewhere(desk):
    """It waited for its code as it was to be made again here; a copy was found meanwhile."""
    options = encode_options(TaskOptions(resources={"disk": RESOURCE_UNIT}))
    desk.tell(DRIVER, HoldObjects([OBJECT]))
    desk.tell(DRIVER, WaitObjects(1, [OBJECT], 1, True, False))
    desk.tell("gcs-0", RebuildObject(OBJECT, TaskSpec(TASK, b"f" * 16, options=options)))
    desk.tell("gcs-0", ObjectLocated(OBJECT, 200_000, [N3]))
    desk.tell("objects", ObjectFetched(OBJECT, StoredValue(0, 0, 200_000)))
    desk.tell("gcs-0", FetchFunctionReply(Function(b"f" * 16, "f", b"code")))
    acknowledge(desk)
    desk.tell(N2, TaskAccepted(TASK, 1))
    assert desk.take_sent(SubscribeObject)
    desk.tell("gcs-0", ObjectLocated(OBJECT, 200_000, [N3, N2]))
    assert not desk.scheduler.tasks and not desk.scheduler.task_states.by_peer
    desk.tell(DRIVER, UnpinObjects([(OBJECT, 1)]))
    desk.tell(DRIVER, ReleaseObjects([OBJECT]))
    assert desk.take_sent(ReleaseAtNode) == [("gcs-0", ReleaseAtNode("local", [OBJECT]))]


@pytest.mark.parametrize("once", [ONCE, LOGGED])
def test_a_call_that_is_not_under_way_is_not_run_again_where_that_is_not_allowed(desk, once):
    """Whoever waits for its answer here is told, and the shard, for others."""
    desk.tell(DRIVER, HoldObjects([OBJECT]))
    desk.take_sent()
    desk.tell("gcs-0", RebuildObject(OBJECT, once))
    said = desk.take_sent()
    assert ("gcs-0", CannotRebuild("local", OBJECT)) in said and not desk.scheduler.tasks
    (ready,) = [message for _, message in said if type(message) is ObjectsReady]
    error = decode_system_error(ready.objects[0][1])
    assert type(error) is ObjectReconstructionFailedError and "an actor's answer" in str(error)


@pytest.mark.parametrize(
    "object_id, has_task, kind",
    [(PUT, False, ObjectLostError), (OBJECT, False, ObjectLostError), (OBJECT, True, ObjectReconstructionFailedError)],
)
def test_what_is_lost_is_an_error_until_its_task_runs_again(desk, object_id, has_task, kind):
    desk.tell(DRIVER, HoldObjects([object_id]))
    desk.tell("gcs-0", ObjectLost(object_id, "it is gone", has_task))
    ((_, ready),) = desk.take_sent(ObjectsReady)
    error = decode_system_error(ready.objects[0][1])
    assert type(error) is kind and "it is gone" in str(error)
    assert not desk.take_sent(AddLocations)


def test_nobodys_word_is_awaited_about_what_is_lost(desk):
    """What stands in its place is no copy: the shard tells only those that have one when all have let go."""
    desk.tell(DRIVER, HoldObjects([PUT]))
    desk.tell("gcs-0", ObjectLost(PUT, "it is gone"))
    desk.tell(DRIVER, ReleaseObjects([PUT]))
    assert PUT not in desk.scheduler.objects.entries
    assert desk.take_sent(ReleaseAtNode) == [("gcs-0", ReleaseAtNode("local", [PUT]))]


def test_a_task_that_comes_after_the_end_of_its_job_is_not_run(desk):
    """It was on its way when the others were told.  A detached actor's is: that goes on."""
    late, facts = desk.new_spec(), JobFacts(home=N2)
    desk.tell(N2, JobEnded(b"job-0002"))
    desk.tell("global", PlaceTask(late, N3, b"job-0002", facts))
    assert set(desk.scheduler.jobs) == {JOB} and late.task_id not in desk.scheduler.tasks
    heirs = desk.new_spec()
    desk.tell("global", PlaceTask(heirs, N3, b"job-0002", JobFacts(home=N2, is_heir=True)))
    assert heirs.task_id in desk.scheduler.tasks


def test_only_its_own_node_ends_a_job(desk):
    spec = desk.new_spec()
    desk.tell(N3, JobEnded(b"job-0002"))
    desk.tell("global", PlaceTask(spec, N2, b"job-0002", JobFacts(home=N2)))
    assert spec.task_id in desk.scheduler.tasks


# --- how often a task runs ---

ONCE_MORE = TaskSpec(TASK, b"f" * 16, options=encode_options(TaskOptions(max_retries=1, name="work")))


def held_by_two(shard, spec, attempts=()):
    sent(shard, N1, RecordTasks(N1, [spec], attempts=list(attempts)))
    sent(shard, N3, HoldAtNode(N3, [OBJECT], 0))


def lost_again(shard, place):
    """The answers to those that want a result whose node is lost."""
    sent(shard, place, AddLocations(place, [(OBJECT, 9)]))
    lose(shard, place)
    return sent(shard, N3, SubscribeObject(N3, OBJECT))


def test_runs_for_losses_are_counted(shard):
    held_by_two(shard, ONCE_MORE)
    assert lost_again(shard, "n7/local") == [(N3, RebuildObject(OBJECT, ONCE_MORE, 0, True))]
    ((target, message),) = lost_again(shard, "n8/local")
    assert (target, type(message), message.has_task) == (N3, ObjectLost, True)
    assert "task 'work' has run 2 times, as max_retries=1 allows" in message.reason


@pytest.mark.parametrize("how", ["recorded", "ended"])
def test_attempts_that_nodes_tell_of_count_too(shard, how):
    held_by_two(shard, ONCE_MORE, [(TASK, 1)] if how == "recorded" else [])
    if how == "ended":
        sent(shard, N2, AddLocations(N2, [], [(TASK, 1)]))
    ((_, message),) = lost_again(shard, "n7/local")
    assert type(message) is ObjectLost


def test_a_run_that_nobody_wanted_is_not_counted(shard):
    held_by_two(shard, ONCE_MORE)
    lost_again(shard, "n7/local")
    sent(shard, N3, CannotRebuild(N3, OBJECT, True))
    assert sent(shard, N3, SubscribeObject(N3, OBJECT)) == [(N3, RebuildObject(OBJECT, ONCE_MORE, 0, True))]


def test_the_count_goes_with_the_record_and_with_the_state_of_the_shard(shard):
    held_by_two(shard, ONCE_MORE, [(TASK, 1)])
    other = GcsShard("gcs-0")
    other.load(shard.dump())
    assert other.tasks.attempts == {TASK: 1}
    sent(other, N1, ReleaseAtNode(N1, [OBJECT]))
    sent(other, N3, ReleaseAtNode(N3, [OBJECT]))
    assert not other.tasks.records and not other.tasks.attempts


def test_node_that_runs_a_left_generator_again_hears_how_many_items_are_needed(shard):
    sent(shard, N1, AddLocations(N1, [], drawn=[(TASK, 3)]))
    assert not shard.tasks.drawn, "of no task that is known"
    held_by_two(shard, ONCE_MORE)
    sent(shard, N1, AddLocations(N1, [], drawn=[(TASK, 3)]))
    other = GcsShard("gcs-0")
    other.load(shard.dump())
    ((target, message),) = lost_again(other, "n7/local")
    assert (target, message.drawn) == (N3, 3)
    sent(other, N1, ReleaseAtNode(N1, [OBJECT]))
    sent(other, N3, ReleaseAtNode(N3, [OBJECT]))
    assert not other.tasks.drawn


@pytest.mark.parametrize("attempts", [0, 1])
def test_task_that_has_run_as_often_as_it_may_is_not_run_for_an_old_hint(attempts, desk):
    """The shard takes us for its maker, and its work was done, unseen, on a node that is lost."""
    desk.tell(DRIVER, HoldObjects([OBJECT]))
    desk.tell(DRIVER, WaitObjects(1, [OBJECT], 1, True, True))
    desk.take_sent()
    desk.tell("gcs-0", RebuildObject(OBJECT, ONCE_MORE, attempts))
    said = [type(message) for _, message in desk.take_sent()]
    assert (CannotRebuild in said) == (TASK not in desk.scheduler.tasks) == bool(attempts)
    if not attempts:
        assert desk.scheduler.tasks[TASK].attempts == 1 and not desk.scheduler.tasks[TASK].is_retried_here
