"""`zray why --record`: how tasks, actors and nodes of a run that is over have ended."""

import subprocess

import pytest

import zray
from tests.cli.commands import zray as command
from tests.scripts import start_script
from zray.util.why import why


@zray.remote
def read(part):
    return part


@zray.remote(max_retries=0)
def fail(part):
    raise OSError(f"no part {part}")


@zray.remote
class Counter:
    def count(self):
        return 1


@pytest.fixture(scope="module")
def run(tmp_path_factory, nothing_left):
    """(path, id of a task that has failed, of one that has finished, of an actor) of the record of a run."""
    path = str(tmp_path_factory.mktemp("record") / "run.zrec")
    with zray.init(num_cpus=1, record=path):
        counter = Counter.remote()
        zray.get([counter.count.remote(), read.remote(1)])
        refs = [fail.remote(number) for number in range(5)]
        zray.wait(refs, num_returns=5)
        last = read.remote(2)
        zray.get(last)
        ids = [ref.task_id().hex() for ref in (refs[0], last)] + [counter._actor_id.hex()]
        for ref in refs:
            with pytest.raises(OSError):
                zray.get(ref)
    return path, *ids


def lines_of(*arguments, status=0):
    done = command("why", *arguments)
    assert done.returncode == status and "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines() if not status else done.stderr


def test_end_of_the_program_and_the_last_failed_tasks_are_told(run):
    first, *lines = lines_of("--record", run[0])
    assert " ended after " in first and first.endswith("; 8 tasks are recorded, 5 of them failed")
    failed = [line for line in lines if line.startswith("task fail (")]
    assert len(failed) == 3 and all(" failed with TASK_EXECUTION_EXCEPTION on node " in line for line in failed)
    assert lines[-1] == "and 2 more that failed; an ID chooses one of them"


def test_task_is_told_by_its_id_and_by_its_name(run):
    path, failed, finished, _ = run
    title, error, *_ = lines_of(failed, "--record", path)
    assert failed in title and error.strip() == "OSError"
    assert lines_of(finished, "--record", path) == lines_of("read", "--record", path) == why("read", record=path)
    assert f"task read ({finished}) finished on node " in lines_of("read", "--record", path)[0]
    assert len([line for line in why("fail", record=path) if line.startswith("task fail (")]) == 3
    assert f"({failed})" in why(failed + "00000001", record=path)[0]  # an object of the task


def test_actor_is_told_by_its_id_and_by_its_class(run):
    path, _, _, actor = run
    title, history = lines_of("Counter", "--record", path)
    assert title.startswith(f"actor Counter ({actor}) was ") and "ALIVE" in history
    assert why(actor, record=path) == [title, history]


def test_killed_program_is_told(tmp_path):
    path = tmp_path / "killed.zrec"
    code = """
    import sys, zray
    zray.init(num_cpus=1, record="killed.zrec")
    zray.get(zray.remote(lambda: 1).remote())
    print("done", flush=True)
    sys.stdin.readline()
    """
    with start_script(tmp_path, code, cwd=tmp_path, stdin=subprocess.PIPE) as script:
        assert script.stdout.readline() == "done\n", script.stderr.read()
        script.kill()
    assert "was killed, or its record was cut off" in why(record=str(path))[0]


def test_wrong_ids_and_files_are_errors_in_words(run, tmp_path):
    path = run[0]
    assert "no actor and no node of the record has the id 'nobody'" in lines_of("nobody", "--record", path, status=1)
    assert "Several things of the record begin with" in lines_of(run[1][:8], "--record", path, status=1)
    (tmp_path / "text").write_text("no record")
    assert "text" in lines_of("--record", tmp_path / "text", status=1)
    assert "No such file" in lines_of("--record", tmp_path / "none", status=1)
    assert "give one of the two" in lines_of("--record", path, "--address", "127.0.0.1:1", status=2)
