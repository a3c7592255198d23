"""Names beside the core that programs written for Ray import: small modules, private ones, state, metrics."""

import os
import pickle
import warnings

import pytest

import zray
from tests.gates import until
from zray import exceptions
from zray.job_config import JobConfig
from zray.util import debug, metrics, state
from zray.util.annotations import Deprecated, DeveloperAPI, PublicAPI
from zray.util.placement_group import VALID_PLACEMENT_GROUP_STRATEGIES, validate_placement_group

pytestmark = pytest.mark.usefixtures("session")


@zray.remote
class Named:
    def ask(self):
        return 1


def test_names_of_modules_need_no_import():
    assert zray.types.ObjectRef is zray.ObjectRef
    assert zray._private.services.get_node_ip_address() == zray.util.get_node_ip_address() == "127.0.0.1"
    assert zray._private.utils.get_num_cpus() >= 1
    assert 0 < zray._private.utils.estimate_available_memory() < zray._private.utils.get_system_memory()
    assert zray._private.utils.get_shared_memory_bytes() > 0
    assert zray._private.utils.hex_to_binary(zray._private.utils.binary_to_hex(b"\x01")) == b"\x01"
    assert zray._private.utils.decode(b"a") == zray._private.utils.decode("a") == "a"
    with pytest.raises(AttributeError):
        _ = zray._private.nope


