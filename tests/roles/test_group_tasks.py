"""Tasks of a placement group, on their way to where their bundle is."""

import pytest

from tests.roles.desk import Desk
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.groups import CREATED, GroupFact, GroupLocated, GroupSpec
from zray.wire.scheduling import PlaceTask
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, encode_options
from zray.wire.where import Where

GROUP = b"g" * 16
CPU = {"CPU": RESOURCE_UNIT}


class Node(Desk):
    """A node of a cluster, with a task for a group."""

    def __init__(self):
        super().__init__()
        self.scheduler.is_embedded = False
        self.tell("monitor", NodeJoined("other/local", CPU))
        spec = self.new_spec()
        spec.options = encode_options(TaskOptions(resources=CPU, where=Where(group=GROUP)))
        self.submit(spec)

    def find_places(self, *places):
        """What leaves for there."""
        fact = GroupFact(GROUP, GroupSpec([CPU] * len(places), "PACK"), CREATED, list(places))
        self.tell("gcs-0", GroupLocated(fact))
        self.shards_acknowledge()
        return [target for target, _ in self.take_sent(PlaceTask)]


@pytest.mark.parametrize("place", ["other/local", "new/local"])
def test_a_task_goes_to_its_bundle_though_we_have_not_been_told_of_that_node_yet(place):
    """The shard may hear of a node before we do; nothing else would send the task off later."""
    assert Node().find_places(place) == [place]


def test_it_does_not_go_to_a_node_that_is_lost_and_goes_where_its_bundle_is_made_anew():
    node = Node()
    node.tell("monitor", NodeLost("gone/local", "gone"))
    assert node.find_places("gone/local") == []
    assert node.find_places("other/local") == ["other/local"]
