"""Lists of tasks and actors on several nodes."""

import pytest

import zray
from tests.gates import until
from zray.util import state
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from zray.util.why import why

pytestmark = pytest.mark.slow


@zray.remote
class Actor:
    def wait(self, gate):
        gate.wait()


@zray.remote
def wait(gate):
    gate.wait()


def test_tasks_and_actors_of_all_nodes(cluster, gate):
    cluster.connect()
    nodes = [node.node_id for node in state.list_nodes() if node.resources_total.get("CPU")]
    on = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    actors = [Actor.options(scheduling_strategy=place).remote() for place in on]
    refs = [actor.wait.remote(gate) for actor in actors]
    refs += [wait.options(scheduling_strategy=place).remote(gate) for place in on]
    until(lambda: [task.state for task in state.list_tasks(filters=[("state", "!=", "FINISHED")])] == ["RUNNING"] * 4)
    found = {task.task_id: task for task in state.list_tasks()}
    assert [found[ref.task_id().hex()].node_id for ref in refs] == nodes * 2
    assert {(actor.actor_id, actor.node_id, actor.state) for actor in state.list_actors()} == {
        (actor._actor_id.hex(), node, "ALIVE") for actor, node in zip(actors, nodes, strict=True)
    }
    homes = {worker.pid: worker.node_id for worker in state.list_workers()}
    assert [homes[found[ref.task_id().hex()].worker_pid] for ref in refs] == nodes * 2
    gate.open()
    zray.get(refs)
    ended = {task.task_id: task for task in state.list_tasks()}
    assert [(ended[ref.task_id().hex()].state, ended[ref.task_id().hex()].node_id) for ref in refs] == [
        ("FINISHED", node) for node in nodes * 2
    ]
    del actors[0]
    until(lambda: sorted(actor.state for actor in state.list_actors()) == ["ALIVE", "DEAD"])


@zray.remote(num_cpus=0)
def reasons(id):
    return "\n".join(why(id))


def test_reasons_of_a_task_are_asked_of_the_node_that_has_it(cluster, gate):
    """Programs that only look, such as a dashboard, join at any node."""
    cluster.connect()
    nodes = [node.node_id for node in state.list_nodes()]
    running = [wait.remote(gate) for _ in range(2)]
    until(lambda: len(state.list_tasks(filters=[("state", "=", "RUNNING")])) == 2)
    waiting = wait.remote(gate)
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        text = zray.get(reasons.options(scheduling_strategy=there).remote(waiting.task_id().hex()))
        assert "no record" not in text and "waits for 1 CPU" in text, text
    gate.open()
    zray.get([*running, waiting])
