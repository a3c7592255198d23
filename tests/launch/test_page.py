"""The page docs/launch-ssh.md: its files are read, its commands exist, its error is as shown."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from cli.launch import hosts_file
from cli.main import main
from tests.docs.pages import DOCS, blocks, rows

PAGE = DOCS / "launch-ssh.md"
FILES = [code for language, code, *_ in blocks(PAGE) if language == "yaml"]
COMMANDS = [line for language, code, *_ in blocks(PAGE) if language == "sh" for line in code.splitlines()]
COMMANDS += [cells[0].strip("`") for cells in rows(PAGE, "Start, use, end")]
# Texts of the page that are said by the code.
TROUBLES = [cells[0] for cells in rows(PAGE, "Find the fault")]


@pytest.mark.parametrize("code", FILES, ids=["own", "ray"])
def test_files_of_the_page_are_read(code, tmp_path):
    (tmp_path / "program.py").touch()
    (tmp_path / "data").mkdir()
    cluster = hosts_file.parse(code, str(tmp_path / "hosts.yaml"))
    assert [host.name for host in cluster.hosts] == ["node1", "node2", "node3"]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_page_exist(line):
    zray, name, *words = shlex.split(line)
    command = main.get_command(click.Context(main), name)
    assert zray == "zray" and command.make_context(name, words).params


def test_keys_of_the_page_are_those_of_the_file():
    named = {name for cells in rows(PAGE, "The file") for name in re.findall(r"`(\w+)`", cells[0])}
    assert named == set(hosts_file.TOP)
    prose = re.search(r"A table of a host has (.*?)\.\s", PAGE.read_text(), re.S)[1]
    assert set(re.findall(r"`(\w+)`", prose)) == set(hosts_file.OF_HOST)


def test_error_of_the_page_is_that_of_the_command(tmp_path, monkeypatch):
    ((command, error),) = re.findall(r"```console\n\$ zray (.*)\n(.*)\n```", PAGE.read_text())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.yaml").write_text("head: node1\nnods: [node2]\n")
    assert CliRunner().invoke(main, command.split()).stderr == error + "\n"


@pytest.mark.parametrize("text", TROUBLES)
def test_lines_of_the_page_are_said_by_the_code(text):
    source = "".join((DOCS.parent / "cli" / "launch" / f"{name}.py").read_text() for name in ("troubles", "plan"))
    parts = re.split(r"python3|3\.12|3\.11|port 6379 is taken|, it has no free memory|\.\.\.", text)
    assert all(part.strip(" ,") in source for part in parts)
