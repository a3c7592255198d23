"""The agent behind ssh: files, commands and programs, also where zray is missing and where the launcher goes away."""

import ast
import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys

import pytest

from cli.launch import agent, files, hosts_file, ssh
from cli.launch.connection import Connection
from cli.launch.records import Log
from cli.launch.troubles import Trouble
from tests.gates import is_running, until
from tests.scripts import ROOT

NAMES = {"cluster_name": "lab", "label": "a"}


@pytest.fixture
def talk(hosts, monkeypatch):
    """Runs a conversation with the agent of host a."""
    for name, value in hosts.variables().items():
        monkeypatch.setenv(name, value)

    def run(conversation, python=sys.executable):
        async def main():
            cluster = hosts_file.parse("head: a", str(hosts.work / "hosts.yaml"))
            cluster.head.python = python
            log = Log(str(hosts.folder / "home" / "a.log"))
            connection = Connection(cluster, cluster.head, ssh.control_folder(), log)
            try:
                await connection.open(asyncio.Semaphore(1))
                return await conversation(connection)
            finally:
                await connection.close()
                log.close()
                os.rmdir(connection.folder)

        return asyncio.run(main())

    return run


def test_look_tells_versions_and_files_that_differ(talk, hosts):
    (hosts.folder / "a" / "same").write_text("x")
    (hosts.folder / "a" / "other").write_text("x")
    (hosts.work / "same").write_text("x")
    (hosts.work / "other").write_text("y")
    (hosts.work / "new").write_text("z")
    names = ["same", "other", "new"]
    facts = [file.facts() for file in files.collect([(name, str(hosts.work / name)) for name in names], ())]

    async def conversation(connection):
        return await connection.ask("look", zray="0.1.0", files=facts, **NAMES)

    found = talk(conversation)
    assert sorted(found["differing"]) == ["new", "other"]
    assert found["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}" and found["zray"] == "0.1.0"
    assert found["sessions"] == [] and found["record"] == {}


def test_python_without_zray_says_so(talk, hosts):
    bare = hosts.folder / "bare"
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o700)

    async def conversation(connection):
        return await connection.ask("look", zray="0.1.0", **NAMES)

    found = talk(conversation, str(bare))
    assert found["zray"] == "" and "No module named 'zray'" in found["zray_error"]


def test_zray_without_its_packages_is_told_like_an_absent_one(talk, hosts):
    """Beside a clone: the folder of the login is none of the places where modules are."""
    (hosts.folder / "a" / "zray").mkdir()
    bare = hosts.folder / "bare"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -S "$@"\n')
    bare.chmod(0o700)

    async def conversation(connection):
        return await connection.ask("look", zray="0.1.0", **NAMES)

    found = talk(conversation, str(bare))
    assert found["zray"] == "" and "No module named" in found["zray_error"]


def test_file_arrives_whole_with_its_mode_and_leaves_nothing_else(talk, hosts):
    source = hosts.work / "program"
    source.write_bytes(os.urandom(300_000))
    source.chmod(0o750)
    (file,) = files.collect([("deep/down/program", str(source))], ())

    async def conversation(connection):
        for _ in range(2):
            await connection.ask("file", path=file.place, size=file.size, mode=file.mode, data=file.data())

    talk(conversation)
    (arrived,) = (hosts.folder / "a" / "deep" / "down").iterdir()
    assert arrived.read_bytes() == source.read_bytes() and arrived.stat().st_mode & 0o777 == 0o750


def test_file_that_cannot_be_written_is_told_and_the_agent_goes_on(talk, hosts):
    (hosts.folder / "a" / "place").write_text("no folder")
    (hosts.folder / "a" / "full").symlink_to("/dev/full")

    async def conversation(connection):
        with pytest.raises(Trouble, match="place/below: (File exists|Not a directory)"):
            await connection.ask("file", path="place/below", size=5, mode=0o600, data=[b"12345"])
        return await connection.ask("look", zray="", **NAMES)

    assert talk(conversation)["python"]


