"""Words of `zray up` and its companions before any host is called: files, usage, lines of --dry-run."""

import os
import sys

import pytest
from click.testing import CliRunner

from cli.launch import hosts_file, records
from cli.main import main

HOSTS = "head: {host: a, port: 2200}\nnodes: [{host: b, user: anna}]\nvenv: ~/v\nsetup: [make]\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in a folder of its own; the result has output and exit_code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda *arguments: CliRunner().invoke(main, arguments, prog_name="zray")


def keep(path, name="lab"):
    """A record as of a cluster that is up."""
    record = records.Record(name, str(path), "10.0.0.1:6379", [hosts_file.Host("a")])
    record.write()
    return record


def test_dry_run_prints_the_lines_and_calls_nobody(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    result = run("up", "hosts.yaml", "--dry-run")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    (first, second) = [line for line in lines if line.startswith("ssh ")]
    assert " -p 2200 -- a 'exec ~/v/bin/python" in first and " -l anna -- b " in second
    assert "    zray start --head --port 6379" in lines and lines.count("    make") == 2
    assert "    zray start --address a:6379 --token-stdin" in lines
    result = run("down", "--dry-run", "--now")
    assert result.exit_code == 0 and result.stdout.count("zray stop SESSION --force") == 2
    for command in (("attach", "--dry-run"), ("exec", "--dry-run", "ls -l")):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("ssh ") and "PATH=~/v/bin:$PATH" in result.stdout
    assert not (tmp_path / "state").exists()


def test_file_of_hosts_may_stand_first_as_in_rays_commands(run, tmp_path):
    (tmp_path / "x.yaml").write_text(HOSTS)
    assert "-- a " in run("exec", "--dry-run", "x.yaml", "ls").stdout
    assert "-- b " in run("exec", "--dry-run", "--host", "b", "x.yaml", "--", "ls", "-l").stdout


def test_only_cluster_that_is_up_is_meant_without_a_file(run, tmp_path):
    (tmp_path / "there.yaml").write_text("name: lab\n" + HOSTS)
    keep(tmp_path / "there.yaml")
    assert "ZRAY_ADDRESS=10.0.0.1:6379" in run("exec", "--dry-run", "ls").stdout
    (tmp_path / "other.yaml").write_text(HOSTS)
    keep(tmp_path / "other.yaml", "other")
    result = run("exec", "--dry-run", "ls")
    assert result.exit_code == 2 and "Several clusters are up" in result.stderr and "other.yaml" in result.stderr


def test_name_of_a_running_cluster_is_not_taken_by_another_file(run, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "hosts.yaml").write_text(HOSTS)
    keep(tmp_path / "one" / "hosts.yaml", "hosts")
    result = run("up", "two/hosts.yaml")
    assert result.exit_code == 2 and "is up, by the file" in result.stderr and "another `name:`" in result.stderr
    assert run("down", "one/hosts.yaml", "--dry-run").exit_code == 0


def test_two_changes_at_once_are_refused(run, tmp_path):
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    record = keep(tmp_path / "hosts.yaml", "hosts")
    with record.held():
        result = run("down")
    assert result.exit_code == 1 and "Another `zray up` or `zray down` of 'hosts' runs" in result.stderr


MISTAKES = {
    "no file": (["up", "nowhere.yaml"], "There is no file nowhere.yaml."),
    "a folder": (["up", "."], ". cannot be read: Is a directory."),
    "no file and no cluster": (["down"], "there is no hosts.yaml in this folder, and no cluster is up"),
    "a mistake": (["up", "bad.yaml"], "bad.yaml, line 1: `hed:` is not known. Did you mean `head:`?"),
    "no text": (["up", "binary.yaml"], "no text in UTF-8"),
    "an absent host": (["attach", "good.yaml", "--host", "c"], "has no host 'c'; there are: a:2200, b."),
    "all and one": (["exec", "--all", "--host", "a", "good.yaml", "ls"], "Give --all or --host, not both."),
    "an absent program": (["submit", "good.yaml", "nowhere.py"], "There is no program nowhere.py"),
    "an absent source": (["rsync-up", "good.yaml", "nowhere"], "no file or folder nowhere on this machine"),
    "three paths": (["rsync-down", "good.yaml", "a", "b", "c"], "a source and at most one target"),
}


@pytest.mark.parametrize("words, said", MISTAKES.values(), ids=MISTAKES)
def test_wrong_use_is_told(run, tmp_path, words, said):
    (tmp_path / "bad.yaml").write_text("hed: a\n")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "good.yaml").write_text(HOSTS)
    result = run(*words)
    assert result.exit_code == 2 and said in " ".join(result.stderr.split())


def test_file_without_pyyaml_names_the_extra(run, tmp_path, monkeypatch):
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    monkeypatch.setitem(sys.modules, "yaml", None)
    result = run("up", "hosts.yaml")
    assert result.exit_code == 1 and "install zray[launch], or `pip install pyyaml`" in result.stderr


def test_program_of_a_cluster_that_is_not_up_is_told_how_to_start_it(run, tmp_path):
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    (tmp_path / "p.py").write_text("")
    result = run("submit", "p.py")
    assert result.exit_code == 1 and "The cluster is not up: `zray up hosts.yaml` starts it." in result.stderr


def test_log_of_a_host_is_for_its_user_and_has_no_token(tmp_path):
    path = tmp_path / "lab" / "a.log"
    log = records.Log(str(path))
    log.line("$ ZRAY_TOKEN=SECRET zray start")
    log.close()
    assert path.read_text().endswith("$ ZRAY_TOKEN=... zray start\n")
    assert path.stat().st_mode & 0o777 == 0o600 and os.stat(path.parent).st_mode & 0o777 == 0o700


def test_log_that_has_grown_is_put_aside(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * (records.LOG_BYTES_MAX + 1))
    records.Log(str(path)).close()
    assert path.stat().st_size == 0 and (tmp_path / "a.log.1").exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"path": "x"}', '{"path": "x", "address": "", "hosts": [{"a": 1}]}']
)
def test_record_that_cannot_be_read_is_none(tmp_path, monkeypatch, content):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "zray" / "up" / "lab"
    folder.mkdir(parents=True)
    (folder / "cluster.json").write_text(content)
    assert records.read("lab") == records.Record("lab")
