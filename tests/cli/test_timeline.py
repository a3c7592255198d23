"""`zray timeline`: the timeline of a session as a file."""

import gzip
import json
import subprocess
import sys

import zray


def run(*arguments, **options):
    command = [sys.executable, "-m", "zray.cli.main", "timeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


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
