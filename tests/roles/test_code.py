"""Code of jobs, as local schedulers pass it on: shared before it is named to others, and told once."""

import pytest
from msgspec.structs import replace

from tests.roles.desk import DRIVER, JOB, Desk
from zray.ids import put_id, return_id
from zray.roles.effects import ProcessLeft
from zray.roles.local_scheduler.tasks.code import BUNDLES_MAX
from zray.wire.actors import ActorAccepted, ActorHandedOver, ActorStarted, CreateActor, PlaceActor, SpillActor
from zray.wire.gcs import (
    AddLocations,
    HoldAtNode,
    NodeJoined,
    NodeLost,
    ObjectLocated,
    SubscribeObject,
)
from zray.wire.homes import ActorLife, GuardActor, UnguardActor
from zray.wire.objects import FetchFailed, FetchObject, PutObject, PutObjects
from zray.wire.scheduling import Bundle, CodeAdded, JobEnded, JobFacts, PlaceTask, PublishCode, SpillTask
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions
from zray.wire.tasks import JobStarted, SubmitTasks

FAR = "far/local"


class Node(Desk):
    """A node of a cluster, without CPUs of its own: what it is given goes up."""

    def __init__(self, cpus=0):
        super().__init__(cpus)
        self.scheduler.is_embedded = False
        self.tell("monitor", NodeJoined(FAR, {"CPU": RESOURCE_UNIT}))
        self.puts = 0
        self.take_sent()

    @property
    def job(self):
        return self.scheduler.jobs[JOB]

    def put_bundle(self):
        """By the driver."""
        object_id = put_id(b"d" * 16, self.puts)
        self.puts += 1
        self.tell(DRIVER, PutObjects([PutObject(object_id, b"\xc4\x00")]))
        return Bundle(self.puts.to_bytes(32, "big"), object_id, 100)

    def publish(self, *bundles, by=DRIVER):
        self.tell(by, PublishCode(list(bundles)))

    def acknowledge(self):
        self.shards_acknowledge()

    def place(self, job_facts):
        """A task of another node's driver, which runs here."""
        self.tell("global", PlaceTask(self.new_spec(), FAR, b"job-away", job_facts))
        self.run_all()

    def sent_kinds(self, *kinds):
        return [(target, message) for target, message in self.take_sent() if type(message) in kinds]


def test_it_is_shared_with_the_first_task_that_leaves_and_named_with_each():
    node = Node()
    one, two = node.put_bundle(), node.put_bundle()
    node.publish(one, two)
    assert not node.sent_kinds(HoldAtNode, AddLocations, CodeAdded)  # nobody else runs anything of it
    node.submit(node.new_spec())
    shared = node.sent_kinds(HoldAtNode, AddLocations, SpillTask)
    assert {item for _, message in shared if type(message) is HoldAtNode for item in message.object_ids} == {
        one.object_id,
        two.object_id,
    }
    assert SpillTask not in [type(message) for _, message in shared]  # not before the shard has it
    node.acknowledge()
    ((_, spill),) = node.sent_kinds(SpillTask)
    assert spill.job.code == (one, two) and spill.job.home == "local"
    node.submit(node.new_spec())
    assert not node.sent_kinds(AddLocations)


@pytest.mark.parametrize("is_late", [False, True])
def test_what_leaves_second_waits_for_the_code_as_well(is_late):
    """Its own shard may be there when the code's is not yet: after the start of a head, say."""
    node = Node()
    if is_late:
        node.submit(node.new_spec())
        node.acknowledge()
    one, ref = node.put_bundle(), node.put_bundle().object_id
    node.publish(one)

    def held_by(sender, message):
        """What shards are to acknowledge when it leaves."""
        node.take_sent()
        node.tell(sender, message)
        return {item for _, message in node.sent_kinds(HoldAtNode) for item in message.object_ids}

    options = ActorOptions(resources={"CPU": RESOURCE_UNIT}, class_name="A")
    assert one.object_id in held_by(DRIVER, CreateActor(node.new_spec(), options))
    assert one.object_id in held_by(DRIVER, CreateActor(node.new_spec(), options))
    assert {ref, one.object_id} <= held_by(DRIVER, SubmitTasks([node.new_spec(deps=[ref])]))
    node.acknowledge()
    assert one.object_id not in held_by(DRIVER, CreateActor(node.new_spec(), options))


def test_what_comes_later_is_shared_and_told_at_once():
    node = Node()
    node.submit(node.new_spec())
    node.acknowledge()
    node.take_sent()
    one = node.put_bundle()
    node.publish(one)
    sent = node.sent_kinds(HoldAtNode, AddLocations, CodeAdded)
    # What is acknowledged comes last: then the shard knows where it is, too.
    assert [type(message) for _, message in sent] == [HoldAtNode, AddLocations, HoldAtNode, CodeAdded]
    assert sent[3] == (FAR, CodeAdded(JOB, node.job.facts)) and node.job.facts.code == (one,)
    node.submit(node.new_spec())
    node.acknowledge()
    assert [message.job.code for _, message in node.sent_kinds(SpillTask)] == [(one,)]


