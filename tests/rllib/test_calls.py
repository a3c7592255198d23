"""Calls of workers that are under way, and workers that hang."""

import os
import threading

import pytest

import zray
from tests.gates import Gate
from zray.rllib import calls
from zray.rllib.calls import Calls, sentence_of
from zray.rllib.environments import InvalidEnvironmentError


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


@zray.remote(max_restarts=-1, max_task_retries=-1)
class Worker:
    def same(self, value):
        return value

    def wait(self, gate):
        gate.wait()
        return "opened"

    def hang_once(self, file):
        if not file.exists():
            file.touch()
            threading.Event().wait()
        return "again"

    def hang(self):
        threading.Event().wait()


@pytest.fixture
def holders():
    """Two actors that hold all CPUs, as the workers of another algorithm do."""
    found = [Worker.options(num_cpus=1).remote() for _ in range(2)]
    zray.get([each.same.remote(0) for each in found])
    yield found
    for each in found:
        zray.kill(each)


def answers(found):
    return [(zray.get(ref), worker) for ref, worker in found]


def test_sentence_of_an_environment_comes_first_with_the_lines_of_the_program():
    folder = os.path.dirname(zray.__file__)
    report = f"""task GroupHost.rollout (pid=7) raised:
Traceback (most recent call last):
  File "/home/me/shop.py", line 11, in step
    self.sell()
    ^^^^^^^^^^^
  File "{folder}/rllib/groups.py", line 137, in rollout
    env.step(action)
ConnectionError: gone

Traceback (most recent call last):
  File "{folder}/rllib/groups.py", line 140, in rollout
    raise problem
zray.rllib.environments.InvalidEnvironmentError: step raised ConnectionError: gone,
in environment Shop. (pid=7, node=ab12: its constructor raised)"""
    assert sentence_of(report).splitlines() == [
        "step raised ConnectionError: gone,",
        "in environment Shop.",
        "In the worker:",
        '  File "/home/me/shop.py", line 11, in step',
        "    self.sell()",
        "    ^^^^^^^^^^^",
    ]
    assert sentence_of("task GroupHost.rollout raised: MemoryError") is None


def test_ended_calls_come_one_at_a_time_or_all_together(tmp_path):
    workers, gate = [Worker.remote(), Worker.remote()], Gate(tmp_path / "open")
    found = Calls(workers, 60)
    found.add(workers[0].wait.remote(gate), 0)
    found.add(workers[1].same.remote(5), 1)
    assert answers(found.wait()) == [(5, 1)] and len(found) == 1
    found.add(workers[1].same.remote(6), 1)
    gate.open()
    assert answers(found.wait(2)) == [("opened", 0), (6, 1)] and not found


def test_worker_that_hangs_runs_all_of_its_calls_again(tmp_path, caplog):
    workers = [Worker.remote(), Worker.remote()]
    zray.get([worker.same.remote(0) for worker in workers])
    found = Calls(workers, 0.5)
    found.add(workers[0].hang_once.remote(tmp_path / "hung"), 0)
    found.add(workers[0].same.remote(1), 0)
    found.add(workers[1].same.remote(2), 1)
    with caplog.at_level("WARNING", "zray.rllib"):
        assert answers(found.wait(3)) == [("again", 0), (1, 0), (2, 1)]
    assert "Worker 1 is replaced" in caplog.text and "Worker 2" not in caplog.text


def test_call_that_hangs_in_each_process_is_an_error(monkeypatch):
    monkeypatch.setattr(calls, "REPLACEMENTS_MAX", 1)
    worker = Worker.remote()
    found = Calls([worker], 0.1)
    found.add(worker.hang.remote(), 0)
    with pytest.raises(InvalidEnvironmentError, match="worker 1 did not end in 2 processes, within 0.2 s"):
        found.wait()
    zray.kill(worker)


def test_wait_for_a_process_says_who_runs_and_what_to_do(holders, monkeypatch):
    monkeypatch.setattr(calls, "SAID_AFTER_S", 0.05)
    said = []

    def warning(text, *values):
        said.append(text % values)
        zray.kill(holders[0])

    monkeypatch.setattr(calls.logger, "warning", warning)
    started = set()
    worker = Worker.options(num_cpus=1).remote()
    for value in (1, 2):
        found = Calls([worker], 60, started)
        found.add(worker.same.remote(value), 0)
        assert answers(found.wait()) == [(value, 0)] and started == {0}
    assert len(said) == 1
    assert said[0].startswith("1 of 1 env runners wait for resources, which other actors may hold: Worker x2.  ")
    for advice in ("Call algo.stop()", "fewer num_env_runners", "num_cpus_per_env_runner"):
        assert advice in said[0]
    zray.kill(worker)


def test_worker_without_a_process_does_not_count_as_hanging(holders, monkeypatch):
    monkeypatch.setattr(calls, "REPLACEMENTS_MAX", 0)
    worker = Worker.options(num_cpus=1).remote()
    found = Calls([worker], 0.2, set())
    looks, look = [], found._without_process

    def without_process():
        looks.append(look())
        zray.kill(holders[0])
        found._timeout_s = 60  # a new process takes its time
        return looks[-1]

    monkeypatch.setattr(found, "_without_process", without_process)
    found.add(worker.same.remote(1), 0)
    assert answers(found.wait()) == [(1, 0)] and looks[0] == {0}
    zray.kill(worker)