def test_folder_comes_back_and_what_is_equal_is_not_sent(talk, hosts):
    place = hosts.folder / "a" / "results"
    (place / "inner").mkdir(parents=True)
    for name in ("one", "two", "inner/three", "skipped.tmp"):
        (place / name).write_text(name)
    received = {}

    class Into:
        def __init__(self, name, mode):
            self.name, self.parts = name, []

        def __enter__(self):
            self.write = self.parts.append
            return self

        def __exit__(self, *error):
            received[self.name] = b"".join(self.parts)

    async def conversation(connection):
        connection.receives = Into
        have = {"two": [3, agent.file_digest(place / "two")]}
        return await connection.ask("read", path="results", have=have, exclude=["*.tmp"])

    assert talk(conversation) == {"sent": 2}
    assert received == {"one": b"one", "inner/three": b"inner/three"}


def test_setup_runs_in_the_home_folder_and_its_output_is_in_the_log(talk, hosts):
    commands = ["pwd > here", "echo made; echo bad >&2; python -c 'import sys; print(sys.executable)' > which"]

    async def conversation(connection):
        await connection.ask("setup", commands=commands, digest="d", **NAMES)
        return await connection.ask("look", zray="", **NAMES)

    assert talk(conversation)["record"] == {"setup": "d"}
    assert (hosts.folder / "a" / "here").read_text().strip() == str(hosts.folder / "a")
    assert (hosts.folder / "a" / "which").read_text().strip() == sys.executable
    log = hosts.logs()["a.log"]
    assert "made\nbad\n" in log and "setup 1 of 2: pwd > here" in log and "a start file prints this" in log


def test_setup_that_fails_names_the_command(talk, hosts):
    async def conversation(connection):
        with pytest.raises(Trouble, match=r"setup command 2 \(echo why; exit 3\) failed with status 3 \(why\): see"):
            await connection.ask("setup", commands=["true", "echo why; exit 3", "touch never"], digest="d", **NAMES)
        return await connection.ask("look", zray="", **NAMES)

    assert talk(conversation)["record"] == {}
    assert not (hosts.folder / "a" / "never").exists()


def test_child_that_a_command_leaves_does_not_hold_the_agent(talk, hosts):
    async def conversation(connection):
        await connection.ask("setup", commands=["sleep 50 & echo $! > pid"], digest="d", **NAMES)

    talk(conversation)
    pid = int((hosts.folder / "a" / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))


def test_command_ends_with_the_launcher(talk, hosts):
    pid_file = hosts.folder / "a" / "pid"

    async def conversation(connection):
        asking = asyncio.ensure_future(
            connection.ask("setup", commands=["echo $$ > pid.new; mv pid.new pid; exec sleep 50"], digest="d", **NAMES)
        )
        await asyncio.to_thread(until, pid_file.exists)
        asking.cancel()

    talk(conversation)
    pid = int(pid_file.read_text())
    until(lambda: not is_running(pid))


def test_program_has_its_arguments_streams_and_status(talk, hosts):
    source = b"import os, sys; print(sys.argv[1:], os.environ['X']); print('bad', file=sys.stderr); sys.exit(7)"
    heard = []

    async def conversation(connection):
        connection.hears = lambda kind, data: heard.append((kind, data))
        facts = {"name": "p.py", "size": len(source), "arguments": ["a b", "-c"], "env": {"X": "y"}}
        return await connection.ask("program", data=[source], **facts)

    assert talk(conversation) == {"status": 7}
    said = {name: b"".join(data for kind, data in heard if kind == name) for name in ("out", "err")}
    assert said == {"out": b"['a b', '-c'] y\n", "err": b"bad\n"}
    assert not list(hosts.folder.glob("zray-program-*"))