def test_a_node_that_took_an_actor_in_is_told_what_was_added_on_its_way():
    """It had no job of that name yet when the others were told."""
    node = Node()
    node.tell(DRIVER, CreateActor(node.new_spec(), ActorOptions(resources={"CPU": RESOURCE_UNIT}, class_name="A")))
    node.acknowledge()
    ((_, spill),) = node.sent_kinds(SpillActor)
    assert spill.job.code == ()
    one = node.put_bundle()
    node.publish(one)
    node.take_sent()
    node.tell(FAR, ActorAccepted(spill.spec.task_id, spill.life.birth))
    assert node.sent_kinds(ActorHandedOver, CodeAdded) == [
        (FAR, ActorHandedOver(spill.spec.task_id, replace(spill.life, term=1))),
        (FAR, CodeAdded(JOB, node.job.facts)),
    ]
    assert node.job.facts.code == (one,)


def test_only_the_jobs_driver_publishes_and_so_much():
    node = Node(cpus=1)
    worker = node.give_birth()
    bundle = node.put_bundle()
    node.publish(bundle, by=worker)
    node.publish(bundle, by="nobody")
    node.publish(*[bundle] * (BUNDLES_MAX + 1))
    assert node.job.facts.code == ()
    node.publish(bundle)
    assert node.job.facts.code == (bundle,)


def test_bundles_that_later_ones_have_replaced_are_named_no_more(away):
    """Each node names the newest, however many there have been."""
    node = Node()
    node.submit(node.new_spec())
    node.acknowledge()
    kept = node.put_bundle()
    node.publish(kept)
    former = None
    for _ in range(2 * BUNDLES_MAX):
        newest = node.put_bundle()
        node.tell(DRIVER, PublishCode([newest], replaced=[former.object_id] if former else []))
        former = newest
    assert node.job.facts.code == (kept, newest)
    *_, (_, added) = node.sent_kinds(CodeAdded)
    away.tell(FAR, CodeAdded(b"job-away", replace(added.facts, home=FAR)))
    assert away.scheduler.jobs[b"job-away"].facts.code == (kept, newest)


def test_a_bundle_that_is_not_there_is_named_and_not_shared():
    node = Node()
    node.publish(Bundle(b"x" * 32, return_id(b"t" * 16, 1), 1))
    node.submit(node.new_spec())
    node.acknowledge()
    assert len(node.sent_kinds(SpillTask)) == 1


# --- where the tasks run ---


def facts(*bundles):
    return JobFacts(home=FAR, code=bundles, revision=len(bundles))


ONE, TWO = (Bundle(bytes([n]) * 32, put_id(b"o" * 16, n), 100) for n in (1, 2))


@pytest.fixture
def away():
    """A node with a worker of a job of elsewhere."""
    node = Node(cpus=1)
    node.place(facts(ONE))
    return node


def test_a_worker_is_told_with_its_job(away):
    ((_, started),) = away.sent_kinds(JobStarted)
    assert started.job_id == b"job-away" and started.facts.code == (ONE,)


def test_more_code_is_told_once_and_ahead_of_the_task(away):
    away.take_sent()
    away.place(facts(ONE, TWO))
    sent = [(target, type(message).__name__) for target, message in away.take_sent() if target.startswith("worker-")]
    assert [kind for _, kind in sent] == ["JobStarted", "StartTasks"]
    away.place(facts(ONE))  # an older one that was long under way
    assert not away.sent_kinds(JobStarted)
    assert away.scheduler.jobs[b"job-away"].facts.code == (ONE, TWO)


def test_more_code_for_actors_that_are_here(away):
    away.take_sent()
    away.tell("stranger/local", CodeAdded(b"job-away", facts(ONE, TWO)))
    away.tell(FAR, CodeAdded(b"job-none", facts(ONE, TWO)))
    assert not away.sent_kinds(JobStarted)
    away.tell(FAR, CodeAdded(b"job-away", facts(ONE, TWO)))
    ((_, started),) = away.sent_kinds(JobStarted)
    assert started.facts.code == (ONE, TWO)


