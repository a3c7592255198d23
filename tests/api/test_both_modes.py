"""Behaviours of tasks and waits, in a session and in local mode."""

import asyncio
import os
import sys

import numpy as np
import pytest

import zray
from tests.api.both_modes import SECONDS, Counter, add, fail
from tests.gates import until
from zray.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    GetTimeoutError,
    TaskError,
    TaskPlacementGroupRemoved,
    TaskUnschedulableError,
    WorkerCrashedError,
)
from zray.util import placement_group, remove_placement_group
from zray.util.placement_group import get_current_placement_group
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

pytestmark = pytest.mark.usefixtures("mode")


# --- tasks ---


def test_task_takes_values_refs_and_keywords():
    assert zray.get(add.remote(1, b=2)) == 3
    assert zray.get(add.remote(add.remote(1), b=add.remote(2))) == 5
    assert zray.get([add.remote(index) for index in range(20)]) == list(range(1, 21))


def test_names_of_a_local_function_are_without_its_function():
    @zray.remote
    def local(value):
        raise ValueError(zray.get_runtime_context().get_task_name())

    ref = local.remote(1)
    with pytest.raises(TaskError) as found:
        zray.get(ref)
    assert found.value.function_name == "local" and str(found.value.cause) == "local"
    assert repr(local) == "RemoteFunction(local)"
    for call in (local, local.remote):
        with pytest.raises(TypeError, match=r"(^|function )local\b") as refused:
            call()
        assert "<locals>" not in str(refused.value)


def test_task_returns_several_values_or_none():
    @zray.remote(num_returns=2)
    def divide(a, b):
        return a // b, a % b

    @zray.remote(num_returns=2)
    def generate():
        yield 1
        yield 2

    assert zray.get(divide.remote(7, 2)) == [3, 1]
    assert zray.get(generate.remote()) == [1, 2]
    assert add.options(num_returns=0).remote(1) is None
    with pytest.raises(ValueError, match="num_returns=3"):
        zray.get(divide.options(num_returns=3).remote(7, 2)[0])


def test_tasks_nest():
    @zray.remote
    def factorial(n):
        return 1 if n <= 1 else n * zray.get(factorial.remote(n - 1))

    @zray.remote
    def refs():
        return [add.remote(1), zray.put("inside")]

    assert zray.get(factorial.remote(10)) == 3628800
    assert zray.get(zray.get(refs.remote())) == [2, "inside"]


def test_arguments_and_results_are_copies():
    @zray.remote
    def append(items):
        items.append(4)
        return items

    items = [[1], 2, 3]
    first, second = append.remote(items), append.remote(items)
    assert zray.get(first) == zray.get(second) == [[1], 2, 3, 4]
    assert items == [[1], 2, 3]
    ref = zray.put(items)
    zray.get(ref)[0].append(5)
    assert zray.get(ref) == items
    assert zray.get(first) is not zray.get(first)


def test_captured_values_are_copies():
    captured = [1]

    @zray.remote
    def append():
        captured.append(2)
        return len(captured)

    assert zray.get(append.remote()) == 2
    assert captured == [1]


@pytest.mark.parametrize("size", [10, 100_000])
def test_arrays_are_read_only(size):
    @zray.remote
    def write(array):
        array[0] = 1.0

    @zray.remote(writable=True)
    def write_own(array):
        array[0] = 1.0
        return array

    array = np.zeros(size)
    ref = zray.put(array)
    found = zray.get(ref)
    assert not found.flags.writeable
    assert zray.get(ref, writable=True).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        zray.get(write.remote(ref))
    assert zray.get(write_own.remote(ref))[0] == 1.0
    assert array[0] == found[0] == 0.0


def test_an_error_names_the_task_and_shows_the_frames_of_the_user():
    with pytest.raises(ValueError, match="no 7") as raised:
        zray.get(fail.remote())
    error = raised.value
    assert isinstance(error, TaskError)
    assert error.function_name == "fail"
    assert type(error.cause) is ValueError
    assert error.pid
    assert error.node == zray.get_runtime_context().get_node_id()
    frames = [line for line in str(error).splitlines() if line.lstrip().startswith("File")]
    assert len(frames) == 1
    assert "in fail" in frames[0]


