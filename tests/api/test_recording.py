"""Record of a whole run: what ZRAY_RECORD and init(record=) write, also at an end by an error or by signals."""

import os
import signal
import subprocess
import sys

import pytest

import zray
from tests.scripts import environment, run_script, start_script
from zray.api import record_file, recording
from zray.api.run_records import read_run
from zray.store.event_ring import COUNT_MAX, Kind
from zray.util.report.critical_path import critical_path
from zray.util.report.runs import PROGRAM, runs_of

RUN = """
import os, signal, sys, time, zray

@zray.remote
def work(number):
    return number

@zray.remote
def sleep():
    print("asleep", flush=True)
    time.sleep(60)

if __name__ == "__main__":
    zray.init(num_cpus=1)
    assert zray.get([work.remote(number) for number in range(10)]) == [*range(10)]
"""


@zray.remote
def work(number):
    return number


@zray.remote
def total(*numbers):
    return sum(numbers)


@zray.remote
class Keeper:
    def pid(self):
        return os.getpid()


def events(run, kind=Kind.TASK, name=None):
    all_events = [event for rings in run.rings.values() for ring in rings for event in ring.events]
    return [event for event in all_events if event.kind == kind and name in (None, event.name)]


def lost(run):
    return sum(ring.lost for rings in run.rings.values() for ring in rings)


def recorded(tmp_path, code, name="run.zrec", **variables):
    """Run a script with ZRAY_RECORD; the script's result, and the record."""
    os.environ["ZRAY_RECORD"] = str(tmp_path / name)
    os.environ.update(variables)
    try:
        result = run_script(tmp_path, code)
    finally:
        for variable in ("ZRAY_RECORD", *variables):
            del os.environ[variable]
    return result


def test_record_has_tasks_dependencies_nodes_and_memory(start, tmp_path):
    path = tmp_path / "run.zrec"
    start(num_cpus=2, record=path)
    assert zray.get(total.remote(*[work.remote(number) for number in range(5)])) == 10
    zray.shutdown()
    run = read_run(path)
    assert len(events(run, name="work")) == 5
    (sum_,) = events(run, name="total")
    assert {event.task_id for event in events(run, name="work")} == {*sum_.dependencies}
    assert sum(event.tasks for event in events(run, Kind.SUBMIT)) == 6 and events(run, Kind.GET)
    ((node, facts),) = run.nodes.items()
    assert facts["resources"]["CPU"] == 2 and [*run.rings] == [node]
    assert run.header["pid"] == os.getpid() and run.header["zray"] == zray.__version__
    assert run.header["start"] <= run.memory[0][0] <= run.end and run.error == ""
    assert run.memory[-1][1][node]["total"] > run.memory[-1][1][node]["used"] > 0
    assert lost(run) == run.left_out == 0


def test_long_run_is_whole_and_has_no_record_twice(start, tmp_path):
    """The run makes several times as many records as a ring has."""
    path, count = tmp_path / "run.zrec", 3 * COUNT_MAX
    start(num_cpus=1, record=path)
    for begin in range(0, count, 2048):
        zray.get([work.remote(number) for number in range(begin, begin + 2048)])
    zray.shutdown()
    run = read_run(path)
    ids = [event.task_id for event in events(run, name="work")]
    assert lost(run) == 0 and len(ids) == len({*ids}) == count
    assert path.stat().st_size < 64 * count


def test_records_of_processes_that_ended_are_written(start, tmp_path):
    path = tmp_path / "run.zrec"
    start(num_cpus=1, record=path)
    for _ in range(3):
        keeper = Keeper.remote()
        os.kill(zray.get(keeper.pid.remote()), signal.SIGKILL)
        with pytest.raises(zray.exceptions.ActorDiedError):
            zray.get(keeper.pid.remote())
    zray.shutdown()
    assert len(events(read_run(path), Kind.CALL, "Keeper.pid")) == 3


def test_tasks_of_all_nodes_are_written(cluster, tmp_path, monkeypatch):
    path = tmp_path / "run.zrec"
    monkeypatch.setenv("ZRAY_RECORD", str(path))
    cluster.connect()
    zray.get([work.options(scheduling_strategy="SPREAD").remote(number) for number in range(8)])
    zray.shutdown()
    run = read_run(path)
    assert len(events(run, name="work")) == 8
    assert (
        sum(any(event.kind == Kind.TASK for ring in rings for event in ring.events) for rings in run.rings.values())
        == 2
    )
    assert len(run.nodes) == 3 and run.memory[-1][1].keys() == run.nodes.keys()


