"""`zray up` against real sshds: three hosts in namespaces, called from a fourth; the package is openssh-server."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from tests.gates import until
from tests.launch.test_up import last_lines
from tests.netns.network import NoNamespaces, status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SSHD = shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"]))
CONFIG = """\
Port 22
ListenAddress {address}
HostKey {folder}/host-key
AuthorizedKeysFile {folder}/authorized
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
SetEnv {variables}
"""
CLIENT = """\
Host *
    IdentityFile {work}/key
    IdentitiesOnly yes
    UserKnownHostsFile {work}/known
"""
FILE = """\
name: lab
ssh: [-F, {work}/config]
python: {python}
head: {{host: {a}, num_cpus: 1, resources: {{a: 1000}}}}
nodes:
  - {{host: {b}, num_cpus: 1, resources: {{b: 1000}}}}
  - {{host: {c}, num_cpus: 1, resources: {{c: 1000}}}}
"""


class Ssh:
    """Hosts with an sshd each, and one from which they are called."""

    def __init__(self, hosts, caller):
        self.hosts, self.caller, self.work, self.daemons = hosts, caller, caller.folder / "w", []
        self.work.mkdir()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.work / "key"], check=True)
        (self.work / "config").write_text(CLIENT.format(work=self.work))
        caller.variables |= {"HOME": str(self.work), "XDG_STATE_HOME": str(self.work / "state")}
        for host in hosts:
            self.start(host)
        places = {host.name: host.address for host in hosts}
        (self.work / "hosts.yaml").write_text(FILE.format(work=self.work, python=sys.executable, **places))

    def start(self, host):
        """An sshd of root's, whose home is the host's folder."""
        keys = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", host.folder / "host-key"]
        subprocess.run(keys, check=True)
        kind, key, *_ = (host.folder / "host-key.pub").read_text().split()
        with open(self.work / "known", "a") as file:
            file.write(f"{host.address} {kind} {key}\n")
        shutil.copy(self.work / "key.pub", host.folder / "authorized")
        ours = ("PYTHONPATH", "ZRAY_TEST_RUN", "ZRAY_LOG_DIR", "TMPDIR", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
        variables = {name: value for name, value in host.environment().items() if name in ours}
        variables |= {"HOME": str(host.folder), "XDG_STATE_HOME": str(host.folder / "state")}
        text = " ".join(f"{name}={value}" for name, value in variables.items())
        text = CONFIG.format(address=host.address, folder=host.folder, variables=text)
        (host.folder / "sshd.config").write_text(text)
        script = (
            "mount -t tmpfs tmpfs /run && mkdir /run/sshd\n"
            # The user that the package would have made.
            f"(cat /etc/passwd; echo sshd:x:990:65534::/run/sshd:/bin/false) > {host.folder}/passwd\n"
            f"mount --bind {host.folder}/passwd /etc/passwd\n"
            'exec "$0" -D -e -f "$1"'
        )
        with open(host.folder / "sshd.log", "w") as log:
            line = host.inside("sh", "-c", script, SSHD, host.folder / "sshd.config")
            self.daemons.append(subprocess.Popen(line, stderr=log))
        listens = f"Server listening on {host.address}"
        until(lambda: listens in (host.folder / "sshd.log").read_text())

    def zray(self, *arguments, code=0):
        """A command on the caller; (result, seconds)."""
        began = time.monotonic()
        line = self.caller.inside(
            "sh", "-c", 'cd "$0" && exec "$@"', self.work, sys.executable, "-m", "cli.main", *arguments
        )
        done = subprocess.run(line, env=self.caller.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr + self.logs()
        return done, time.monotonic() - began

    def logs(self):
        return "\n".join(path.read_text() for path in self.work.rglob("*.log"))

    def close(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()


@pytest.fixture
def ssh(network):
    if SSHD is None:
        pytest.skip("sshd is not installed: openssh-server")
    hosts = [network.add(name) for name in "abc"]
    made = Ssh(hosts, network.add("l"))
    yield made
    made.close()


def test_three_hosts_come_up_run_a_program_and_go(ssh):
    done, _ = ssh.zray("doctor", "--for", "up", "--hosts", "hosts.yaml")
    assert done.stdout.count(": Ssh logs in; zray ") == 3 and not ssh.hosts[0].node_pids()
    done, seconds = ssh.zray("up", "hosts.yaml")
    print(f"up: {seconds:.2f} s")
    assert set(last_lines(done)) >= {host.address for host in ssh.hosts}
    assert set(status(ssh.hosts[0])) == {"a", "b", "c"}
    done, seconds = ssh.zray("up", "hosts.yaml")
    print(f"second up: {seconds:.2f} s")
    assert done.stdout.count("runs:") == 3
    (ssh.work / "program.py").write_text(
        "import sys, zray\nzray.init()\n"
        "f = zray.remote(resources={'c': 1})(lambda: zray.get_runtime_context().get_node_id())\n"
        "print(zray.get(f.remote(), timeout=20))\nsys.exit(4)\n"
    )
    done, _ = ssh.zray("submit", "program.py", code=4)
    assert done.stdout.split() == [status(ssh.hosts[0])["c"]]
    done, _ = ssh.zray("exec", "--all", "echo $HOME")
    assert sorted(line.split()[1] for line in done.stdout.splitlines()) == [str(host.folder) for host in ssh.hosts]
    logs = [(host.folder / "sshd.log").read_text() for host in ssh.hosts]
    assert [log.count("Accepted publickey") for log in logs] == [1, 1, 1]  # a connection serves all commands
    _, seconds = ssh.zray("down")
    print(f"down: {seconds:.2f} s")
    for host in ssh.hosts:
        until(lambda host=host: not host.node_pids())
        assert not list(host.folder.glob("zray-*")) and not list(host.folder.glob("state/zray/hosts*"))


def test_caller_may_be_behind_nat(network):
    """The caller is like a laptop: the head still has an address that the nodes reach."""
    if SSHD is None:
        pytest.skip("sshd is not installed: openssh-server")
    try:
        caller = network.add_behind_nat("l")
    except NoNamespaces as error:
        pytest.skip(f"no NAT here: {error}")
    ssh = Ssh([network.add(name) for name in "abc"], caller)
    try:
        done, _ = ssh.zray("up", "hosts.yaml")
        assert f"head at {ssh.hosts[0].address}:6379" in done.stdout
        assert set(status(ssh.hosts[0])) == {"a", "b", "c"}
        ssh.zray("down", "--now")
    finally:
        ssh.close()


def test_real_sshs_say_what_the_troubles_are_told_by(ssh):
    a, b, c = ssh.hosts
    (b.folder / "authorized").write_text("")
    lines = (ssh.work / "known").read_text().splitlines()
    (ssh.work / "known").write_text("".join(f"{line}\n" for line in lines if not line.startswith(c.address)))
    text = (ssh.work / "hosts.yaml").read_text()
    more = f"  - {{host: {a.address}, port: 23}}\n  - nowhere.invalid\n  - 10.231.0.77\n"
    (ssh.work / "hosts.yaml").write_text(text.replace("ssh: [", "ssh: [-o, ConnectTimeout=1, ") + more)
    done, _ = ssh.zray("up", "hosts.yaml", code=1)
    said = {line.split()[0]: line for line in done.stderr.splitlines() if "FAILED" in line}
    assert "it refuses the key" in said[b.address]
    assert "its host key is not known" in said[c.address]
    assert "no sshd listens there" in said[f"{a.address}:23"]
    assert "the name is not known" in said["nowhere.invalid"]
    assert "it cannot be reached" in said["10.231.0.77"]
    assert f"1 of 6 hosts are up: {a.address}." in done.stderr
    ssh.zray("down", "--now", code=1)
    until(lambda: not a.node_pids())


def test_host_that_dies_halfway_is_a_line_and_the_others_come_up(ssh):
    with open(ssh.work / "hosts.yaml", "a") as file:
        file.write(f"nodes_setup: ['case $SSH_CONNECTION in *{ssh.hosts[1].address}*) exec sleep 50;; esac']\n")
    line = ssh.caller.inside(
        "sh", "-c", f'cd {ssh.work} && exec "$@"', "sh", sys.executable, "-m", "cli.main", "up", "hosts.yaml"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(line, env=ssh.caller.environment(), stdout=pipe, stderr=pipe, text=True) as command:
        log = ssh.work / "state" / "zray" / "up" / "lab" / f"{ssh.hosts[1].address}.log"
        until(lambda: log.exists() and "setup 1 of 1" in log.read_text())
        ssh.hosts[1].run("sh", "-c", "kill -9 -1")
        out, errors = command.communicate(timeout=40)
    assert command.returncode == 1 and "the connection was lost while its set-up ran" in errors, errors
    assert f"2 of 3 hosts are up: {ssh.hosts[0].address}, {ssh.hosts[2].address}." in errors
    ssh.zray("down", "--now", code=1)