def test_an_error_passes_through_tasks_that_take_it():
    @zray.remote
    def outer():
        return zray.get(fail.remote())

    for ref in (add.remote(fail.remote()), outer.remote()):
        with pytest.raises(ValueError, match="no 7"):
            zray.get(ref)
    with pytest.raises(TypeError, match="missing"):
        add.remote()
    with pytest.raises(TypeError, match="pickle"):
        add.remote(sys._getframe())


def test_exceptions_are_retried(tmp_path):
    path = str(tmp_path / "attempts")

    def attempt(kind, until):
        with open(path, "a+") as file:
            file.write("x")
            file.seek(0)
            count = len(file.read())
        if count < until:
            raise kind(count)
        return count

    retried = zray.remote(max_retries=2, retry_exceptions=[OSError])(attempt)
    assert zray.get(retried.remote(OSError, 3)) == 3
    with pytest.raises(KeyError):
        zray.get(retried.remote(KeyError, 9))
    with pytest.raises(OSError):
        zray.get(retried.remote(OSError, 99))
    assert zray.get(retried.remote(OSError, 0)) == 8


def test_exit_of_a_task_is_the_end_of_its_worker():
    @zray.remote
    def leave(code):
        sys.exit(code)

    with pytest.raises(WorkerCrashedError, match=r"leave called sys.exit\(3\)"):
        zray.get(leave.remote(3))
    assert zray.get(add.remote(1)) == 2


# --- wait and its kin ---


def test_wait_and_as_completed_find_what_is_ready():
    refs = [add.remote(index) for index in range(4)]
    ready, rest = zray.wait(refs, num_returns=4, timeout=SECONDS)
    assert (ready, rest) == (refs, [])
    one, rest = zray.wait([fail.remote(), refs[0]], num_returns=2, timeout=SECONDS)
    assert len(one) == 2
    assert sorted(value for _, value in zray.as_completed(refs, with_results=True)) == [1, 2, 3, 4]


def test_waits_end_with_their_time():
    @zray.remote(num_cpus=0)
    class Never:
        async def come(self):
            await asyncio.Event().wait()

    never = Never.remote()
    ref = never.come.remote()
    with pytest.raises(GetTimeoutError):
        zray.get(ref, timeout=0.01)
    assert zray.wait([ref], timeout=0) == ([], [ref])
    with pytest.raises(GetTimeoutError):
        list(zray.as_completed([ref], timeout=0.01))
    zray.kill(never)
    with pytest.raises(ActorDiedError):
        zray.get(ref, timeout=SECONDS)


def test_refs_are_futures_and_awaitable():
    async def together():
        return await asyncio.gather(add.remote(1), add.remote(2))

    assert add.remote(1).future().result(SECONDS) == 2
    assert asyncio.run(together()) == [2, 3]
    with pytest.raises(ValueError, match="no 7"):
        fail.remote().future().result(SECONDS)


# --- surroundings ---


def test_context_of_tasks_and_actors():
    @zray.remote(num_cpus=1, resources={"disk": 2}, name="who")
    def who():
        context = zray.get_runtime_context()
        return (
            context.get_task_name(),
            context.get_task_id() is not None,
            context.get_actor_id(),
            context.get_assigned_resources(),
            context.namespace,
            zray.is_initialized(),
        )

    @zray.remote(num_cpus=0, name="me", resources={"disk": 1})
    class Me:
        def __init__(self):
            self.handle = zray.get_runtime_context().current_actor

        def who(self):
            context = zray.get_runtime_context()
            return (
                context.get_actor_name(),
                context.get_actor_id() == self.handle._actor_id.hex(),
                context.get_task_name(),
                context.get_assigned_resources(),
            )

    assert zray.get(who.remote()) == ("who", True, None, {"CPU": 1.0, "disk": 2.0}, "home", True)
    me = Me.remote()
    assert zray.get(me.who.remote()) == ("me", True, "Me.who", {"disk": 1.0})
    assert zray.get_runtime_context().get_task_id() is None
    assert zray.get_runtime_context().get_actor_id() is None
    zray.kill(me)


