"""Tasks whose refs are dropped are cancelled where the program asks for it."""

import os
import select

import pytest

import zray
from tests.gates import until

pytestmark = pytest.mark.timeout(60)


@zray.remote
def sleep(folder, name):
    open(os.path.join(folder, f"{name} began"), "w").close()
    try:
        select.select([], [], [], 1000)
    except KeyboardInterrupt:
        open(os.path.join(folder, f"{name} was interrupted"), "w").close()
        raise


@zray.remote
def add(one, two):
    return one + two


@pytest.fixture
def dropping(nothing_left):
    with zray.init(num_cpus=1, cancel_unreferenced=True):
        yield


def test_task_whose_refs_are_dropped_is_cancelled(dropping, tmp_path):
    folder = str(tmp_path)
    running = sleep.remote(folder, "one")
    until(lambda: os.listdir(folder) == ["one began"])
    queued = sleep.remote(folder, "two")
    del running, queued
    until(lambda: sorted(os.listdir(folder)) == ["one began", "one was interrupted"])
    assert zray.get(add.remote(1, 2)) == 3
    assert sorted(os.listdir(folder)) == ["one began", "one was interrupted"]


def test_task_of_two_returns_runs_while_one_of_them_is_wanted(dropping):
    @zray.remote(num_returns=2)
    def two():
        return 1, 2

    first, second = two.remote()
    del first
    assert zray.get(second) == 2


def test_task_that_others_take_runs_though_its_ref_is_dropped(dropping):
    first = add.remote(1, 2)
    second = add.remote(first, 10)
    box = zray.put([add.remote(3, 4)])
    del first
    assert zray.get(second) == 13 and zray.get(zray.get(box)[0]) == 7


def test_call_whose_ref_is_dropped_runs(dropping):
    @zray.remote
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1

        def get(self):
            return self.count

    counter = Counter.remote()
    for _ in range(5):
        counter.add.remote()
    assert zray.get(counter.get.remote()) == 5
