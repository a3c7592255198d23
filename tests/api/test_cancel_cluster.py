"""cancel() of tasks that other nodes run, and from other nodes."""

import select

import pytest

import zray
from tests.api.test_cancel import WAIT, Log, fails, has_said
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@pytest.fixture(scope="module")
def cluster(nothing_left):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="module")
def ids(cluster):
    with zray.init(address=cluster.address):
        yield [node.node_id for node in cluster.list_all_nodes()]


@zray.remote
def waits(log, word):
    log.say.remote(word)
    select.select([], [], [], 1000)


@zray.remote(num_cpus=0)
def cancel_from_here(refs):
    zray.cancel(refs[0])


@zray.remote
def node():
    return zray.get_runtime_context().get_node_id()


def there(node_id):
    return NodeAffinitySchedulingStrategy(node_id)


def test_task_of_another_node_is_cancelled_where_it_runs_or_is_queued(ids):
    log = Log.options(num_cpus=0).remote()
    for other in ids:
        running = waits.options(scheduling_strategy=there(other)).remote(log, other)
        has_said(log, other)
        queued = [waits.options(scheduling_strategy=there(other)).remote(log, "never") for _ in range(5)]
        for ref in (*queued, running):
            zray.cancel(ref)
        assert all(fails(ref) for ref in (*queued, running))
        assert zray.get(node.options(scheduling_strategy=there(other)).remote(), timeout=WAIT) == other
    assert "never" not in zray.get(log.words.remote(), timeout=WAIT)


@pytest.mark.parametrize("where", [0, 1])
def test_task_is_cancelled_from_another_node(ids, where):
    log = Log.options(num_cpus=0).remote()
    running = waits.options(scheduling_strategy=there(ids[0])).remote(log, "begun")
    has_said(log, "begun")
    zray.get(cancel_from_here.options(scheduling_strategy=there(ids[where])).remote([running]), timeout=WAIT)
    assert fails(running)
    assert zray.get(node.options(scheduling_strategy=there(ids[0])).remote(), timeout=WAIT) == ids[0]


@zray.remote(num_cpus=0)
class Sync:
    def runs(self, log):
        log.say.remote("runs")
        until(lambda: zray.get_runtime_context().is_canceled())
        return "lost"

    def quick(self):
        return 1


def test_call_of_an_actor_of_another_node_is_told(ids):
    log = Log.options(num_cpus=0).remote()
    actor = Sync.options(scheduling_strategy=there(ids[1])).remote()
    ref, queued = actor.runs.remote(log), actor.quick.remote()
    has_said(log, "runs")
    zray.cancel(queued)
    zray.cancel(ref)
    assert fails(ref) and fails(queued)
    assert zray.get(actor.quick.remote(), timeout=WAIT) == 1
