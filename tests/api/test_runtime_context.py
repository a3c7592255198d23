"""get_runtime_context(): facts on the program, on tasks, and on actors of each kind."""

import json
import os
from contextlib import suppress

import pytest

import zray


@pytest.fixture(scope="module", autouse=True)
def program(nothing_left):
    with zray.init(num_cpus=2, num_gpus=1, namespace="space", runtime_env={"env_vars": {"COLOUR": "red"}}):
        yield


def facts():
    """All that there is, by name."""
    context = zray.get_runtime_context()
    found = {name: getattr(context, name)() for name in dir(context) if name.startswith("get")}
    with suppress(RuntimeError):  # not for calls of async actors
        found["is_canceled"] = context.is_canceled()
    properties = [name for name, value in vars(type(context)).items() if isinstance(value, property)]
    found |= {name: getattr(context, name) for name in properties if name not in ("current_actor", "_call")}
    return found


@zray.remote(num_cpus=0.5, num_gpus=1, name="called")
def ask():
    return facts()


class Plain:
    def ask(self):
        return facts()

    def end(self):
        os._exit(1)


class Asynchronous:
    async def ask(self):
        return facts()


def test_facts_on_the_program():
    found = facts()
    for name in ("get_task_id", "task_id", "get_task_name", "get_task_function_name", "get_actor_id", "actor_id"):
        assert found[name] is None
    assert found["get"] == {"job_id": found["get_job_id"], "node_id": found["get_node_id"], "namespace": "space"}
    assert (found["namespace"], found["is_canceled"]) == ("space", False)
    assert found["gcs_address"].startswith("ipc://")
    assert found["get_assigned_resources"] == {} and found["get_placement_group_id"] is None
    assert found["runtime_env"] == json.loads(found["get_runtime_env_string"]) == {"env_vars": {"COLOUR": "red"}}
    assert found["get_node_id"] in found["get_node_labels"].values()
    job_id = zray.get_runtime_context().job_id
    assert bytes.fromhex(job_id) == job_id.binary() and job_id.hex() == job_id and isinstance(job_id, str)


def test_facts_on_a_task():
    ref = ask.remote()
    found, own = zray.get(ref), facts()
    assert found["get_task_id"] == found["task_id"] == ref.task_id().hex() and found["get_actor_id"] is None
    assert (found["get_task_name"], found["get_task_function_name"]) == ("called", "ask")
    assert found["get_job_id"] == own["get_job_id"] and found["get_node_id"] == own["get_node_id"]
    assert found["get_worker_id"] == found["worker_id"] != own["get_worker_id"]
    assert found["get_assigned_resources"] == {"CPU": 0.5, "GPU": 1.0}
    assert found["get_accelerator_ids"] == found["get_resource_ids"] == {"GPU": ["0"]}
    assert found["get"] == {
        "job_id": own["get_job_id"],
        "node_id": own["get_node_id"],
        "namespace": "space",
        "task_id": found["task_id"],
    }


@pytest.mark.parametrize(
    ("cls", "options"),
    [(Plain, {}), (Plain, {"max_concurrency": 2}), (Asynchronous, {})],
    ids=["plain", "threaded", "async"],
)
def test_facts_on_an_actor(cls, options):
    actor = zray.remote(cls).options(name="me", num_cpus=0.25, **options).remote()
    ref = actor.ask.remote()
    found = zray.get(ref)
    assert found["get_actor_id"] == found["actor_id"] == found["get"]["actor_id"] == actor._actor_id.hex()
    assert found["get_actor_name"] == "me" and found["get_task_id"] == ref.task_id().hex()
    assert found["get_task_function_name"] == f"{cls.__qualname__}.ask"
    assert found["get_assigned_resources"] == {"CPU": 0.25}
    assert found["was_current_actor_reconstructed"] is False
    zray.kill(actor)


def test_actor_that_was_restarted():
    actor = zray.remote(max_restarts=1, max_task_retries=1)(Plain).remote()
    with pytest.raises(zray.exceptions.RayActorError):
        zray.get(actor.end.options(max_task_retries=0).remote())
    assert zray.get(actor.ask.remote())["was_current_actor_reconstructed"] is True


def test_facts_in_a_placement_group():
    group = zray.util.placement_group([{"CPU": 1}])
    strategy = zray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
    found = zray.get(zray.remote(facts).options(scheduling_strategy=strategy).remote())
    assert found["get_placement_group_id"] == found["current_placement_group_id"] == group.id.hex()
    assert found["should_capture_child_tasks_in_placement_group"] is False
    zray.util.remove_placement_group(group)