def test_program_that_fails_has_a_record_with_the_error(tmp_path):
    result = recorded(tmp_path, RUN + "    raise KeyError('no such part')\n")
    assert result.returncode == 1 and "no such part" in result.stderr
    run = read_run(tmp_path / "run.zrec")
    assert run.error == "KeyError" and len(events(run, name="work")) == 10


def test_interrupted_program_has_a_record_with_its_cancelled_task(tmp_path):
    code = RUN + "    ref = sleep.remote()\n    zray.get(ref)\n"
    with start_script(tmp_path, code, {"ZRAY_RECORD": str(tmp_path / "run.zrec")}) as script:
        assert "asleep" in script.stdout.readline()
        os.killpg(script.pid, signal.SIGINT)
        assert "KeyboardInterrupt" in script.communicate(timeout=40)[1]
    run = read_run(tmp_path / "run.zrec")
    assert run.error == "KeyboardInterrupt" and len(events(run, name="work")) == 10
    assert [event.outcome.name for event in events(run, name="sleep")] == ["CANCELLED"]


def test_record_of_a_killed_program_is_read_up_to_its_end(tmp_path):
    code = RUN + "    zray.get(sleep.remote())\n"
    path = tmp_path / "run.zrec"
    with start_script(tmp_path, code, {"ZRAY_RECORD": str(path)}) as script:
        assert "asleep" in script.stdout.readline()
        os.kill(script.pid, signal.SIGKILL)
        script.communicate(timeout=40)
    run = read_run(path)
    assert run.header["program"] == "script.py" and (run.end, run.error) == (None, "")
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 60):
        path.write_bytes(whole[:size])
        assert read_run(path).end is None


@pytest.mark.parametrize(
    ("place", "kind", "words"),
    [
        ("none/run.zrec", FileNotFoundError, "there is no folder"),
        (".", IsADirectoryError, "that is a folder"),
        ("file/run.zrec", NotADirectoryError, "Not a directory"),
    ],
)
def test_place_that_cannot_be_written_is_an_error_ahead_of_the_session(start, tmp_path, place, kind, words):
    (tmp_path / "file").write_text("")
    with pytest.raises(kind, match=words):
        start(num_cpus=1, record=tmp_path / place)
    assert not zray.is_initialized()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_an_error(start, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="may not write there"):
        start(num_cpus=1, record=tmp_path / "run.zrec")


def test_words_of_a_missing_permission():
    error = record_file._in_words(PermissionError(13, "Permission denied"), "/run.zrec", "record")
    assert type(error) is PermissionError and "record='/run.zrec': this user may not write there" in str(error)


def test_wrong_arguments_are_refused(start, tmp_path, monkeypatch):
    with pytest.raises(TypeError, match="path"):
        start(num_cpus=1, record=3)
    with pytest.raises(NotImplementedError, match="local_mode"):
        start(local_mode=True, record=tmp_path / "run.zrec")
    monkeypatch.setenv("ZRAY_EVENTS", "0")
    with pytest.raises(ValueError, match="ZRAY_EVENTS=0"):
        start(num_cpus=1, record=tmp_path / "run.zrec")
    assert not zray.is_initialized() and not [*tmp_path.iterdir()]


def test_file_of_a_running_program_is_not_written_by_another(start, tmp_path, monkeypatch):
    path = tmp_path / "run.zrec"
    start(num_cpus=1, record=path)
    result = recorded(tmp_path, RUN)
    assert result.returncode == 0 and "Nothing is recorded" in result.stderr and "%p" in result.stderr
    refused = run_script(tmp_path, f"import zray\nzray.init(num_cpus=1, record={str(path)!r})")
    assert refused.returncode == 1 and "BlockingIOError" in refused.stderr
    zray.shutdown()
    assert read_run(path).header["pid"] == os.getpid()


