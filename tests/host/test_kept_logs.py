"""Logs that outlive their session: folder, limits, sweeps."""

import os
import stat
import subprocess
import sys
import time

import pytest

from tests.gates import until
from tests.scripts import environment, run_script, write_script
from zray.host.session import kept_logs
from zray.host.session.kept_logs import INDEX, STAMP, SWEEP_SECONDS, KeptLogs, bounds, log_root, sweep, sweep_if_due

DAY = 86_400.0
PROGRAM = """
import sys
import zray as ray

@ray.remote
def work(text):
    print("output of", text)

ray.init(num_cpus=1, log_to_driver=False)
ray.get(work.remote("a task"))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of kept logs."""
    root = tmp_path / "state"
    for name in ("ZRAY_LOG_DAYS", "ZRAY_LOG_BYTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZRAY_LOG_DIR", str(root))
    return root


def ended(name, *, size=0, days=0.0):
    """The logs of an ended session."""
    kept = KeptLogs(name)
    with open(os.path.join(kept.folder, "worker-1-1.log"), "wb") as file:
        file.write(b"x" * size)
    os.close(kept.descriptor)
    then = time.time() - days * DAY
    os.utime(os.path.join(kept.folder, INDEX), (then, then))


def names(folder):
    return sorted(name for name in os.listdir(folder) if name != STAMP)


def run(tmp_path, **variables):
    script = write_script(tmp_path, PROGRAM)
    return subprocess.run(
        [sys.executable, str(script)], env={**environment(), **variables}, capture_output=True, text=True, timeout=40
    )


def test_folder_of_a_user_is_in_the_state_folder(monkeypatch):
    monkeypatch.delenv("ZRAY_LOG_DIR")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert log_root() == "/home/somebody/.local/state/zray/logs"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert log_root() == "/state/zray/logs"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert log_root() == "/home/somebody/.local/state/zray/logs"


@pytest.mark.parametrize("value", ["-1", "many", "nan"])
@pytest.mark.parametrize("name", ["ZRAY_LOG_DAYS", "ZRAY_LOG_BYTES"])
def test_wrong_limit_is_refused_by_its_name(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} must be a number of at least 0, not '{value}'"):
        bounds()


def test_output_stays_after_the_end_and_for_its_user_alone(tmp_path, folder):
    result = run_script(tmp_path, PROGRAM)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    (name,) = names(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE((folder / name).stat().st_mode) == 0o700
    files = list((folder / name).iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert any("output of a task" in file.read_text() for file in files)
    assert not any(file.is_dir() or file.name.startswith(".") for file in files)


def test_session_without_output_leaves_nothing(tmp_path, folder):
    run_script(tmp_path, "import zray as ray\nray.init(num_cpus=1)\nray.get(ray.remote(abs).remote(1))")
    assert names(folder) == []


@pytest.mark.parametrize("variable", ["ZRAY_LOG_DAYS", "ZRAY_LOG_BYTES"])
def test_limit_of_zero_keeps_nothing_and_says_nothing(tmp_path, folder, variable):
    result = run(tmp_path, **{variable: "0"})
    assert result.returncode == 0 and result.stderr == "" and not folder.exists()


@pytest.mark.parametrize("how", ["a file", "open to others", "no space"])
def test_folder_that_cannot_be_used_is_told_in_one_line(tmp_path, folder, how):
    if how == "a file":
        folder.write_text("")
        variables = {}
    elif how == "open to others":
        folder.mkdir()
        folder.chmod(0o755)
        variables = {}
    else:
        variables = {"ZRAY_LOG_DIR": "/proc/zray"}
    result = run(tmp_path, **variables)
    assert result.returncode == 0, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("zray: the logs of this session go with it (") and "ZRAY_LOG_DIR" in line


def test_index_has_no_secrets(tmp_path, folder):
    script = write_script(
        tmp_path, PROGRAM.replace("log_to_driver", 'runtime_env={"env_vars": {"KEY": "hidden1"}}, log_to_driver')
    )
    command = [sys.executable, str(script), "--password=hidden2"]
    subprocess.run(command, env={**environment(), "ZRAY_TOKEN": ""}, check=True, timeout=40)
    (name,) = names(folder)
    for file in (folder / name).iterdir():
        assert "hidden" not in file.read_text(), file.name
    assert '"program":"script.py"' in (folder / name / INDEX).read_text()


def test_old_sessions_go_by_days(folder, monkeypatch):
    ended("old", days=8)
    ended("new", days=6)
    sweep()
    assert names(folder) == ["new"]
    monkeypatch.setenv("ZRAY_LOG_DAYS", "5.5")
    sweep()
    assert names(folder) == []


def test_oldest_sessions_go_by_bytes(folder, monkeypatch):
    for number in range(4):
        ended(f"s{number}", size=100_000, days=4 - number)
    monkeypatch.setenv("ZRAY_LOG_BYTES", "250000")
    sweep()
    assert names(folder) == ["s2", "s3"]


def test_oldest_sessions_go_by_number(folder, monkeypatch):
    monkeypatch.setattr(kept_logs, "SESSIONS_MAX", 2)
    for number in range(4):
        ended(f"s{number}", days=4 - number)
    sweep()
    assert names(folder) == ["s2", "s3"]


def test_running_session_is_never_swept(folder, monkeypatch):
    kept = KeptLogs("runs")
    os.utime(os.path.join(kept.folder, INDEX), (1, 1))
    os.mkdir(folder / "begins")
    monkeypatch.setenv("ZRAY_LOG_BYTES", "1")
    sweep()
    assert names(folder) == ["begins", "runs"]
    os.close(kept.descriptor)
    os.utime(folder / "begins", (1, 1))
    sweep()
    assert names(folder) == []


def test_sweeps_at_a_time_do_no_harm(folder, monkeypatch):
    for number in range(40):
        ended(f"s{number:02}", size=10, days=9 if number < 39 else 0)
    code = "from zray.host.session.kept_logs import sweep; sweep()"
    sweepers = [
        subprocess.Popen([sys.executable, "-c", code], env=environment(), stderr=subprocess.PIPE) for _ in "123"
    ]
    assert [each.communicate(timeout=40)[1] for each in sweepers] == [b""] * 3
    assert names(folder) == ["s39"]


def test_start_of_a_session_sweeps(folder, start):
    ended("old", days=8)
    start(num_cpus=1)
    until(lambda: "old" not in names(folder))


def test_sessions_that_start_within_a_minute_sweep_once(folder):
    ended("old", days=8)
    sweep_if_due()
    assert names(folder) == []
    ended("old", days=8)
    sweep_if_due()
    assert names(folder) == ["old"]
    for name, seconds in (("old", -SWEEP_SECONDS - 1), ("older", 3_600)):  # a minute later; a clock that was set back
        if name not in names(folder):
            ended(name, days=8)
        os.utime(folder / STAMP, (time.time() + seconds,) * 2)
        sweep_if_due()
        assert names(folder) == []
