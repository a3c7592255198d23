"""`zray slurm` under a real Slurm, of packages slurmctld, slurmd, slurm-client and munge: two nodes in namespaces."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.gates import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
MISSING = [tool for tool in ("slurmctld", "slurmd", "srun", "munged") if shutil.which(tool, path=PATH) is None]
CONFIG = """\
ClusterName=test
SlurmctldHost={machine}({a})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
NodeName=na NodeHostname=na NodeAddr={a} CPUs=2 RealMemory=2000
NodeName=nb NodeHostname=nb NodeAddr={b} CPUs=2 RealMemory=2000
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""
COUNTS = """
import sys, zray
zray.init()
print(len(zray.nodes()), zray.cluster_resources()["CPU"], flush=True)
sys.exit(5)
"""
WAITS = """
import threading, zray
zray.init()
print("up", len(zray.nodes()), flush=True)
zray.get(zray.remote(threading.Event().wait).remote())
"""


class Slurm:
    """Daemons on two hosts; commands run on the first."""

    def __init__(self, network):
        self.hosts = [network.add(name) for name in "ab"]
        self.folder, self.daemons = network.folder, []
        (self.folder / "state").mkdir()
        (self.folder / "key").write_bytes(os.urandom(1024))
        (self.folder / "key").chmod(0o400)
        a, b = (host.address for host in self.hosts)
        text = CONFIG.format(machine=socket.gethostname(), folder=self.folder, a=a, b=b)
        (self.folder / "slurm.conf").write_text(text)
        munge = [f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")]
        munge += [f"--key-file={self.folder}/key", f"--socket={self.folder}/munge"]
        self._begin(self.hosts[0], "munged", "--foreground", "--force", *munge)
        until((self.folder / "munge").exists)
        config = str(self.folder / "slurm.conf")
        self._begin(self.hosts[0], "slurmctld", "-D", "-f", config)
        for host in self.hosts:
            line = ["unshare", "--uts", "sh", "-c", f'hostname n{host.name} && exec "$@"', "sh"]
            self._begin(host, *line, "slurmd", "-D", "-N", f"n{host.name}", "-f", config)
        until(lambda: self.run("sinfo", "-h", "-o", "%T").stdout.split() == ["idle"], 40)

    def _begin(self, host, *words):
        with open(self.folder / f"{len(self.daemons)}.log", "w") as log:
            line = host.inside(*words)
            self.daemons.append(subprocess.Popen(line, stdout=log, stderr=log, env=self.variables(host)))

    def variables(self, host):
        return {**host.environment(), "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def line(self, *words):
        """A command line for the first host, in the folder that both hosts see."""
        return self.hosts[0].inside("sh", "-c", 'cd "$0" && exec "$@"', self.folder, *words)

    def begin(self, *words):
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.line(*words), env=self.variables(self.hosts[0]), stdout=pipe, stderr=pipe, text=True
        )

    def run(self, *words):
        variables = self.variables(self.hosts[0])
        return subprocess.run(self.line(*words), env=variables, capture_output=True, text=True, timeout=60)

    def step(self, source, *options):
        """The command line of a step on both nodes."""
        path = self.folder / "program.py"
        path.write_text(source)
        zray = [sys.executable, "-m", "cli.main", "slurm", *options, "--", sys.executable, str(path)]
        return ["srun", "--nodes", "2", "--ntasks-per-node", "1", *zray]

    def nodes(self):
        return [pid for host in self.hosts for pid in host.node_pids()]

    def close(self):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()


@pytest.fixture
def slurm(network):
    if MISSING:
        pytest.skip(f"{', '.join(MISSING)} is not installed: slurmctld, slurmd, slurm-client, munge")
    made = Slurm(network)
    yield made
    made.close()


def test_program_runs_on_both_machines_and_scancel_leaves_nothing(slurm):
    """Several checks share one start: daemons take seconds to find each other."""
    began = time.monotonic()
    done = slurm.run(*slurm.step(COUNTS))
    print(f"a job: {time.monotonic() - began:.2f} s")
    assert done.returncode == 5 and done.stdout == "2 2.0\n", done.stdout + done.stderr
    assert "ZRAY_TOKEN" not in done.stderr
    assert re.search(r"Slurm job \d+: head at 10\.231\.0\.1:\d+, session", done.stderr)
    until(lambda: not slurm.nodes())
    with slurm.begin(*slurm.step(WAITS)) as job:
        assert job.stdout.readline() == "up 2\n"
        beside = slurm.run(*slurm.step(COUNTS))  # another job on the same machines
        assert beside.stdout == "2 2.0\n", beside.stdout + beside.stderr
        number = re.search(r"Slurm job (\d+)", job.stderr.readline())[1]
        assert slurm.run("scancel", number).returncode == 0
        job.communicate(timeout=40)
    until(lambda: not slurm.nodes())
    assert not [path for path in slurm.folder.rglob("*") if path.name.startswith(".zray")]
    for host in slurm.hosts:
        until(lambda host=host: not list(host.folder.glob("zray-*")))
