"""`zray doctor`: what it finds on this machine, on the tools that start clusters, and on the hosts of a file."""

import os
import socket

import pytest

from cli.launch import agent, checks
from tests.cli.commands import zray
from tests.store.redis_servers import needs_server, running

GIB, MIB = 1 << 30, 1 << 20
WELL = {
    "time": 0.0,
    "memory": 8 * GIB,
    "shared": [4 * GIB, 4 * GIB],
    "files": 65_536,
    "folder": "/tmp",
    "disk": 90 * GIB,
    "port": 6379,
    "port_taken": False,
    "logins": "",
}


def found(**facts):
    return [*checks.of_machine(WELL | facts)]


def test_machine_that_is_well():
    assert found() == [("ok", "/dev/shm has 4.0 GiB."), ("ok", "Port 6379 is free for a head.")]
    assert found(port=0) == [("ok", "/dev/shm has 4.0 GiB.")]


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        ({"shared": [64 * MIB, 64 * MIB]}, "FAILED", "/dev/shm has 64 MiB, too little for values"),
        ({"shared": None}, "FAILED", "/dev/shm is absent or cannot be written"),
        ({"shared": [4 * GIB, 100 * MIB]}, "note", "of which 100 MiB are free"),
        ({"shared": [2 * GIB, 2 * GIB]}, "note", "/dev/shm has 2.0 GiB, and the object store no more"),
        ({"files": 512}, "FAILED", "A process may open 512 files"),
        ({"files": 2_048}, "note", "A process may open 2,048 files"),
        ({"disk": 5 * MIB}, "note", "/tmp has 5 MiB free"),
        ({"port_taken": True}, "note", "Port 6379 is taken: a head takes another one, unless you end what listens"),
        ({"logins": "3:30:10"}, "note", "cuts logins beyond 3 at once (MaxStartups 3:30:10)"),
    ],
)
def test_trouble_is_one_sentence_with_the_remedy(facts, level, words):
    (other,) = [finding for finding in found(**facts) if finding.level != "ok"]
    assert other.level == level and words in other.text and other.text.endswith(".")


def test_port_that_the_head_must_have():
    findings = [*checks.of_machine(WELL | {"port_taken": True}, needs_port=True)]
    assert [finding.level for finding in findings] == ["ok", "FAILED"]


def test_many_logins_are_well():
    assert not [finding for finding in found(logins="10:30:100") if finding.level != "ok"]


@pytest.mark.parametrize(
    ("there", "words"), [(103.0, "2.5 s ahead of"), (96.0, "4.5 s behind"), (101.5, ""), (100.0, "")]
)
def test_clock_that_differs(there, words):
    findings = [*checks.of_clock(100.0, there, 101.0)]
    assert bool(findings) == bool(words) and all(words in finding.text for finding in findings)


def test_agent_finds_what_is_here(tmp_path):
    with socket.create_server(("", 0)) as taken:
        facts = agent.examine({"port": taken.getsockname()[1]})
        assert facts["port_taken"] and facts["shared"][0] >= facts["shared"][1] > 0 and facts["files"] > 0
    assert not agent.examine({"port": facts["port"]})["port_taken"] and not agent.examine({"port": 0})["port_taken"]


