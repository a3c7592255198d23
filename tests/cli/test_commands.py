"""What the command line says to what users type: exit codes 0, 1, 2, and never a traceback."""

import configparser

import pytest

from cli.main import COMMANDS
from tests.cli.commands import zray
from tests.scripts import ROOT


def test_help_names_every_command():
    result = zray("--help")
    assert result.returncode == 0
    assert all(f"  {name} " in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    result = zray(name, "--help")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"Usage: zray {name}")


def test_the_version_is_that_of_the_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert zray("--version").stdout == f"zray {config['metadata']['version']}\n"


def test_without_a_session_there_is_nothing_to_show():
    result = zray("status")
    assert (result.returncode, result.stdout) == (0, "No session runs on this machine.\n")


@pytest.mark.parametrize("options", [[], ["--all"], ["--force"]])
def test_stop_without_a_session_says_that_nothing_was_running(options):
    result = zray("stop", *options)
    text = "Nothing was running: no session that `zray start` has started is on this machine.\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, text, "")


@pytest.mark.parametrize("token", ["", "rubbish"])
def test_status_of_another_cluster_asks_for_the_token_of_a_reader(token, monkeypatch):
    monkeypatch.setenv("ZRAY_TOKEN", token)
    result = zray("status", "--address", "127.0.0.1:1")
    said = " ".join(result.stderr.split())
    assert result.returncode == (1 if token else 2)
    assert "`zray keys reader`" in said and "readers" in said and "zray start" not in said


def test_who_looks_where_no_session_runs_hears_of_the_one_that_its_programs_use(monkeypatch):
    monkeypatch.setenv("ZRAY_ADDRESS", "10.0.0.1:6379")
    result = zray("status")
    assert result.returncode == 0 and "zray status --address 10.0.0.1:6379" in result.stdout


MISTAKES = {
    "no-such-command": ["no-such-command"],
    "no --head": ["start"],
    "another machine": ["start", "--address", "10.0.0.1:6379"],
    "no number": ["start", "--head", "--num-cpus", "many"],
    "an empty number": ["start", "--head", "--num-cpus", ""],
    "not a number": ["start", "--head", "--num-cpus", "nan"],
    "negative": ["start", "--head", "--num-gpus=-1"],
    "endless": ["start", "--head", "--num-cpus", "inf"],
    "no JSON": ["start", "--head", "--resources", "{"],
    "JSON, but no object": ["start", "--head", "--resources", "[1]"],
    "resources that are no numbers": ["start", "--head", "--resources", '{"disk": "big"}'],
    "too much of a resource": ["start", "--head", "--resources", '{"disk": 1e308}'],
    "not finite in JSON": ["start", "--head", "--resources", '{"disk": NaN}'],
    "a reserved resource": ["start", "--head", "--resources", '{"CPU": 1}'],
    "a very long option": ["start", "--head", "--resources", "x" * 100_000],
    "a tiny store": ["start", "--head", "--object-store-memory", "1"],
    "an endless store": ["start", "--head", "--object-store-memory", str(1 << 70)],
    "an unknown session": ["stop", "0123456789abcdef"],
    "not UTF-8": ["stop", b"\xff\xfe"],
    "an unknown format": ["status", "--format", "xml"],
    "an unknown figure": ["microbenchmark", "--only", "no-such-figure"],
}


@pytest.mark.parametrize("arguments", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_said_in_a_sentence(arguments):
    if arguments[0] == "microbenchmark":
        pytest.importorskip("zray.benchmarks")
    result = zray(*arguments)
    assert result.returncode == 2, result.stdout
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr
