"""Memory of workers: a task or actor above its `memory=` is ended, and everything else goes on."""

import numpy as np
import pytest

import zray
from zray.exceptions import OutOfMemoryError

pytestmark = pytest.mark.timeout(90)

MB = 1_000_000


def fill(size):
    """Take so many bytes of memory, a step at a time, until the process is ended."""
    kept = []
    while len(kept) * MB < size:
        kept.append(np.ones(MB // 8))
    while size > 300 * MB:
        kept[0] += 1  # until the next look
    return len(kept)


def test_task_above_its_memory_is_ended_and_the_others_finish(start):
    start(num_cpus=2)
    task = zray.remote(fill)
    hog = task.options(memory=100 * MB, max_retries=0, name="hog").remote(400 * MB)
    good = [task.options(memory=200 * MB).remote(50 * MB) for _ in range(20)]
    with pytest.raises(OutOfMemoryError, match="task hog.*memory=100000000 allows 100.0 MB: request more") as caught:
        zray.get(hog)
    assert caught.value.pid > 0
    assert zray.get(good) == [50] * 20


def test_retry_of_a_task_above_its_memory_may_need_less(start, tmp_path):
    start(num_cpus=1)
    marks = str(tmp_path / "runs")

    @zray.remote(memory=100 * MB, max_retries=2)
    def grow():
        with open(marks, "a") as file:
            file.write("x")
        with open(marks) as file:
            return fill(400 * MB if len(file.read()) == 1 else 10 * MB)

    assert zray.get(grow.remote()) == 10


def test_actor_above_its_memory_is_ended_with_all_its_calls(start):
    start(num_cpus=1)

    @zray.remote(memory=100 * MB)
    class Hog:
        def grow(self):
            return fill(400 * MB)

    hog = Hog.remote()
    calls = [hog.grow.remote(), hog.grow.remote()]
    for call in calls:
        with pytest.raises(OutOfMemoryError, match="actor Hog"):
            zray.get(call)


def test_arrays_in_the_object_store_are_not_the_memory_of_a_worker(start):
    start(num_cpus=1, object_store_memory=400 * MB)
    shared = zray.put(np.ones(30 * MB))

    @zray.remote(memory=100 * MB, max_retries=0)
    def read(array):
        return sum(float(array.sum()) for _ in range(20))

    assert zray.get(read.remote(shared)) == 20 * 30 * MB


def test_kernel_ends_workers_before_the_node_and_the_program(start):
    start(num_cpus=1)

    @zray.remote
    def score():
        with open("/proc/self/oom_score_adj") as file:
            return int(file.read())

    with open("/proc/self/oom_score_adj") as file:
        assert zray.get(score.remote()) > int(file.read())