def test_sessions_of_a_process_have_files_of_their_own(tmp_path):
    code = RUN + "    zray.shutdown()\n    zray.init(num_cpus=1)\n    print(os.getpid())\n"
    pid = recorded(tmp_path, code, "run-%p.zrec").stdout.strip()
    assert len(events(read_run(tmp_path / f"run-{pid}.zrec"))) == 10
    assert len(events(read_run(tmp_path / f"run-{pid}-2.zrec"))) == 0


def test_empty_text_records_nothing_whatever_the_environment_says(start, tmp_path, monkeypatch):
    monkeypatch.setenv("ZRAY_RECORD", str(tmp_path / "run.zrec"))
    start(num_cpus=1, record="")
    zray.shutdown()
    assert not [*tmp_path.iterdir()]


def test_program_that_does_not_record_imports_none_of_it():
    code = "import sys, zray\nzray.init(num_cpus=1)\nprint([n for n in sys.modules if 'zray.api.record' in n])"
    result = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60)
    assert result.stdout.strip() == "[]", result.stderr


def test_full_disk_ends_the_record_and_not_the_program(start, tmp_path, capfd):
    path = tmp_path / "run.zrec"
    start(num_cpus=1, record=path)
    recorder = zray.host.context.runtime.recorder

    def full(data):
        raise OSError(28, "No space left on device")

    recorder.file._append = full
    assert zray.get(work.remote(1)) == 1
    zray.shutdown()
    assert capfd.readouterr().err.count("ends here: No space left on device") == 1
    assert read_run(path).header["pid"] == os.getpid()


def test_files_that_are_no_records_are_refused_in_words(tmp_path):
    path = tmp_path / "run.zrec"
    for content in (b"", b"PK", b"x" * 100):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no record of a run"):
            read_run(path)
    path.write_bytes(record_file.HEAD.pack(record_file.MAGIC, 7, 5) + b"9.1.0")
    with pytest.raises(ValueError, match=r"has format 7 of records, written by zray 9.1.0"):
        read_run(path)


def test_ring_is_taken_in_parts_without_repeats_and_without_gaps():
    """Records of two threads arrive out of order; one never comes."""

    def ring(serials):
        rows = bytearray(64 * 4096)
        for serial in serials:
            rows[64 * serial + 52] = Kind.TASK
            rows[64 * serial + 56 : 64 * serial + 64] = serial.to_bytes(8, "little")
        return bytes(recording.RECORDS_AT) + rows

    progress = recording.Progress(0)
    looks = [
        [*range(10)],
        [*range(12), 13],
        [*range(14)],
        [*range(500), *range(501, 520)],
        [*range(501), *range(501, 900)],
    ]
    taken = []
    for serials in looks:
        _, records, count = progress.take(ring(serials))
        found = [int.from_bytes(records[place + 56 : place + 64], "little") for place in range(0, len(records), 64)]
        assert len(found) == count and found == sorted(found)
        taken += found
    assert sorted(taken) == [*range(900)]


OTHER = """
import sys, zray

@zray.remote
def other(number):
    return number

zray.init(sys.argv[1], log_to_driver=False)
zray.get([other.remote(number) for number in range(500)])
print("done", flush=True)
sys.stdin.readline()
zray.get(other.remote(1))
"""


def test_report_on_a_program_tells_others_of_its_session_from_it(start, tmp_path):
    """A program ends before the recorded one begins; another one goes on beside it."""
    address = start(num_cpus=2).address
    (tmp_path / "other.py").write_text(OTHER)
    command = [sys.executable, str(tmp_path / "other.py"), address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment()}
    subprocess.run(command, input="", capture_output=True, text=True, env=environment(), timeout=60, check=True)
    own = RUN.replace("zray.init(num_cpus=1)", f"zray.init({address!r}, record={str(tmp_path / 'run.zrec')!r})")
    with subprocess.Popen(command, **pipes) as beside:
        assert beside.stdout.readline() == "done\n"
        assert run_script(tmp_path, own).returncode == 0
        beside.communicate("\n", timeout=60)
    run = read_run(tmp_path / "run.zrec")
    runs = runs_of(run.rings, run.header["start"], run.end, run.header["pid"])
    assert sum(run.parent == PROGRAM for run in runs.runs) == 10
    assert {run.name for run in runs.runs if run.parent == PROGRAM} == {"work"}
    assert runs.end < 30 and {step.name for step in critical_path(runs).steps} == {"", "work"}
    assert all(wait.begin >= 0 for wait in runs.waits)
