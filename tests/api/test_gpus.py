"""GPUs by number: what tasks and actors are told of those that a node was declared to have."""

import os
import signal

import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.host.process import visible_gpus as gpus_of_host
from zray.util import placement_group, remove_placement_group
from zray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

SECONDS = 30
VISIBLE = "CUDA_VISIBLE_DEVICES"


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """This process's environment says nothing of any."""
    monkeypatch.delenv(VISIBLE, raising=False)


@pytest.fixture
def gpus(start):
    """Four of them, declared."""
    return start(num_cpus=4, num_gpus=4)


# As it was when the code of the program came to the worker: libraries look once.
@zray.remote(num_cpus=0)
class Seen:
    at_first = None

    def __init__(self):
        self.at_first = os.environ.get(VISIBLE)

    def look(self):
        context = zray.get_runtime_context()
        assert context.get_accelerator_ids() == {"GPU": [str(name) for name in zray.get_gpu_ids()]}
        assert self.at_first == os.environ.get(VISIBLE)
        return zray.get_gpu_ids(), self.at_first

    def pid(self):
        return os.getpid()


@zray.remote(num_cpus=0)
def look():
    assert zray.get_runtime_context().get_accelerator_ids() == {"GPU": [str(name) for name in zray.get_gpu_ids()]}
    return zray.get_gpu_ids(), os.environ.get(VISIBLE)


@zray.remote(num_cpus=1)
def look_twice():
    """A child's are its own, also where its worker is ours."""
    child = zray.get(look.options(num_gpus=2).remote())
    return zray.get_gpu_ids(), os.environ.get(VISIBLE), child


def test_a_task_has_as_many_as_it_asks_for(gpus):
    assert zray.get(look.options(num_gpus=2).remote()) == ([0, 1], "0,1")
    assert zray.get(look.options(num_gpus=4).remote()) == ([0, 1, 2, 3], "0,1,2,3")
    assert zray.get(look.options(num_gpus=0.5).remote()) == ([0], "0")
    assert zray.get(look.remote()) == ([], "")
    assert zray.get_gpu_ids() == []


def test_the_same_worker_has_others_for_its_next_task(gpus):
    """max_calls=0: it does not end behind one that had a GPU."""

    @zray.remote(num_cpus=4, max_calls=0)
    def look_here():
        return os.getpid(), zray.get_gpu_ids(), os.environ.get(VISIBLE)

    found = [zray.get(look_here.options(num_gpus=count).remote()) for count in (1, 0, 3, 0.2)]
    assert [ids for _, ids, _ in found] == [[0], [], [0, 1, 2], [0]]
    assert [names for _, _, names in found] == ["0", "", "0,1,2", "0"]
    assert len({pid for pid, _, _ in found}) < len(found)


def test_parts_of_one_share_it_and_actors_keep_theirs(gpus):
    actors = [Seen.options(num_gpus=amount).remote() for amount in (0.5, 0.5, 0.75, 0.25, 1)]
    seen = zray.get([actor.look.remote() for actor in actors])
    assert all(names == str(ids[0]) and len(ids) == 1 for ids, names in seen)
    shared = sorted(ids[0] for ids, _ in seen)
    assert sorted(shared.count(name) for name in set(shared)) == [1, 2, 2]
    free = ({0, 1, 2, 3} - set(shared)).pop()
    assert zray.get(look.options(num_gpus=1).remote()) == ([free], str(free))
    assert zray.get([actor.look.remote() for actor in actors]) == seen
    assert zray.available_resources()["GPU"] <= 1


def test_what_a_killed_process_had_is_there_again(gpus):
    actor = Seen.options(num_gpus=4, max_restarts=1, max_task_retries=-1).remote()
    before = zray.get(actor.look.remote())
    os.kill(zray.get(actor.pid.remote()), signal.SIGKILL)
    assert zray.get(actor.look.remote(), timeout=SECONDS) == before == ([0, 1, 2, 3], "0,1,2,3")
    zray.kill(actor)
    assert zray.get(look.options(num_gpus=3).remote(), timeout=SECONDS)[0] == [0, 1, 2]


def test_a_bundle_has_its_own(gpus):
    group = placement_group([{"GPU": 1, "CPU": 1}, {"GPU": 2}])
    assert group.wait(SECONDS)
    strategies = [PlacementGroupSchedulingStrategy(group, index) for index in (0, 1)]
    inside = [
        zray.get(look.options(num_gpus=count, scheduling_strategy=strategy).remote())[0]
        for count, strategy in ((1, strategies[0]), (2, strategies[1]), (0.5, strategies[1]))
    ]
    outside = zray.get(look.options(num_gpus=1).remote())[0]
    assert sorted([*inside[0], *inside[1], *outside]) == [0, 1, 2, 3]
    assert inside[2][0] in inside[1]
    remove_placement_group(group)
    assert zray.get(look.options(num_gpus=4).remote(), timeout=SECONDS)[0] == [0, 1, 2, 3]


def test_a_child_inside_the_wait_of_its_parent(start):
    """One CPU, and more parents than workers: some children run in the worker of their parent."""
    start(num_cpus=1, num_gpus=2)
    for ids, names, child in zray.get([look_twice.remote() for _ in range(20)]):
        assert (ids, names, child) == ([], "", ([0, 1], "0,1"))


