"""Constructors that wait for another actor while their node dies."""

import asyncio

import pytest

import zray
from tests.gates import until
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@zray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Desk:
    """Answers when it is told to; notes who has asked."""

    def __init__(self):
        self.asked, self.is_open = [], False

    async def answer(self, node):
        self.asked.append(node)
        while not self.is_open:
            await asyncio.sleep(0.01)
        return 7

    async def who_asked(self):
        return self.asked

    async def open(self):
        self.is_open = True


@zray.remote(num_cpus=1, max_restarts=1, max_task_retries=-1)
class Asks:
    def __init__(self, desk, timeout):
        self.home = zray.get_runtime_context().get_node_id()
        ref = desk.answer.remote(self.home)
        while timeout and not zray.wait([ref], timeout=timeout)[0]:
            pass
        self.answer = zray.get(ref)

    def tell(self):
        return self.answer, self.home


@pytest.mark.slow
@pytest.mark.parametrize("timeout", [None, 0.05])
@pytest.mark.parametrize("desk_is_there_too", [False, True])
def test_constructor_that_waits_for_an_actor_runs_again_where_its_node_dies(cluster, desk_is_there_too, timeout):
    """Its calls wait for it, those that were made before and those that come behind."""
    cluster.connect()
    first, second = (node.node_id for node in cluster.worker_nodes)
    there = NodeAffinitySchedulingStrategy(first, soft=True)
    head = NodeAffinitySchedulingStrategy(zray.get_runtime_context().get_node_id(), soft=True)
    desk = Desk.options(scheduling_strategy=there if desk_is_there_too else head).remote()
    asks = Asks.options(scheduling_strategy=there).remote(desk, timeout)
    calls = [asks.tell.remote() for _ in range(3)]
    assert until(lambda: zray.get(desk.who_asked.remote(), timeout=30)) == [first]
    cluster.remove_node(cluster.worker_nodes[0])
    calls += [asks.tell.remote() for _ in range(3)]
    if desk_is_there_too:
        assert until(lambda: zray.get(desk.who_asked.remote(), timeout=30)) == [second]
    zray.get(desk.open.remote(), timeout=30)
    assert zray.get(calls, timeout=30) == [(7, second)] * 6
