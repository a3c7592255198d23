"""Threads of math libraries: the CPUs of a task or actor, unless the user says otherwise."""

import os

import pytest

import zray
from zray.host.process import math_threads as threads_module
from zray.host.process.math_threads import FIRST, VARIABLES, Threads
from zray.wire.task_spec import RESOURCE_UNIT


@pytest.fixture
def fresh(monkeypatch):
    """A process with eight CPUs and no variable, and what its libraries are told."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that they are as before afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(threads_module, "_loaded_openblas", lambda: [])
    return Threads()


def cpus(count, name="CPU"):
    return {name: int(count * RESOURCE_UNIT)}


def values():
    return [os.environ[name] for name in VARIABLES]


@pytest.mark.parametrize("amount, count", [(1, 1), (0, 1), (0.5, 1), (2, 2), (3.5, 3), (100, 8)])
def test_they_are_as_many_as_the_cpus_asked_for(fresh, amount, count):
    fresh.begin()
    assert values() == ["1"] * 4
    fresh.fit(cpus(amount))
    assert values() == [str(count)] * 4 and fresh.count == count
    fresh.fit({})
    assert values() == ["1"] * 4 and fresh.count == 1


def test_number_of_the_users_environment_holds_for_all(fresh, monkeypatch):
    monkeypatch.setenv(FIRST, "3")
    fresh.begin()
    fresh.fit(cpus(6))
    assert values() == ["3"] * 4 and fresh.count == 3


def test_number_of_env_vars_holds_for_all_without_one_of_their_own(fresh, monkeypatch):
    fresh.begin()
    monkeypatch.setenv("MKL_NUM_THREADS", "5")
    monkeypatch.setenv(FIRST, "2")
    fresh.user_has_set(["HOME", "MKL_NUM_THREADS", FIRST])
    fresh.fit(cpus(6))
    assert values() == ["2", "2", "5", "2"] and fresh.count == 2


def test_libraries_that_are_loaded_are_told_once(fresh, monkeypatch):
    told = []

    class Library:
        set_num_threads = told.append

    monkeypatch.setitem(threads_module.sys.modules, "numexpr", Library)
    fresh.begin()
    for count in (1, 4, 4, 1):
        fresh.fit(cpus(count))
    assert told == [4, 1]


@pytest.mark.parametrize("variable, module", [("MKL_NUM_THREADS", "torch"), ("NUMEXPR_NUM_THREADS", "numexpr")])
def test_own_variable_of_a_loaded_library_holds_for_it(fresh, monkeypatch, variable, module):
    told = {"torch": [], "numexpr": []}
    for name, numbers in told.items():
        library = type(name, (), {"set_num_threads": staticmethod(numbers.append)})
        monkeypatch.setitem(threads_module.sys.modules, name, library)
    fresh.begin()
    monkeypatch.setenv(variable, "2")
    fresh.user_has_set([variable])
    assert told.pop(module) == [2] and list(told.values()) == [[]]
    fresh.fit(cpus(4))
    assert list(told.values()) == [[4]] and os.environ[variable] == "2" and fresh.count == 4


@zray.remote
def threads_of_numpy():
    import numpy  # noqa: F401
    import threadpoolctl

    found = {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["internal_api"] == "openblas"}
    return found, os.environ["OPENBLAS_NUM_THREADS"]


def test_number_for_openblas_in_env_vars_holds_for_numpy(start, monkeypatch):
    pytest.importorskip("threadpoolctl")
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    start(num_cpus=1)
    two = threads_of_numpy.options(runtime_env={"env_vars": {"OPENBLAS_NUM_THREADS": "2"}})
    assert zray.get([two.remote(), threads_of_numpy.remote()]) == [({2}, "2"), ({1}, "1")]


@zray.remote
def look():
    return [os.environ[name] for name in VARIABLES]


@zray.remote(num_cpus=2)
def look_twice():
    before = zray.get(look.remote())
    return before, zray.get(look.options(num_cpus=2).remote()), [os.environ[name] for name in VARIABLES]


@zray.remote(num_cpus=2)
class Looker:
    def look(self):
        return [os.environ[name] for name in VARIABLES]


def test_tasks_and_actors_have_those_of_their_cpus(start, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    start(num_cpus=4)
    two = [str(min(2, len(os.sched_getaffinity(0))))] * 4
    assert zray.get(look.remote()) == ["1"] * 4
    assert zray.get(look_twice.remote()) == (["1"] * 4, two, two)
    assert zray.get(look.remote()) == ["1"] * 4
    assert zray.get(Looker.remote().look.remote()) == two
    assert zray.get(look.options(runtime_env={"env_vars": {FIRST: "2"}}).remote()) == ["2"] * 4