def test_first_value_of_maxstartups_counts(tmp_path):
    assert agent.login_limit(str(tmp_path)) == ""
    (tmp_path / "sshd_config").write_text("#MaxStartups 1\nPort 22\n  maxstartups 5:30:60\nMaxStartups 7\n")
    assert agent.login_limit(str(tmp_path)) == "5:30:60"
    (tmp_path / "sshd_config.d").mkdir()
    (tmp_path / "sshd_config.d" / "own.conf").write_text("MaxStartups=20\n")
    assert agent.login_limit(str(tmp_path)) == "20"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """`tool(name, script)` is the only program of that name; others than those made so are absent."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))

    def make(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o700)

    return make


def levels(findings):
    return [finding.level for finding in findings]


def test_tools_that_are_absent(tool):
    for check in (checks.of_ssh, lambda: checks.of_slurm({}), checks.of_mpi, checks.of_systemd, checks.of_kubernetes):
        (finding,) = check()
        assert finding.level == "FAILED" and "is not installed" in finding.text


def test_keys_of_ssh(tool, tmp_path):
    tool("ssh", "echo OpenSSH_9 >&2")
    assert levels(checks.of_ssh()) == ["ok", "note"]
    (tmp_path / ".ssh").mkdir()
    key = tmp_path / ".ssh" / "id_ed25519"
    key.write_text("secret")
    key.chmod(0o644)
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text("public")
    _, refused, _ = checks.of_ssh()
    assert refused.level == "FAILED" and f"`chmod 600 {key}`" in refused.text
    key.chmod(0o600)
    tool("ssh-add", "echo one; echo two")
    version, keys = checks.of_ssh()
    assert "OpenSSH_9" in version.text and keys == ("ok", f"2 keys are in ssh's agent, and 1 in {tmp_path}/.ssh.")


def test_slurm(tool):
    tool("srun", "")
    tool("scontrol", "echo slurm_load_ctl_conf error: Unable to contact slurm controller >&2; exit 1")
    (finding,) = checks.of_slurm({})
    assert finding.level == "FAILED" and "Unable to contact slurm controller" in finding.text
    tool("scontrol", 'echo "KillWait                = 5 sec"')
    there, wait, folder = checks.of_slurm({"SLURM_JOB_ID": "12"})
    assert "this is job 12" in there.text and "5 s after SIGTERM" in wait.text and os.getcwd() in folder.text
    tool("scontrol", 'echo "KillWait                = 30 sec"')
    assert levels(checks.of_slurm({})) == ["ok", "note"]


@pytest.mark.parametrize(
    ("said", "level"),
    [("mpirun (Open MPI) 4.1.4", "ok"), ("HYDRA build details:", "ok"), ("Other MPI 3", "FAILED"), ("", "FAILED")],
)
def test_mpi_whose_ranks_are_known(tool, said, level):
    tool("mpirun", f'echo "{said}"')
    assert levels(checks.of_mpi()) == [level]


def test_systemd_and_its_user_manager(tool, tmp_path, monkeypatch):
    tool("systemctl", "echo Failed to connect to bus >&2; exit 1")
    monkeypatch.setattr(checks, "SYSTEMD_FOLDER", str(tmp_path / "absent"))
    assert levels(checks.of_systemd()) == ["FAILED"]
    monkeypatch.setattr(checks, "SYSTEMD_FOLDER", str(tmp_path))
    _, manager = checks.of_systemd()
    assert manager.level == "note" and "Failed to connect to bus" in manager.text
    tool("systemctl", "")
    tool("loginctl", "echo Linger=no")
    _, linger = checks.of_systemd()
    assert linger.level == "note" and "enable-linger" in linger.text
    tool("loginctl", "echo Linger=yes")
    assert levels(checks.of_systemd()) == ["ok", "ok"]


@pytest.mark.parametrize(
    ("script", "level", "words"),
    [
        ("echo yes", "ok", "reaches a cluster"),
        ("echo no; exit 1", "FAILED", "You may not create"),
        ("echo connection refused >&2; exit 1", "FAILED", "reaches no cluster: connection refused"),
    ],
)
def test_kubernetes(tool, script, level, words):
    tool("kubectl", script)
    (finding,) = checks.of_kubernetes()
    assert finding.level == level and words in finding.text


def test_store_that_is_not_there():
    (finding,) = checks.of_store("redis://127.0.0.1:1/0", "")
    assert finding.level == "FAILED" and "127.0.0.1:1" in finding.text
    (finding,) = checks.of_store("http://a", "")
    assert finding.level == "FAILED"


@needs_server
def test_store_that_is_fit_or_not():
    with running() as server:
        (finding,) = checks.of_store(server.address().text, "")
        assert finding.level == "ok" and server.order("DBSIZE") == 0
        server.order("CONFIG", "SET", "appendfsync", "no")
        (finding,) = checks.of_store(server.address().text, "")
        assert finding.level == "FAILED" and "set `appendfsync always`" in finding.text


def test_command_says_what_is_wrong_here():
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = zray("doctor", "--port", port)
    assert done.returncode == 0 and f"note   Port {port} is taken: a head takes another one" in done.stdout
    done = zray("doctor", "--gcs-store", "redis://127.0.0.1:1/0")
    assert done.returncode == 1 and "FAILED redis://127.0.0.1:1/0" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--hosts", "hosts.yaml"), "--hosts is for --for up"),
        (("--to", "127.0.0.1:1", "--for", "up"), "give it alone"),
        (("--for", "cloud"), "'cloud' is not one of"),
    ],
)
def test_wrong_options_are_refused(arguments, words):
    done = zray("doctor", *arguments)
    assert done.returncode == 2 and words in done.stderr


@pytest.mark.slow
def test_hosts_of_a_file_are_examined_and_left_as_they_are(hosts):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        hosts.write(f"name: lab\nhead: a\nnodes: [b, {{host: c, python: /absent/python}}]\noptions: {{port: {port}}}\n")
        (hosts.folder / "b" / "fails").write_text("Permission denied (publickey).\n")
        done = hosts.zray("doctor", "--for", "up", "--hosts", "hosts.yaml", status=1)
    lines = done.stdout.splitlines()
    assert f"FAILED a: Port {port} is taken: end what listens there (`ss -ltnp`), or choose another port." in lines
    assert any(line.startswith("ok     a: Ssh logs in; zray ") for line in lines)
    (refused,) = [line for line in lines if " b: " in line]
    assert refused.startswith("FAILED b: It refuses the key: `ssh-copy-id b`")
    (absent,) = [line for line in lines if " c: " in line]
    assert absent.startswith("FAILED c: The command /absent/python was not found")
    hosts.write("name: lab\nhead: a\noptions: {port: 0}\n")
    done = hosts.zray("doctor", "--for", "up", "--hosts", "hosts.yaml")
    assert "FAILED" not in done.stdout and not any(hosts.sessions().values())
    assert not [path for path in (hosts.folder / "a").iterdir() if path.name != "state"]