def test_visible_gpus_by_their_private_names(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert zray._private.utils.get_cuda_visible_devices() == []
    zray._private.utils.set_cuda_visible_devices([1, 2])
    assert zray._private.utils.get_cuda_visible_devices() == ["1", "2"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert zray._private.utils.get_cuda_visible_devices() is None


def test_errors_by_further_names():
    assert issubclass(exceptions.ReferenceCountingAssertionError, (exceptions.ObjectLostError, AssertionError))
    assert exceptions.RayWorkerError is exceptions.WorkerCrashedError
    assert VALID_PLACEMENT_GROUP_STRATEGIES == {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
    with pytest.raises(ValueError):
        validate_placement_group([], "PACK")


def test_free_has_its_private_name():
    assert zray._private.internal_api.free is zray.internal.free is zray.util.free


def test_annotations_return_what_they_decorate():
    def f():
        """Nothing."""

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for annotation in (PublicAPI, DeveloperAPI, Deprecated):
            assert annotation(f) is annotation()(f) is annotation(stability="beta")(f) is f


def test_log_once():
    debug.reset_log_once()
    assert [debug.log_once("a"), debug.log_once("a"), debug.log_once("b")] == [True, False, True]
    debug.reset_log_once("a")
    assert debug.log_once("a") and not debug.log_once("b")


def test_metrics_keep_their_values_in_the_process():
    counter = metrics.Counter("images", "read so far", tag_keys=("kind",)).set_default_tags({"kind": "png"})
    counter.inc()
    counter.inc(2.5, tags={"kind": "jpg"})
    assert (counter.value(), counter.value({"kind": "jpg"}), counter.value({"kind": "gif"})) == (1, 2.5, 0)
    assert counter.info["tag_keys"] == ("kind",) and counter.info["description"] == "read so far"
    gauge = metrics.Gauge("length")
    gauge.set(3)
    gauge.set(2)
    assert gauge.value() == 2
    histogram = metrics.Histogram("seconds", boundaries=[0.1, 1])
    for number in (0.05, 0.1, 0.5, 7):
        histogram.observe(number)
    assert histogram.value() == {"count": 4, "sum": pytest.approx(7.65), "buckets": [2, 1, 1]}
    copy = pickle.loads(pickle.dumps(histogram))
    assert copy.info == histogram.info and copy.value()["count"] == 0
    for wrong in (
        lambda: counter.inc(0),
        lambda: counter.inc(1, {"nope": "a"}),
        lambda: metrics.Histogram("a"),
        lambda: metrics.Histogram("a", boundaries=[2, 1]),
        lambda: metrics.Counter(""),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_metric_of_the_program_in_a_task():
    counter = metrics.Counter("rows")

    @zray.remote
    def work():
        counter.inc(3)
        return counter.value()

    assert zray.get(work.remote()) == 3 and counter.value() == 0


def test_state_of_nodes_and_the_program():
    (node,) = state.list_nodes(filters=[("state", "=", "ALIVE")])
    own = zray.get_runtime_context().get_node_id()
    assert node.node_id == node["node_id"] == own and node.resources_total["CPU"] == 2
    assert state.get_node(own) == node and state.get_node("00") is None
    assert state.list_nodes(filters=[("node_id", "!=", own)]) == []
    assert [job.job_id for job in state.list_jobs()] == [zray.get_runtime_context().get_job_id()]
    with pytest.raises(AttributeError, match="node_ip"):
        _ = node.nope
    for wrong in ({"limit": 0}, {"filters": [("state", "like", 1)]}, {"filters": [("state",)]}):
        with pytest.raises(ValueError):
            state.list_nodes(**wrong)


def test_state_of_tasks_and_calls(gate):
    @zray.remote(num_cpus=2, name="waits")
    def wait():
        gate.wait()
        return os.getpid()

    @zray.remote
    def take(value):
        return value

    actor = Named.remote()
    first = wait.remote()
    second, third = wait.remote(), take.remote(first)
    call = actor.__ray_call__.remote(lambda self: gate.wait())
    until(lambda: sum(task.state == "RUNNING" for task in state.list_tasks()) == 2)
    found = {task.task_id: task for task in state.list_tasks() if task.state not in ("FINISHED", "FAILED")}
    ids = [ref.task_id().hex() for ref in (first, second, third, call)]
    assert set(found) == set(ids)
    states = [found[task_id].state for task_id in ids]
    assert states[:1] + states[2:] == ["RUNNING", "PENDING_ARGS_AVAIL", "RUNNING"]
    assert states[1] in ("PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER")
    names = [found[task_id].name for task_id in ids]
    assert names == ["waits", "waits", "take", "Named.__ray_call__"]
    assert found[ids[3]].type == "ACTOR_TASK" and found[ids[3]].actor_id == actor._actor_id.hex()
    assert found[ids[0]].type == "NORMAL_TASK" and found[ids[0]].actor_id is None
    assert state.get_task(ids[2]).state == "PENDING_ARGS_AVAIL" and state.get_task("00") is None
    assert state.summarize_tasks()["cluster"]["summary"][found[ids[2]].name]["state_counts"] == {
        "PENDING_ARGS_AVAIL": 1
    }
    pid = found[ids[0]].worker_pid
    gate.open()
    assert zray.get([first, third, call]) == [pid, pid, None] and zray.get(second)
    ended = {task.task_id: task for task in state.list_tasks(limit=10_000)}
    assert {ended[task_id].state for task_id in ids} == {"FINISHED"} and ended[ids[0]].worker_pid == pid


def test_state_of_actors_and_groups():
    actors = [Named.options(name=name, namespace="here").remote() for name in ("a", "b")]
    actors.append(Named.remote())
    pids = zray.get([actor.__ray_call__.remote(lambda self: os.getpid()) for actor in actors])
    found = state.list_actors(filters=[("class_name", "=", "Named"), ("state", "=", "ALIVE")])
    assert [(actor.name, actor.ray_namespace) for actor in found[:2]] == [("a", "here"), ("b", "here")]
    assert [actor.pid for actor in found] == pids and found[2].actor_id == actors[2]._actor_id.hex()
    assert {actor.job_id for actor in found} == {zray.get_runtime_context().get_job_id()}
    assert state.get_actor(found[0].actor_id).name == "a" and len(state.list_actors(limit=1)) == 1
    assert state.get_actor("00") is None
    assert state.summarize_actors()["cluster"]["summary"]["Named"]["state_counts"]["ALIVE"] == 3
    group = zray.util.placement_group([{"CPU": 1}], name="group")
    zray.get(group.ready())
    (row,) = state.list_placement_groups(filters=[("name", "=", "group")])
    assert row.state == "CREATED" and state.get_placement_group(group.id.hex()) == row
    zray.util.remove_placement_group(group)


def test_job_config_fills_arguments_of_init():
    from zray.api.job_config import with_job_config

    config = JobConfig(ray_namespace="space", runtime_env={"env_vars": {"A": "1"}}, default_actor_lifetime=None)
    config.set_metadata("owner", "me")
    assert with_job_config(config, None, None) == ("space", {"env_vars": {"A": "1"}})
    assert with_job_config(config, "other", {"env_vars": {"B": "2"}}) == ("other", {"env_vars": {"B": "2"}})
    assert with_job_config(None, None, None) == (None, None)
    config.set_ray_namespace("next")
    config.set_runtime_env(None)
    assert with_job_config(config, None, None) == ("next", None)
    with pytest.raises(NotImplementedError, match="lifetime"):
        JobConfig(default_actor_lifetime="detached")
    with pytest.raises(TypeError, match="must be a JobConfig"):
        zray.init(job_config={"ray_namespace": "a"}, ignore_reinit_error=True)