def test_what_the_node_calls_them(start, monkeypatch):
    monkeypatch.setenv(VISIBLE, "2,GPU-5f,7")
    start(num_cpus=1, num_gpus=2)
    assert zray.get_gpu_ids() == [2, "GPU-5f", 7]
    assert zray.get_runtime_context().get_accelerator_ids() == {"GPU": ["2", "GPU-5f", "7"]}
    assert zray.get(look.options(num_gpus=2).remote()) == ([2, "GPU-5f"], "2,GPU-5f")
    assert zray.get(look.remote()) == ([], "")


def test_a_node_without_any_leaves_the_environment_alone(start, monkeypatch):
    monkeypatch.setenv(VISIBLE, "3")
    start(num_cpus=1, num_gpus=0)
    assert zray.get(look.remote()) == ([], "3")


@pytest.mark.parametrize("visible, count", [("0,1", 3), ("GPU-5f", 2), ("0,-1,1", 2)])
def test_a_node_cannot_have_more_than_its_environment_names(start, monkeypatch, visible, count):
    monkeypatch.setenv(VISIBLE, visible)
    with pytest.raises(ValueError, match=VISIBLE):
        start(num_gpus=count)
    assert not zray.is_initialized()


@pytest.mark.parametrize("visible", ["GPU-\x1b[31m", "x" * 201, "GPU-\udcff"])
def test_what_is_no_name_is_refused(start, monkeypatch, visible):
    monkeypatch.setenv(VISIBLE, visible)
    with pytest.raises(ValueError, match="no name of a GPU"):
        start(num_gpus=1)
    start(num_cpus=1)


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_where_it_names_none_they_are_numbers(start, monkeypatch, visible):
    monkeypatch.setenv(VISIBLE, visible)
    start(num_cpus=1, num_gpus=1)
    assert zray.get_gpu_ids() == []
    assert zray.get(look.options(num_gpus=1).remote()) == ([0], "0")


@pytest.mark.parametrize("amount", [1.5, 2.0001])
def test_above_one_they_must_be_whole(amount):
    for what in (look, Seen):
        with pytest.raises(ValueError, match="whole"):
            what.options(num_gpus=amount)
    with pytest.raises(ValueError, match="whole"):
        zray.remote(num_gpus=amount)(lambda: None)
    with pytest.raises(ValueError, match="whole"):
        zray.init(num_gpus=amount)
    with pytest.raises(ValueError, match="1,024"):
        zray.init(num_gpus=1e8)
    assert not zray.is_initialized()


@pytest.mark.slow
def test_each_node_of_a_cluster_has_its_own(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        for count in (2, 1):
            cluster.add_node(num_cpus=1, num_gpus=count)
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            until(lambda: zray.cluster_resources().get("GPU") == 3, SECONDS)
            actors = [Seen.options(num_gpus=1).remote() for _ in range(3)]
            seen = zray.get([actor.look.remote() for actor in actors], timeout=SECONDS)
            assert sorted(ids for ids, _ in seen) == [[0], [0], [1]]
            zray.kill(actors[seen.index(([1], "1"))])
            again = zray.get(look.options(num_gpus=1).remote(), timeout=SECONDS)
            assert again == ([1], "1")


@pytest.fixture
def devices(tmp_path, monkeypatch):
    """Device files of two GPUs, and others of the same driver."""
    for name in ("nvidia0", "nvidia7", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"):
        (tmp_path / name).touch()
    monkeypatch.setattr(gpus_of_host, "DEVICES", str(tmp_path))


def test_gpus_are_detected_where_a_session_declares_none(start, devices):
    start(num_cpus=1)
    assert zray.cluster_resources()["GPU"] == 2
    assert zray.get(look.options(num_gpus=2).remote(), timeout=SECONDS) == ([0, 1], "0,1")
    assert zray.get(look.remote(), timeout=SECONDS) == ([], "")


@pytest.mark.parametrize(("names", "count"), [("", 0), ("-1", 0), ("3", 1), ("0,GPU-5f,2", 3)])
def test_environment_decides_how_many_gpus_are_detected(monkeypatch, devices, names, count):
    monkeypatch.setenv(VISIBLE, names)
    assert gpus_of_host.detected() == count


def test_gpus_are_as_declared_where_a_session_declares_them(start, devices):
    start(num_cpus=1, num_gpus=0)
    assert "GPU" not in zray.cluster_resources()


def test_machine_without_devices_has_no_gpu(monkeypatch):
    monkeypatch.setattr(gpus_of_host, "DEVICES", "/nonexistent")
    assert gpus_of_host.detected() == 0


@zray.remote(num_cpus=1)
def mark_worker():
    """What a library does that has looked for GPUs: it remembers for the life of the process."""
    os.marked_by_a_test = True
    return os.getpid()


@zray.remote(num_cpus=0, num_gpus=1, max_calls=0)
def is_marked():
    return getattr(os, "marked_by_a_test", False)


@zray.remote(num_cpus=0, num_gpus=1)
def child_without():
    return zray.get(look.remote(), timeout=SECONDS), os.environ.get(VISIBLE)


def test_task_with_gpus_runs_in_no_worker_that_has_run_tasks_without(start):
    """CUDA looks at CUDA_VISIBLE_DEVICES once, so such a worker would see no GPU for good."""
    start(num_cpus=2, num_gpus=1)
    zray.get([mark_worker.remote() for _ in range(8)], timeout=SECONDS)
    assert zray.get([is_marked.remote() for _ in range(4)], timeout=SECONDS) == [False] * 4


def test_child_of_a_task_with_gpus_has_none(start):
    start(num_cpus=1, num_gpus=1)
    assert zray.get(child_without.remote(), timeout=SECONDS) == (([], ""), "0")
