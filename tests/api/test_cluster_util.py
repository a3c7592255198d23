"""Pools and queues across nodes."""

import pytest

import zray
from zray.util import ActorPool
from zray.util.executor import Executor
from zray.util.multiprocessing import Pool
from zray.util.queue import Queue

pytestmark = pytest.mark.slow


def node(_=None):
    return zray.get_runtime_context().get_node_id()


@zray.remote
def produce(queue, items):
    for item in items:
        queue.put(item)
    return node()


@zray.remote
def consume(queue, count):
    return [queue.get(timeout=30) for _ in range(count)], node()


@zray.remote(num_cpus=1)
class Worker:
    def node(self, value):
        return value, node()


def test_pools_and_queues_span_the_nodes(cluster):
    cluster.connect()
    queue = Queue()
    producer, consumer = (f.options(scheduling_strategy="SPREAD") for f in (produce, consume))
    made, (items, used) = zray.get([producer.remote(queue, range(500)), consumer.remote(queue, 500)])
    assert items == list(range(500)) and made and used
    queue.put_nowait_batch(range(10))
    assert queue.get_nowait_batch(10) == list(range(10))
    queue.shutdown(force=True)
    with Pool(2, ray_remote_args={"num_cpus": 1}) as pool:
        assert len(set(pool.map(node, range(20), chunksize=1))) == 2
    pool.join()
    actors = [Worker.remote() for _ in range(2)]
    found = list(ActorPool(actors).map(lambda actor, value: actor.node.remote(value), range(200)))
    assert [value for value, _ in found] == list(range(200)) and len({where for _, where in found}) == 2
    del actors
    with Executor() as executor:
        assert len(list(executor.map(node, range(50)))) == 50
