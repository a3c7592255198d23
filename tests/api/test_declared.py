"""Declared resources bound what runs at once, and a task's name is what others see of it."""

import threading
import time

import pytest

import zray

CASES = [
    ({"num_gpus": 1}, 1),
    ({"num_gpus": 0.5}, 2),
    ({"resources": {"licence": 1.5}}, 1),
    ({"resources": {"licence": 0.5}}, 4),
]


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=4, num_gpus=1, resources={"licence": 2}) as context:
        yield context


@zray.remote(num_cpus=0)
def interval(seconds):
    began = time.monotonic()
    threading.Event().wait(seconds)
    return began, time.monotonic()


@zray.remote(num_cpus=0)
class Meeting:
    """Says when so many are in it at once."""

    def __init__(self):
        self.inside = 0

    def enter(self):
        self.inside += 1

    def count(self):
        return self.inside


@zray.remote(num_cpus=0)
def meet(meeting, wanted):
    zray.get(meeting.enter.remote())
    while zray.get(meeting.count.remote()) < wanted:
        pass
    return True


@pytest.mark.parametrize("options, at_once", CASES)
def test_no_more_run_at_once_than_the_resources_allow(options, at_once):
    intervals = zray.get([interval.options(**options).remote(0.02) for _ in range(3 * at_once)], timeout=30)
    for began, _ in intervals:
        assert sum(start <= began < end for start, end in intervals) <= at_once


@pytest.mark.parametrize("options, at_once", CASES)
def test_as_many_run_at_once_as_the_resources_allow(options, at_once):
    meeting = Meeting.remote()
    assert all(zray.get([meet.options(**options).remote(meeting, at_once) for _ in range(at_once)], timeout=30))


def test_a_tasks_name_is_seen_inside_and_in_its_errors():
    @zray.remote
    def plain(fails):
        if fails:
            raise KeyError("gone")
        return zray.get_runtime_context().get_task_name()

    assert zray.get(plain.options(name="sweep-7").remote(False)) == "sweep-7"
    assert "plain" in zray.get(plain.remote(False))
    with pytest.raises(KeyError, match="sweep-7"):
        zray.get(plain.options(name="sweep-7").remote(True))


def test_refs_in_annotations_may_say_of_what():
    def total(refs: list[zray.ObjectRef[int]]) -> zray.ObjectRef[int]:
        return zray.put(sum(zray.get(refs)))

    assert zray.get(total([zray.put(1), zray.put(2)])) == 3
