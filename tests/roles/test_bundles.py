"""Bundles of placement groups on one node, one message at a time."""

from tests.roles.desk import Desk
from tests.roles.rows_taken import record_rows
from zray.roles.local_scheduler.groups.bundles import TRANSITIONS, Bundle
from zray.wire.gcs import NodeJoined
from zray.wire.groups import BundlesPrepared, CommitBundles, PrepareBundles, ReturnBundles
from zray.wire.scheduling import LoadReport
from zray.wire.task_spec import RESOURCE_UNIT

GROUP = b"g" * 16
CPU = {"CPU": RESOURCE_UNIT}


def test_what_a_removed_group_had_is_reported_at_once():
    """What is spread right behind the removal would go elsewhere until the next report."""
    desk = Desk(cpus=1)
    desk.tell("monitor", NodeJoined("n2/local", CPU))
    desk.tell("gcs-0", PrepareBundles(GROUP, 1, [(0, CPU)]))
    desk.tell("gcs-0", CommitBundles(GROUP, 1))
    assert [message.is_done for _, message in desk.take_sent(BundlesPrepared)] == [True]
    desk.tell("gcs-0", ReturnBundles(GROUP, 0, "it was removed"))
    ((target, report),) = desk.take_sent(LoadReport)
    assert (target, report.held.get("CPU", 0)) == ("global", 0)
    assert "CPU" not in report.free  # all of it is
    desk.tell("gcs-0", ReturnBundles(GROUP, 0, "said again"))
    assert desk.take_sent(LoadReport) == []


def test_each_row_is_taken(monkeypatch):
    taken = record_rows(monkeypatch, Bundle, "happened")
    desk = Desk(cpus=2)
    desk.tell("gcs-0", PrepareBundles(GROUP, 1, [(0, CPU)]))
    desk.tell("gcs-0", ReturnBundles(GROUP, 1, "another node has no space"))
    desk.tell("gcs-0", PrepareBundles(GROUP, 2, [(0, CPU)]))
    desk.tell("gcs-0", CommitBundles(GROUP, 2))
    desk.tell("gcs-0", CommitBundles(GROUP, 2))
    desk.tell("gcs-0", ReturnBundles(GROUP, 0, "it was removed"))
    assert taken == set(TRANSITIONS)