INTERRUPTED = b"""
import signal, sys
try:
    print("here", flush=True)
    signal.pause()
except KeyboardInterrupt:
    print("cleaned up")
    sys.exit(9)
"""


def test_program_hears_ctrl_c_and_says_how_it_ends(talk, hosts):
    heard = []

    async def conversation(connection):
        connection.hears = lambda kind, data: heard.append(data)
        facts = {"name": "p.py", "size": len(INTERRUPTED), "arguments": [], "env": {}}
        asking = asyncio.ensure_future(connection.ask("program", data=[INTERRUPTED], **facts))
        await asyncio.to_thread(until, lambda: heard)
        await connection.signal(signal.SIGINT)
        answer = await asking
        await connection.signal(signal.SIGINT)  # too late, and no harm
        return answer, await connection.ask("look", zray="", **NAMES)

    answer, found = talk(conversation)
    assert answer == {"status": 9} and b"".join(heard).endswith(b"cleaned up\n") and found["python"]


def test_lost_connection_says_what_was_going_on(talk, hosts):
    async def conversation(connection):
        with pytest.raises(Trouble, match="the connection was lost while its set-up ran"):
            await connection.ask("setup", "its set-up ran", commands=["kill -9 $PPID"], **NAMES)

    talk(conversation)


def test_text_of_the_agent_is_for_old_versions_of_python():
    """The agent runs before anything is known of the Python there; Python 3.6 reads it."""
    ast.parse(inspect.getsource(agent), feature_version=(3, 6))
    assert "\0" not in inspect.getsource(agent)


def test_token_of_a_start_is_not_in_what_is_shown(tmp_path):
    """The text that `zray start --head` prints."""
    from cli.start import HEAD_STARTED

    text = HEAD_STARTED.format(session="ab12", cluster="10.0.0.1:6379", token="SECRET", end="x")
    assert agent.IS_SAME.search(text).groups() == ("SECRET", "10.0.0.1:6379")
    assert "SECRET" not in agent.IS_SAME.sub(r"ZRAY_TOKEN=... zray start --address \2", text)
    assert agent.SESSION.search(text)[1] == "ab12"


ADDRESSES = {
    "as called": ("10.0.0.9 50000 10.0.0.1 22", ["b"], "10.0.0.1"),
    "as called, of an sshd for both families": ("::ffff:10.0.0.9 50000 ::ffff:10.0.0.1 22", ["b"], "10.0.0.1"),
    "this machine, alone": ("127.0.0.1 50000 127.0.0.1 22", [], ""),
}


@pytest.mark.parametrize("connection, others, address", ADDRESSES.values(), ids=ADDRESSES)
def test_address_of_the_head_is_that_which_ssh_called(monkeypatch, connection, others, address):
    monkeypatch.setenv("SSH_CONNECTION", connection)
    assert agent.own_address(others) == address


@pytest.mark.parametrize("connection", ["127.0.0.1 50000 127.0.0.1 22", "fe80::1 50000 fe80::2 22", ""])
def test_address_that_others_cannot_reach_is_asked_for(monkeypatch, connection):
    monkeypatch.setenv("SSH_CONNECTION", connection)
    with pytest.raises(agent.Failure) as raised:
        agent.own_address(["127.0.0.1"])
    assert raised.value.facts["remedy"] == "add `address:` to the head's table"


def test_agent_reads_requests_that_arrive_in_pieces():
    line = [sys.executable, "-c", ssh.READER]
    text = inspect.getsource(agent).encode() + b"\0"
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for at in range(0, len(text), 5_000):
            process.stdin.write(text[at : at + 5_000])
            process.stdin.flush()
        request = json.dumps({"do": "look", "zray": "", **NAMES}).encode() + b"\n"
        process.stdin.write(request[:9])
        process.stdin.flush()
        process.stdin.write(request[9:])
        process.stdin.close()
        answers = [json.loads(line[1:]) for line in process.stdout]
    assert [next(iter(answer)) for answer in answers] == ["hello", "done"]
