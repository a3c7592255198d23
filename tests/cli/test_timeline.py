"""`zray timeline`: the timeline of a session as a file."""

import gzip
import json

import zray
from tests.cli.commands import zray as command


def run(*arguments, **options):
    return command("timeline", *arguments, timeout_s=60, **options)


@zray.remote
def work():
    return 1


def test_file_has_the_tasks_of_the_session(start, tmp_path):
    start(num_cpus=1)
    assert sum(zray.get([work.remote() for _ in range(3)])) == 3
    done = run(cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("timeline.json.gz: "), done.stderr
    trace = json.loads(gzip.decompress((tmp_path / "timeline.json.gz").read_bytes()))
    assert [event["name"] for event in trace if event["name"].startswith("task::")] == ["task::work"] * 3


def test_file_that_cannot_be_written_is_an_error_in_words(start, tmp_path):
    start(num_cpus=1)
    done = run(str(tmp_path / "none" / "t.json"))
    assert done.returncode == 1 and "cannot be written: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_record_is_read_after_the_end_of_its_session(start, tmp_path, monkeypatch):
    record = tmp_path / "run.zrec"
    monkeypatch.setenv("ZRAY_RECORD", str(record))
    start(num_cpus=1)
    zray.get([work.remote() for _ in range(3)])
    zray.shutdown()
    done = run("t.json", "--record", str(record), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = json.loads((tmp_path / "t.json").read_text())
    assert [event["name"] for event in trace if event["name"].startswith("task::")] == ["task::work"] * 3
    overwriting = run(str(record))
    assert overwriting.returncode == 2 and "--record" in overwriting.stderr


def test_command_that_looks_does_not_write_a_record(start, tmp_path, monkeypatch):
    start(num_cpus=1)
    zray.get(work.remote())
    monkeypatch.setenv("ZRAY_RECORD", str(tmp_path / "run.zrec"))
    assert run(cwd=tmp_path).returncode == 0
    assert not (tmp_path / "run.zrec").exists()


def test_file_that_is_no_record_is_an_error_in_words(tmp_path):
    (tmp_path / "text").write_text("text")
    for name, words in (("text", "is no record"), ("none", "cannot be read: No such file")):
        done = run("t.json", "--record", name, cwd=tmp_path)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr
