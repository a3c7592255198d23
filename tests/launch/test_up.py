"""`zray up` and its companions on hosts behind a fake ssh: real sessions, each in the folder of its host."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.commands import command_line
from tests.gates import until
from tests.leftovers import processes_marked

pytestmark = pytest.mark.slow

THREE = """\
name: lab
head: {host: a, address: 127.0.0.1, num_cpus: 1}
nodes:
  - {host: b, num_cpus: 1, resources: {disk: 1}}
  - {host: c, num_cpus: 1}
options: {port: 0}
"""
PROGRAM = """
import os, sys
import helper
import zray

zray.init()
assert len([node for node in zray.nodes() if node["Alive"]]) == int(sys.argv[1])

@zray.remote(resources={"disk": 1})
def where():
    return os.environ["HOME"][-1]

print(zray.get(where.remote(), timeout=20), helper.WORD)
sys.exit(5)
"""


def last_lines(done):
    return {line.split()[0]: line for line in done.stdout.splitlines() if line and not line.startswith(" ")}


def test_cluster_comes_up_changes_and_goes(hosts):
    """Several checks share one start, which costs half a second of a core for each host."""
    hosts.write(THREE + "files: [helper.py]\nsetup: [echo once >> setups]\n")
    (hosts.work / "helper.py").write_text("WORD = 'one'\n")
    said = last_lines(hosts.zray("up", "hosts.yaml"))
    first = hosts.sessions()
    assert all(len(first[name]) == 1 and first[name][0] in said[name] for name in "abc")
    address = hosts.info("a")["cluster"]
    assert hosts.info("b")["cluster"] == hosts.info("c")["cluster"] == address and f"head at {address}" in said["a"]
    assert all("1 file sent, set up" in said[name] for name in "abc")
    nobody_sees_a_token(hosts)
    nothing_changes(hosts, first)
    program_runs(hosts)
    commands_run(hosts)
    what_differs_changes(hosts, first)
    what_died_starts(hosts)
    host_that_the_file_lacks_leaves(hosts)
    said = last_lines(hosts.zray("down"))
    assert "ended: session" in said["a"] and "ended: session" in said["b"] and "c" not in said
    nothing_is_left(hosts)


def nobody_sees_a_token(hosts):
    (path,) = (hosts.folder / "a").glob("zray-*/*/token")
    token = path.read_text().strip()
    logs = hosts.logs()
    assert set(logs) == {"a.log", "b.log", "c.log"} and "zray start --head" in logs["a.log"]
    assert token and not [name for name, text in logs.items() if token in text]
    for log in (hosts.folder / "home").rglob("*"):
        assert log.stat().st_mode & 0o077 == 0 or log.name in (".local", "state", "zray", "up"), log
    for pid in processes_marked(mark()):
        for name in ("cmdline", "environ"):
            assert token.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    for name in "bc":
        assert not [
            path
            for path in (hosts.folder / name).rglob("*")
            if path.is_file() and token.encode() in path.read_bytes() and path.stat().st_mode & 0o077
        ]


def nothing_changes(hosts, sessions):
    began = time.monotonic()
    said = last_lines(hosts.zray("up", "hosts.yaml"))
    print(f"second up: {time.monotonic() - began:.2f} s")
    assert hosts.sessions() == sessions
    assert all("runs:" in said[name] and "sent" not in said[name] and "set up" not in said[name] for name in "abc")
    assert (hosts.folder / "b" / "setups").read_text() == "once\n"


def program_runs(hosts):
    (hosts.work / "program.py").write_text(PROGRAM)
    done = hosts.zray("submit", "program.py", "3", status=5)
    assert done.stdout == "b one\n", done.stderr
    assert not list((hosts.folder / "a").glob("*program*"))


def commands_run(hosts):
    done = hosts.zray("exec", "hosts.yaml", "echo $ZRAY_ADDRESS; pwd; exit 3", status=3)
    assert done.stdout.split()[-2:] == [hosts.info("a")["cluster"], str(hosts.folder / "a")]
    done = hosts.zray("exec", "--all", "--", "sh", "-c", 'echo "$0 $HOME"', "one word")
    assert sorted(line for line in done.stdout.splitlines() if "one word" in line) == [
        f"{name}  one word {hosts.folder / name}" for name in "abc"
    ]
    done = hosts.zray("exec", "--all", "test -e zray-*/nothing || [ ${PWD##*/} != b ]", status=1)
    assert "b  FAILED: the command ended with status 1." in done.stderr and done.stderr.count("FAILED") == 1
    done = hosts.zray("attach", text="echo at $ZRAY_ADDRESS\nexit 3\n", status=3)
    assert f"at {hosts.info('a')['cluster']}\n" in done.stdout
    (hosts.work / "data").mkdir()
    (hosts.work / "data" / "x").write_text("x")
    assert "1 file sent, 0 equal" in hosts.zray("rsync-up", "hosts.yaml", "data", "there").stdout
    assert "0 files sent, 1 equal" in hosts.zray("rsync-up", "data", "there").stdout
    assert "1 file received into back" in hosts.zray("rsync-down", "there", "back").stdout
    assert (hosts.work / "back" / "x").read_text() == "x"
    assert "0 files received" in hosts.zray("rsync-down", "there", "back").stdout


def what_differs_changes(hosts, first):
    (hosts.work / "helper.py").write_text("WORD = 'two'\n")
    text = (hosts.work / "hosts.yaml").read_text().replace("disk: 1", "disk: 2")
    (hosts.work / "hosts.yaml").write_text(text)
    said = last_lines(hosts.zray("up", "hosts.yaml"))
    after = hosts.sessions()
    assert after["a"] == first["a"] and after["c"] == first["c"] and len(after["b"]) == 1 and after["b"] != first["b"]
    assert "b  started with other options" in said["b"] and all("1 file sent" in said[name] for name in "abc")
    assert "has left" in hosts.logs()["b.log"]


def what_died_starts(hosts):
    before = hosts.sessions()
    os.kill(hosts.info("c")["node_pid"], signal.SIGKILL)
    until(lambda: not hosts.sessions()["c"])
    said = last_lines(hosts.zray("up", "hosts.yaml"))
    after = hosts.sessions()
    assert (after["a"], after["b"]) == (before["a"], before["b"]) and len(after["c"]) == 1 != before["c"]
    assert "c  started: session" in said["c"]


def host_that_the_file_lacks_leaves(hosts):
    text = (hosts.work / "hosts.yaml").read_text().replace("  - {host: c, num_cpus: 1}\n", "")
    (hosts.work / "hosts.yaml").write_text(text)
    said = last_lines(hosts.zray("up", "hosts.yaml"))
    assert "c  left: the file does not name it" in said["c"] and not hosts.sessions()["c"]


def nothing_is_left(hosts):
    until(lambda: not any(hosts.sessions().values()))
    left = [path for path in hosts.folder.rglob("*") if "zray" in path.name and path.is_dir()]
    home = hosts.folder / "home"
    assert not [path for path in left if home not in path.parents and path.name != "zray"], left
    assert not list(hosts.folder.glob("?/state/zray/hosts*"))
    assert not list(hosts.folder.glob("home/**/cluster.json"))


def test_hosts_that_fail_are_a_line_each_and_the_others_come_up(hosts):
    hosts.add("d", "e")
    (hosts.folder / "b" / "fails").write_text("ssh: connect to host b port 22: No route to host\n")
    (hosts.folder / "d" / "fails").write_text("root@d: Permission denied (publickey).\n")
    (hosts.folder / "c" / "cut").touch()
    extra = "  - d\n  - {host: e, python: /no/such/python}\n"
    hosts.write(THREE.replace("options:", extra + "setup: ['[ ${PWD##*/} != x ]']\noptions:"))
    done = hosts.zray("up", "hosts.yaml", status=1)
    said = {line.split()[0]: line for line in done.stderr.splitlines() if "FAILED" in line}
    assert set(said) == {"b", "d", "e"}
    assert "b  FAILED: it cannot be reached: look whether the machine is on" in said["b"]
    assert "it refuses the key: `ssh-copy-id d`" in said["d"]
    assert "the command /no/such/python was not found or cannot run: name the Python" in said["e"]
    assert "2 of 5 hosts are up: a, c." in done.stderr and len(hosts.sessions()["c"]) == 1
    done = hosts.zray("down", "--now", status=1)
    assert done.stderr.count("FAILED") == 3 and "Something may be left" in done.stderr
    assert not any(hosts.sessions().values())


def test_host_that_is_gone_for_good_is_given_up(hosts):
    """A host of the record that the file lacks; a misspelt name never comes into the record."""
    hosts.write(
        "name: lab\nhead: {host: a, address: 127.0.0.1, num_cpus: 1}\nnodes: [b, nowhere]\noptions: {port: 0}\n"
    )
    hosts.zray("up", "hosts.yaml", status=1)
    (hosts.folder / "b" / "fails").write_text("ssh: connect to host b port 22: No route to host\n")
    hosts.write("name: lab\nhead: {host: a, address: 127.0.0.1, num_cpus: 1}\noptions: {port: 0}\n")
    done = hosts.zray("up", "hosts.yaml", status=1)
    assert "`--forget b` gives it up" in done.stderr and done.stderr.count("FAILED") == 1
    hosts.zray("up", "hosts.yaml", "--forget", "b")
    hosts.zray("down", "--now")
    assert not hosts.sessions()["a"]
    subprocess.run(command_line("stop"), env={**hosts.variables(), "ZRAY_TMPDIR": str(hosts.folder / "b")}, check=True)


def test_eight_logins_at_most_are_under_way(hosts):
    """sshd cuts some beyond ten."""
    names = [f"n{number}" for number in range(10)]
    hosts.add(*names)
    for name in ("a", *names):
        (hosts.folder / name / "fails").write_text("ssh: connect to host x port 22: Connection refused\n")
    (hosts.folder / "hold").touch()
    hosts.write(f"head: a\nnodes: [{', '.join(names)}]\n")
    options = {"env": hosts.variables(), "cwd": hosts.work, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command_line("up", "hosts.yaml"), **options) as command:
        until(lambda: len(list(hosts.folder.glob("*/waits"))) == 8)
        (hosts.folder / "hold").unlink()
        _, errors = command.communicate(timeout=20)
    assert command.returncode == 1 and errors.count("FAILED: no sshd listens there") == 11
    assert hosts.logins() == 11


def test_nothing_is_started_where_the_port_of_the_head_is_taken(hosts):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        hosts.write(THREE.replace("port: 0", f"port: {port}"))
        done = hosts.zray("up", "hosts.yaml", status=1)
    assert f"a  FAILED: zray start failed: port {port} of 127.0.0.1 is taken: end what listens there" in done.stderr
    assert done.stderr.count("it did not join: the head is not up") == 2 and "0 of 3 hosts are up" in done.stderr
    assert not any(hosts.sessions().values())
    hosts.zray("down")


WAITING = """
import os, sys
import zray
from tests.gates import Gate

zray.init()

@zray.remote
def work(folder):
    Gate(f"{folder}/began").open()
    Gate(f"{folder}/gate").wait()
    Gate(f"{folder}/done").open()

zray.get(work.remote(sys.argv[1]))
"""


@pytest.mark.parametrize("now", [False, True])
def test_down_lets_tasks_finish_and_now_does_not(hosts, now, tmp_path):
    hosts.write(
        "head: {host: a, address: 127.0.0.1, num_cpus: 0}\nnodes: [{host: b, num_cpus: 1}]\noptions: {port: 0}\n"
    )
    hosts.zray("up", "hosts.yaml")
    (hosts.work / "p.py").write_text(WAITING)
    options = {"env": hosts.variables(), "cwd": hosts.work, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command_line("submit", "p.py", str(tmp_path)), **options) as program:
        until((tmp_path / "began").exists)
        if now:
            hosts.zray("down", "--now")
        else:
            with subprocess.Popen(command_line("down"), **options) as down:
                assert down.stderr.readline() == "b  waits for 1 running task ...\n"
                (tmp_path / "gate").touch()
            assert down.returncode == 0
        program.communicate(timeout=20)
    assert (tmp_path / "done").exists() != now
    assert not any(hosts.sessions().values())


def test_ctrl_c_leaves_what_is_up_and_says_what(hosts):
    hosts.write(THREE + "nodes_setup: ['[ ${PWD##*/} = b ] || exec sleep 50']\n")
    with subprocess.Popen(
        command_line("up", "hosts.yaml"),
        env=hosts.variables(),
        cwd=hosts.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        lines = [command.stdout.readline(), command.stdout.readline()]
        until(lambda: "setup 1 of 1" in hosts.logs().get("c.log", ""))
        command.send_signal(signal.SIGINT)
        _, errors = command.communicate(timeout=20)
    assert sorted(line[0] for line in lines) == ["a", "b"] and command.returncode == 1
    assert "2 of 3 hosts are up: a, b; c was setting up.  `zray up` goes on, `zray down` ends all." in errors
    until(lambda: not any("sleep 50" in line for line in processes_marked(mark()).values()))
    assert [len(names) for names in hosts.sessions().values()] == [1, 1, 0]
    hosts.zray("down", "--now")
    assert not any(hosts.sessions().values())


def mark():
    return f"ZRAY_TEST_RUN={os.environ['ZRAY_TEST_RUN']}"
