"""Hosts on one machine: each has a network, processes and shared memory of its own, and a cable to a switch.

The namespaces have no names, and nothing joins them to the machine's own network: its routes stay what they are, no
address can clash.  Each is held by a process that ends when its standard input does; with it, the kernel ends all
processes of that host and takes its network and memory back, also after a kill -9 of the test run.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys

from tests.gates import until
from tests.netns import nat
from tests.scripts import environment
from tests.titles import is_kind

PREFIX = "10.231.0"
HEAD_PORT = 6379
# The first process of a host: it reaps what falls to it.
FIRST = "mount -t tmpfs tmpfs /dev/shm && trap '' CHLD && echo ready && exec cat >/dev/null"
COMMAND_SECONDS = 50


class NoNamespaces(Exception):
    """They cannot be had here; says why."""


class Namespace:
    """A network, a process tree, a /dev/shm."""

    def __init__(self):
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        pipe = subprocess.PIPE
        self.holder = subprocess.Popen([*command, "sh", "-c", FIRST], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        if self.holder.stdout.readline() != "ready\n":
            reason = self.holder.stderr.read().strip()
            self.close()
            raise NoNamespaces(reason)
        self.pid = self.holder.pid

    def inside(self, *command):
        """The command line that runs a command in there, in the folder /: Python needs `environment`."""
        places = [f"--{kind}=/proc/{self.pid}/ns/{name}" for kind, name in (("net", "net"), ("mount", "mnt"))]
        return ["nsenter", *places, f"--pid=/proc/{self.pid}/ns/pid_for_children", "--", *command]

    def run(self, *command, **options):
        """To its end, which must be a good one; what it printed."""
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, timeout=COMMAND_SECONDS, **options)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def ip(self, line):
        """`ip LINE`, in its network, but among our processes: some lines name one."""
        done = subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", *line.split()], capture_output=True)
        assert done.returncode == 0, f"ip {line}: {done.stderr}"

    def close(self):
        """Whatever runs in it is killed."""
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stderr.close()


class Host(Namespace):
    """A machine, as far as zray can tell."""

    def __init__(self, folder, name):
        super().__init__()
        self.name = name
        self.address = ""
        self.variables = {}  # further ones, of all that runs here
        self.folder = folder / name
        self.folder.mkdir()
        self.ip("link set lo up")

    def environment(self, token=""):
        variables = {**environment(), "TMPDIR": str(self.folder), **self.variables}
        return {**variables, "ZRAY_TOKEN": token} if token else variables

    def zray(self, *arguments, token=""):
        """A command of zray; what it printed."""
        return self.run(sys.executable, "-m", "cli.main", *arguments, env=self.environment(token))

    def start_head(self, *arguments, num_cpus=1):
        """(address, token), as printed; the host's name is a resource of the node."""
        printed = self.zray("start", "--head", "--host", self.address, *arguments, *self._resources(num_cpus))
        return re.search(r"ZRAY_TOKEN=(\S+) zray start --address (\S+)", printed).group(2, 1)

    def join(self, cluster, *arguments, num_cpus=1):
        """By the printed command."""
        address, token = cluster
        self.zray("start", "--address", address, *arguments, *self._resources(num_cpus), token=token)

    def _resources(self, num_cpus):
        return "--num-cpus", str(num_cpus), "--resources", f'{{"{self.name}": 1000}}'

    def node_pids(self, kind="node"):
        """Of the node processes here, or of another kind, as they are known outside."""
        processes = f"/proc/{self.pid}/ns/pid_for_children"
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if os.path.samefile(f"/proc/{pid}/ns/pid", processes):
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        if is_kind(file.read(), kind):
                            found.append(int(pid))
            except OSError:
                continue  # it ended meanwhile
        return found

    def logs(self):
        """The nodes' own, for whoever looks at a test that failed."""
        return "\n".join(path.read_text() for path in self.folder.glob("zray-*/*/logs/node.log"))

    def program(self, source, *arguments, token=""):
        """Run it here, beside the test; with a token where no node of its cluster is."""
        path = self.folder / f"program-{random.getrandbits(32):08x}.py"
        path.write_text(source)
        return Program(self, [sys.executable, str(path), *arguments], self.environment(token))

    def close(self):
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Program:
    """One that runs.  It prints words that the test waits for, and ends well."""

    def __init__(self, host, command, variables):
        self.host = host
        self.errors = open(host.folder / f"{random.getrandbits(32):08x}.errors", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            host.inside(*command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=variables,
        )

    def says(self, word):
        """Wait until it prints that, and nothing else before."""
        line = self.process.stdout.readline()
        assert line == f"{word}\n", f"{line!r} instead of {word!r}: {self._errors()}"

    def goes_on(self):
        """It waits for a line."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ends_well(self):
        """What else it printed."""
        rest = self.process.stdout.read()
        assert self.process.wait() == 0, f"{rest}{self._errors()}"
        self.close()
        return rest

    def _errors(self):
        self.errors.seek(0)
        return self.errors.read()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


class Network:
    """A switch; hosts that are plugged into it."""

    def __init__(self, folder):
        self.folder = folder
        self.switch = Namespace()
        self.hosts = []
        self.wires = {}
        self.switch.ip("link add bridge type bridge forward_delay 0")
        self.switch.ip("link set bridge up")

    def add(self, name):
        """A host with a cable to the switch."""
        host = Host(self.folder, name)
        self.hosts.append(host)
        self.plug(host, f"{PREFIX}.{len(self.hosts)}")
        return host

    def plug(self, host, address):
        """Its cable."""
        host.address = address
        self.switch.ip(f"link add to-{host.name} type veth peer name eth0")
        self.switch.ip(f"link set eth0 netns {host.pid}")
        self.switch.ip(f"link set to-{host.name} master bridge up")
        host.ip(f"addr add {address}/24 dev eth0")
        host.ip("link set eth0 up")

    def separate(self, *hosts):
        """They reach all others, but not each other: packets between them vanish, as in a firewall."""
        for host in hosts:
            self.switch.ip(f"link set dev to-{host.name} type bridge_slave isolated on")

    def join_again(self, *hosts):
        """The opposite of `separate`."""
        for host in hosts:
            self.switch.ip(f"link set dev to-{host.name} type bridge_slave isolated off")

    def add_behind_nat(self, name):
        """A host whose router has an address here, and which itself has one that means nothing here.

        Raises:
            NoNamespaces: the kernel cannot have such a router.
        """
        router = Host(self.folder, f"{name}r")
        host = Host(self.folder, name)
        self.hosts += [router, host]
        self.plug(router, f"{PREFIX}.{len(self.hosts)}")
        router.ip("link add inside type veth peer name outside")
        router.ip(f"link set outside netns {host.pid}")
        router.ip("addr add 192.168.1.1/24 dev inside")
        router.ip("link set inside up")
        router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        made = subprocess.run(
            router.inside(sys.executable, "-m", "tests.netns.nat", "eth0"),
            capture_output=True,
            text=True,
            env=environment(),
        )
        if made.returncode == nat.NOT_HERE:
            raise NoNamespaces(made.stderr.strip())
        assert made.returncode == 0, made.stderr
        host.address = "192.168.1.2"
        host.ip(f"addr add {host.address}/24 dev outside")
        host.ip("link set outside up")
        host.ip("route add default via 192.168.1.1")
        return host

    def cut(self, host):
        """Nothing gets through any more, and nobody is told."""
        self.switch.ip(f"link set to-{host.name} nomaster")

    def heal(self, host):
        self.switch.ip(f"link set to-{host.name} master bridge")

    def cut_for(self, host, seconds):
        """Both, by one process: nothing comes in between that takes time."""
        cable = f"ip link set to-{host.name}"
        self.switch.run("sh", "-c", f"{cable} nomaster; sleep {seconds}; {cable} master bridge")

    def worsen(self, host, delay_ms, loss_percent, bytes_per_second=0):
        """Its packets come late, each way, slowly, or not at all: by the kernel, or by a process where that has no
        netem."""
        netem = f"netem delay {delay_ms}ms loss {loss_percent}%"
        if bytes_per_second:
            # A fifth of a second of full packets may wait, as in wire.py.
            netem += f" rate {8 * bytes_per_second}bit limit {max(10, bytes_per_second // 5 // 1500)}"
        done = subprocess.run(
            self.switch.inside("tc", *f"qdisc add dev to-{host.name} root {netem}".split()),
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            host.run("tc", *f"qdisc add dev eth0 root {netem}".split())
            return
        self.switch.ip(f"link set to-{host.name} nomaster")
        self.switch.ip(f"link add {host.name}-in type veth peer name {host.name}-out")
        self.switch.ip(f"link set {host.name}-in up")
        self.switch.ip(f"link set {host.name}-out master bridge up")
        for namespace, device in ((host, "eth0"), (self.switch, f"{host.name}-out")):
            namespace.ip(f"link set {device} gso_max_size 1500 gso_max_segs 1")
        command = [sys.executable, "-m", "tests.netns.wire", f"to-{host.name}", f"{host.name}-in"]
        wire = subprocess.Popen(
            self.switch.inside(*command, str(delay_ms), str(loss_percent), str(bytes_per_second)),
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        self.wires[host] = wire
        assert wire.stdout.readline() == "ready\n"

    def close(self):
        for wire in self.wires.values():
            wire.kill()
            wire.wait()
            wire.stdout.close()
        for host in self.hosts:
            host.close()
        self.switch.close()


def status(host):
    """What `zray status` says of the cluster, asked at a host: {the host's name: node id}."""
    (session,) = json.loads(host.zray("status", "--format", "json"))["sessions"]
    return {name: node["node_id"] for node in session["nodes"] for name in node["resources"] if len(name) == 1}


def until_listed(host, names):
    """Wait until the nodes of these hosts are the members."""
    until(lambda: set(status(host)) == set(names), 40)