def test_request_that_the_node_can_never_meet_is_an_error():
    with pytest.raises(TaskUnschedulableError, match=r"asks for 3 CPU; .* has 2 CPU.*zray.init\(num_cpus=3\)"):
        zray.get(add.options(num_cpus=3).remote(1))
    with pytest.raises(ActorUnschedulableError, match="asks for 1 tape"):
        zray.get(Counter.options(resources={"tape": 1}).remote().add.remote())
    elsewhere = NodeAffinitySchedulingStrategy("0" * 16, soft=False)
    with pytest.raises(TaskUnschedulableError, match="which is not in the cluster"):
        zray.get(add.options(scheduling_strategy=elsewhere).remote(1))
    with pytest.raises(TaskUnschedulableError, match="there is none"):
        zray.get(add.options(label_selector={"zone": "moon"}).remote(1))
    here = NodeAffinitySchedulingStrategy(zray.get_runtime_context().get_node_id(), soft=False)
    assert zray.get(add.options(scheduling_strategy=here).remote(1)) == 2


def test_node_and_its_resources():
    assert zray.cluster_resources()["disk"] == 4.0
    assert zray.cluster_resources()["CPU"] == 2.0
    (node,) = zray.nodes()
    assert node["Alive"]
    assert node["NodeID"] == zray.get_runtime_context().get_node_id()
    until(lambda: zray.available_resources().get("disk") == 4.0)  # what former tests used is free
    counter = Counter.options(resources={"disk": 3}).remote()
    zray.get(counter.add.remote())
    assert zray.available_resources()["disk"] == 1.0
    zray.kill(counter)
    until(lambda: zray.available_resources()["disk"] == 4.0)


def test_placement_group_holds_tasks_and_actors():
    @zray.remote
    def group_here():
        return get_current_placement_group()

    group = placement_group([{"CPU": 1}, {"disk": 1}], name="bundles")
    assert zray.get(group.ready(), timeout=SECONDS) == group
    assert group.wait(SECONDS)
    inside = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    assert zray.get(group_here.options(scheduling_strategy=inside).remote()) == group
    with pytest.raises(ValueError, match="fits into no bundle"):
        zray.get(add.options(num_cpus=2, scheduling_strategy=inside).remote(1))
    actor = Counter.options(scheduling_strategy=inside).remote()
    assert zray.get(actor.add.remote()) == 1
    remove_placement_group(group)
    with pytest.raises(TaskPlacementGroupRemoved):
        zray.get(add.options(scheduling_strategy=inside).remote(1))
    with pytest.raises(zray.exceptions.RayError, match="removed"):
        zray.get(actor.add.remote())


def test_environment_variables_are_set_for_the_call():
    @zray.remote(runtime_env={"env_vars": {"ZRAY_TEST_MODE": "fast"}})
    def mode_here():
        return os.environ["ZRAY_TEST_MODE"], zray.get(inherited.remote()), zray.get_runtime_context().runtime_env

    @zray.remote
    def inherited():
        return os.environ.get("ZRAY_TEST_MODE")

    @zray.remote(num_cpus=0, runtime_env={"env_vars": {"ZRAY_TEST_MODE": "actor"}})
    class Actor:
        def mode(self):
            return os.environ["ZRAY_TEST_MODE"]

    expected = ("fast", "fast", {"env_vars": {"ZRAY_TEST_MODE": "fast"}})
    assert zray.get(mode_here.remote(), timeout=SECONDS) == expected
    assert zray.get(inherited.remote()) is None
    actor = Actor.remote()
    assert zray.get(actor.mode.remote()) == "actor"
    assert "ZRAY_TEST_MODE" not in os.environ
    zray.kill(actor)
