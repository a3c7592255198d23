"""Global schedulers whose number changes, as processes; ranges that are refused."""

import os
import signal

import pytest

import zray
from tests.gates import until
from tests.host.test_head import far, services
from zray.cluster_utils import Cluster
from zray.host.client import control
from zray.host.cluster import cpu_clocks
from zray.host.cluster.head_state import Plan
from zray.host.driver import startup
from zray.host.process import node_processes
from zray.options.count_ranges import count_range

# Changes within a second, of a machine whose cores others use too.
QUICK = {
    **{"report_s": 0.05, "up_s": 0.2, "down_s": 0.5, "slow_s": -1.0},
    **{"busy_share": 0.2, "idle_share": 0.15, "free_core": -1.0},
}


@pytest.fixture
def quick(monkeypatch):
    """Heads whose schedulers come and go soon."""
    start_node = node_processes.start_node

    def start(*arguments, cluster, **options):
        limits = {"scheduler_limits": QUICK} if cluster["kind"] == "head" else {}
        return start_node(*arguments, cluster={**cluster, **limits}, **options)

    assert startup.start_node is start_node  # a module that is imported later would keep the patch
    monkeypatch.setattr(node_processes, "start_node", start)


def note(node):
    with control.Control(node.session, node.pid) as link:
        (text,) = link.status().notes
    return text


def test_scheduler_starts_under_load_and_ends_without_it_and_no_task_is_lost(quick, nothing_left):
    work = far(lambda number: number).options(num_cpus=0)
    with Cluster(True, head_node_args={"num_cpus": 1, "global_schedulers": "1:3"}) as cluster:
        head = cluster.head_node
        cluster.add_node(num_cpus=1, resources={"far": 1})
        cluster.wait_for_nodes()
        cluster.connect()
        assert not services(head.pid) and note(head) == "1 global scheduler, 1 to 3"

        def is_done():
            return zray.get([work.remote(number) for number in range(200)], timeout=60) == [*range(200)]

        until(lambda: is_done() and set(services(head.pid)) == {"global-0"})
        until(lambda: is_done() and note(head).startswith("2 global schedulers, 1 to 3; "))
        assert "s ago one more, since they were busy" in note(head)
        former = services(head.pid)["global-0"]
        os.kill(former, signal.SIGKILL)  # a death is no change: another process starts in its place
        until(lambda: is_done() and services(head.pid).get("global-0", former) != former)
        until(lambda: zray.get(work.remote(1), timeout=60) == 1 and not services(head.pid))
        until(lambda: note(head).startswith("1 global scheduler, 1 to 3; "))
        assert "s ago one fewer, since they were busy" in note(head)
        assert is_done()
        zray.shutdown()


def test_a_fixed_number_has_no_note(nothing_left):
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        head = cluster.head_node
        with control.Control(head.session, head.pid) as link:
            assert link.status().notes == []


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (3, (3, 3)),
        ("3", (3, 3)),
        (2.0, (2, 2)),
        ("1:8", (1, 8)),
        ("2:2", (2, 2)),
        ("auto", (1, 64)),
        (" auto ", (1, 64)),
    ],
)
def test_ranges(given, found):
    assert count_range("x", given, 64) == found


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ("8:1", ValueError, "its smallest count, 8, is above its largest, 1"),
        ("0:4", ValueError, "from 1 to 64, not 0"),
        ("1:65", ValueError, "from 1 to 64, not 65"),
        ("1:2:3", ValueError, "MIN:MAX"),
        ("1:", ValueError, "MIN:MAX"),
        ("-1:2", ValueError, "MIN:MAX"),
        ("many", ValueError, "MIN:MAX"),
        ("", ValueError, "MIN:MAX"),
        (1.5, ValueError, "whole number"),
        ([1, 2], TypeError, "x must be"),
        (True, TypeError, "x must be"),
    ],
    ids=str,
)
def test_ranges_that_are_none_are_refused_with_the_reason(given, error, why):
    with pytest.raises(error, match=why):
        count_range("x", given, 64)


@pytest.mark.parametrize("given", ["auto", "1:4"])
def test_shards_that_would_adapt_are_not_there(given):
    with pytest.raises(NotImplementedError, match="gcs_shards is fixed for the life of a cluster"):
        node_processes.start_head({}, None, gcs_shards=given)


def test_a_plan_keeps_its_range_until_another_one_is_asked_for():
    plan = Plan().changed({"schedulers": 1, "schedulers_max": 8})
    assert (plan.schedulers, plan.schedulers_max) == (1, 8)
    again = plan.changed({})
    assert (again.schedulers, again.schedulers_max) == (1, 8)
    fixed = plan.changed({"schedulers": 2, "schedulers_max": 0})
    assert (fixed.schedulers, fixed.schedulers_max) == (2, 0)


def test_idle_time_is_that_of_the_cores_that_the_process_may_use(tmp_path):
    path = tmp_path / "stat"
    mine = min(os.sched_getaffinity(0))
    path.write_text(f"cpu 9 9 9 9 9\ncpu{mine} 1 2 3 400 100 7 8\ncpu9999 1 2 3 4000 100 7 8\n")
    assert cpu_clocks.idle_seconds(str(path)) == 500 / os.sysconf("SC_CLK_TCK")
    assert cpu_clocks.idle_seconds(str(tmp_path / "absent")) == 0.0
    assert cpu_clocks.measured().process_s > 0
