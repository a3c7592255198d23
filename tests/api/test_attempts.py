"""The numbers of attempts in event records: of tasks and calls that raised, and of those whose process died."""

import os
import signal

import pytest

import zray
from zray.api.run_records import present_run, read_run
from zray.api.timeline import recorded_rings
from zray.store.event_ring import Kind
from zray.util.report.content import content_of
from zray.util.state import list_tasks


def attempt_of(path):
    """The number of this attempt, counted in a folder."""
    number = len(list(path.iterdir()))
    (path / str(number)).touch()
    return number


@zray.remote(max_retries=3, retry_exceptions=True)
def raises(path, count):
    number = attempt_of(path)
    if number < count:
        raise OSError("not yet")
    return number


@zray.remote(max_retries=1)
def dies(path):
    number = attempt_of(path)
    if not number:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@zray.remote
def plain():
    return 0


@zray.remote(max_restarts=1, max_task_retries=2)
class Caller:
    @zray.method(retry_exceptions=True)
    def call(self, path):
        number = attempt_of(path)
        if not number:
            raise OSError("not yet")
        return number


@pytest.fixture
def folders(tmp_path):
    paths = [tmp_path / name for name in ("raises", "dies", "call")]
    for path in paths:
        path.mkdir()
    return paths


def work(folders):
    caller = Caller.remote()
    refs = [raises.remote(folders[0], 2), dies.remote(folders[1]), caller.call.remote(folders[2]), plain.remote()]
    assert zray.get(refs) == [2, 1, 1, 0]
    return refs


def attempts(rings):
    """The attempts of the recorded runs of each function, in the order of their begins."""
    events = sorted((event for each in rings.values() for ring in each for event in ring.events), key=lambda e: e.begin)
    found = {}
    for event in events:
        if event.kind in (Kind.TASK, Kind.CALL):
            found.setdefault(event.name, []).append(event.attempt)
    return found


# A run that is killed has no record.
EXPECTED = {"raises": [0, 1, 2], "dies": [1], "Caller.call": [0, 1], "plain": [0]}


def test_runs_of_a_session_have_the_numbers_of_their_attempts(start, folders):
    start(num_cpus=1)
    refs = work(folders)
    assert attempts(recorded_rings("a test")[0]) == EXPECTED
    rows = {row.task_id: row.attempt_number for row in list_tasks(detail=True)}
    assert [rows[ref.task_id().hex()] for ref in refs] == [2, 1, 1, 0]
    shown = [event["args"] for event in zray.timeline() if event["name"] == "task::raises"]
    assert [args.get("attempt_number", 0) for args in shown] == [0, 1, 2]
    functions = {each["name"]: each["retries"] for each in content_of(present_run("a test"))["functions"]}
    assert {name: functions[name] for name in EXPECTED} == {"raises": 2, "dies": 1, "Caller.call": 1, "plain": 0}


def test_record_of_a_run_has_the_numbers_of_attempts(start, folders, tmp_path):
    path = tmp_path / "run.zrec"
    with start(num_cpus=1, record=path):
        work(folders)
    assert attempts(read_run(path).rings) == EXPECTED


def test_tasks_of_a_loop_that_are_retried_together_have_their_numbers(start, tmp_path):
    start(num_cpus=1)
    paths = [tmp_path / str(number) for number in range(20)]
    for path in paths:
        path.mkdir()
    counts = [number % 3 for number in range(20)]
    refs = [raises.remote(path, count) for path, count in zip(paths, counts, strict=True)]
    assert zray.get(refs) == counts
    runs = [event for each in recorded_rings("a test")[0].values() for ring in each for event in ring.events]
    for ref, count in zip(refs, counts, strict=True):
        own = [event for event in runs if event.kind == Kind.TASK and event.task_id == ref.task_id()]
        assert sorted(event.attempt for event in own) == [*range(count + 1)]
