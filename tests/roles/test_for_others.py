"""Tasks that their node could never run: what they take stays where it is, until all of it is made (figure 7)."""

import pytest

from tests.roles.desk import DRIVER, FUNCTION, Acknowledged, Desk
from zray.ids import return_id
from zray.roles.local_scheduler.forwarding.trips import LACKING_MAX
from zray.wire.gcs import NodeJoined, NodeLost, ObjectLocated, SubscribeObject
from zray.wire.objects import FetchObject, HoldObjects
from zray.wire.scheduling import SpillTask
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, TaskSpec, encode_options
from zray.wire.where import LabelRule, Where

OTHER = "other/local"
LARGE = 100 << 20
DISK = {"disk": RESOURCE_UNIT}
ELSEWHERE = return_id(b"e" * 16, 1)


class Node(Acknowledged, Desk):
    """With a CPU and without a disk, which the other node has."""

    def __init__(self):
        super().__init__(cpus=1)
        self.join(OTHER)
        self.tell("monitor", NodeJoined(OTHER, {"CPU": RESOURCE_UNIT, **DISK}))
        self.tell(DRIVER, HoldObjects([ELSEWHERE]))

    def take(self, *deps, resources=DISK, where=None, number=0):
        spec = TaskSpec(b"t" * 15 + bytes([number]), FUNCTION, deps=deps)
        spec.options = encode_options(TaskOptions(resources=dict(resources), where=where))
        self.submit(spec)
        return spec

    def make(self):
        """A task of this node, which runs.  What it returns, and its worker."""
        spec = self.new_spec()
        self.submit(spec)
        while self.starting:
            worker = self.give_birth()
        return return_id(spec.task_id, 1), worker

    def locate(self, object_id, size=LARGE):
        self.tell("gcs-0", ObjectLocated(object_id, size, [OTHER]))

    def said(self):
        """Ids of the objects that are ordered, and of the tasks that went up."""
        said = [message for _, message in self.heard()]
        fetched = [message.object_id for message in said if type(message) is FetchObject]
        return fetched, [message.spec.task_id for message in said if type(message) is SpillTask]


@pytest.fixture
def node():
    return Node()


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"resources": {}, "where": Where(node="other")},
        {"resources": {}, "where": Where(hard=(LabelRule("zone", ("a",)),))},
    ],
    ids=["resources", "node", "label"],
)
def test_it_leaves_when_the_rest_is_made_and_nothing_comes_here_for_it(node, asked):
    """It came here, and might find no room, or leave none (a newcomer's program)."""
    here, worker = node.make()
    spec = node.take(here, ELSEWHERE, **asked)
    node.locate(ELSEWHERE)
    assert node.said() == ([], [])
    node.finish_one(worker)
    assert node.said() == ([], [spec.task_id])


def test_it_leaves_when_the_last_is_found_elsewhere(node):
    here, worker = node.make()
    spec = node.take(here, ELSEWHERE)
    node.finish_one(worker)
    assert node.said() == ([], [])
    node.locate(ELSEWHERE, size=node.scheduler.inline_bytes_max + 1)  # which would soon be here
    assert node.said() == ([], [spec.task_id])


def test_what_is_known_to_lie_elsewhere_when_it_comes_stays_there(node):
    node.locate(ELSEWHERE)
    here, worker = node.make()
    spec = node.take(here, ELSEWHERE)
    assert node.said() == ([], [])
    node.finish_one(worker)
    assert node.said() == ([], [spec.task_id])


@pytest.mark.parametrize("where", [None, Where(node="gone", is_soft=True)], ids=str)
def test_another_task_that_may_run_here_has_it_brought(node, where):
    here, _ = node.make()
    node.take(here, ELSEWHERE)
    node.take(here, ELSEWHERE, resources={"CPU": RESOURCE_UNIT}, where=where, number=1)
    node.locate(ELSEWHERE)
    assert node.said() == ([ELSEWHERE], [])


def test_where_the_copy_is_lost_it_asks_for_another(node):
    here, worker = node.make()
    spec = node.take(here, ELSEWHERE)
    node.locate(ELSEWHERE)
    node.heard()
    node.tell("monitor", NodeJoined("third/local", {"CPU": RESOURCE_UNIT, **DISK}))
    node.told.clear()
    node.tell("monitor", NodeLost(OTHER, "it was killed"))
    node.heard()
    assert SubscribeObject("local", ELSEWHERE) in node.told
    node.finish_one(worker)
    assert node.said() == ([], [])
    node.tell("gcs-0", ObjectLocated(ELSEWHERE, LARGE, ["third/local"]))
    assert node.said() == ([], [spec.task_id])


def test_of_one_that_takes_very_many_they_are_brought(node):
    """To look at all of them with each that comes would take too long."""
    others = [return_id(b"f" * 15 + bytes([number]), 1) for number in range(LACKING_MAX)]
    node.tell(DRIVER, HoldObjects(others))
    here, _ = node.make()
    node.take(here, *others, ELSEWHERE)
    node.locate(ELSEWHERE)
    assert node.said() == ([ELSEWHERE], [])
