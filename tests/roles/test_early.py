"""What a node says that we have not been told of yet: a new head's, whose monitor's word is slower than its own."""

from msgspec.structs import replace

from tests.roles.desk import DRIVER, Acknowledged, Desk
from zray.wire.actors import ActorAccepted, ActorHandedOver, CreateActor, SpillActor
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.homes import ActorGuarded, ActorLife, GuardActor
from zray.wire.scheduling import JobFacts
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions

KNOWN, NEW = "known/local", "new/local"


class Node(Acknowledged, Desk):
    """Of a cluster; without CPUs of its own."""

    def __init__(self):
        super().__init__(cpus=0)
        self.join(KNOWN)

    def spill_actor(self):
        self.tell(DRIVER, CreateActor(self.new_spec(), ActorOptions(resources={"CPU": RESOURCE_UNIT}, class_name="A")))
        (spill,) = [message for _, message in self.heard() if type(message) is SpillActor]
        return spill

    def told_to(self, node):
        return [message for target, message in self.heard() if target == node]


def test_an_actor_is_handed_over_when_its_new_home_is_known():
    """Found by seed 3100001059: its calls waited for ever."""
    node = Node()
    spill = node.spill_actor()
    node.tell(NEW, ActorAccepted(spill.spec.task_id, spill.life.birth))
    assert not node.told_to(NEW)
    node.tell("monitor", NodeJoined(KNOWN, {}))
    assert not node.told_to(NEW)
    node.tell("monitor", NodeJoined(NEW, {"CPU": RESOURCE_UNIT}))
    assert ActorHandedOver(spill.spec.task_id, replace(spill.life, term=1)) in node.told_to(NEW)
    assert not node.scheduler.members.early


def test_an_actor_is_guarded_when_its_home_is_known():
    node = Node()
    life = ActorLife(f"{NEW}#1", term=0)
    spec = node.new_spec()
    node.tell(NEW, GuardActor(spec, ActorOptions(class_name="A"), life, b"job-0002", JobFacts(home=NEW)))
    assert not node.told_to(NEW)
    node.tell("monitor", NodeJoined(NEW, {"CPU": RESOURCE_UNIT}))
    assert ActorGuarded(spec.task_id, life.birth) in node.told_to(NEW)


def test_of_one_that_is_lost_before_it_was_known_nothing_is_kept():
    node = Node()
    spill = node.spill_actor()
    node.tell(NEW, ActorAccepted(spill.spec.task_id, spill.life.birth))
    node.tell("monitor", NodeLost(NEW, "it was killed"))
    assert not node.scheduler.members.early
    node.tell(NEW, ActorAccepted(spill.spec.task_id, spill.life.birth))  # it was on its way
    assert not node.scheduler.members.early and not node.told_to(NEW)
    assert spill.spec.task_id in node.scheduler.moves.asks