def test_path_and_reloads_are_told_to_the_workers_of_the_job():
    node = Node(cpus=1)
    worker = node.give_birth()
    node.submit(node.new_spec())
    node.take_sent()
    node.publish(node.put_bundle())
    assert not node.sent_kinds(JobStarted)  # bundles are for other nodes
    node.tell(DRIVER, PublishCode([], ("/new", "/old")))
    ((target, started),) = node.sent_kinds(JobStarted)
    assert target == worker and started.facts.sys_path == ("/new", "/old") and started.facts.reloads == 0
    node.tell(DRIVER, PublishCode([], has_reloaded=True))
    ((_, started),) = node.sent_kinds(JobStarted)
    assert started.facts.sys_path == ("/new", "/old") and started.facts.reloads == 1
    assert started.facts.revision == 3 and len(started.facts.code) == 1


def test_path_and_reloads_are_told_to_other_nodes_and_their_workers(away):
    node = Node()
    node.submit(node.new_spec())
    node.acknowledge()
    node.take_sent()
    node.tell(DRIVER, PublishCode([], ("/new",), True))
    ((_, added),) = node.sent_kinds(CodeAdded)
    away.take_sent()
    away.tell(FAR, CodeAdded(b"job-away", replace(added.facts, home=FAR, revision=2)))
    ((_, started),) = away.sent_kinds(JobStarted)
    assert started.facts.sys_path == ("/new",) and started.facts.reloads == 1
    away.place(replace(facts(ONE), sys_path=("/old",)))  # an older one that was long under way
    assert not away.sent_kinds(JobStarted)
    assert away.scheduler.jobs[b"job-away"].facts.sys_path == ("/new",)


def test_the_end_of_the_job_leaves_nothing(away):
    away.tell(FAR, JobEnded(b"job-away"))
    assert b"job-away" not in away.scheduler.jobs


# --- a detached actor, whose driver ends ---

DETACHED = ActorOptions(detached=True, max_restarts=-1, resources={"CPU": RESOURCE_UNIT})
LIFE = ActorLife("far/local#1", 1)


def test_an_actor_keeps_the_code_that_it_took_along_and_no_more():
    for end in (
        lambda node: node.tell(FAR, JobEnded(b"job-away")),
        lambda node: node.tell("monitor", NodeLost(FAR, "lost")),
    ):
        node = Node(cpus=1)
        spec = node.new_spec(deps=[ONE.object_id])
        node.tell("global", PlaceActor(spec, DETACHED, FAR, LIFE, b"job-away", facts(ONE, TWO)))
        actor = node.scheduler.calls.actors[spec.task_id]
        assert actor.job.facts.code == (ONE, TWO)
        end(node)
        assert actor.job.facts.code == (ONE,)


def test_on_its_drivers_node_too_and_what_it_submits_takes_it_along():
    node = Node(cpus=1)
    one, two = node.put_bundle(), node.put_bundle()
    node.publish(one, two)
    spec = node.new_spec(deps=[one.object_id])
    node.tell(DRIVER, CreateActor(spec, DETACHED))
    node.starting and node.give_birth()
    actor = node.scheduler.calls.actors[spec.task_id]
    worker = actor.worker.address
    node.tell(worker, ActorStarted(spec.task_id))
    node.take_sent()
    node.tell("host", ProcessLeft(DRIVER, "ended"))
    assert actor.job.facts.code == (one,) and one.object_id in node.scheduler.objects.entries
    child = node.new_spec()
    node.tell(worker, SubmitTasks([child]))
    shared = {item for _, message in node.sent_kinds(HoldAtNode) for item in message.object_ids}
    assert one.object_id in shared
    node.acknowledge()
    ((_, spill),) = node.sent_kinds(SpillTask)
    assert spill.job.code == (one,) and spill.job.is_heir


def test_its_guardian_has_copies_of_what_it_takes():
    node = Node()
    spec = node.new_spec(deps=[ONE.object_id])
    node.tell(FAR, GuardActor(spec, DETACHED, LIFE, b"job-away", facts(ONE)))
    node.acknowledge()
    assert [message.object_id for _, message in node.sent_kinds(SubscribeObject)] == [ONE.object_id]
    node.tell("gcs-0", ObjectLocated(ONE.object_id, 100, [FAR]))
    assert [message.object_id for _, message in node.sent_kinds(FetchObject)] == [ONE.object_id]
    node.tell("objects", FetchFailed(ONE.object_id, "the store is full", True))
    assert node.scheduler.objects.entries[ONE.object_id].value is None  # it is asked for again when it is needed
    node.tell(FAR, UnguardActor(spec.task_id, LIFE.birth, True))
    assert not node.scheduler.guards.wanted


def test_a_guardian_of_another_actor_only_holds_it():
    node = Node()
    options = ActorOptions(max_restarts=-1, resources={"CPU": RESOURCE_UNIT})
    node.tell(FAR, GuardActor(node.new_spec(deps=[ONE.object_id]), options, LIFE, b"job-away", facts(ONE)))
    node.acknowledge()
    assert not node.sent_kinds(SubscribeObject)
