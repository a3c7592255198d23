"""A cluster of three hosts with a network between them: joining, running, cuts, bad cables, deaths."""

import os
import signal
import subprocess
import sys

import pytest

from tests.gates import Tally, until, until_ended
from tests.netns.network import status, until_listed
from tests.netns.programs import COUNTER, HEADER

pytestmark = pytest.mark.slow


def test_a_program_runs_on_all_hosts(hosts, cluster):
    """Joined by the printed command alone: nobody was told an address of its own."""
    source = """
import numpy as np
ids = {name: zray.get(on(name, here).remote(), timeout=20) for name in "abc"}
assert len(set(ids.values())) == 3 and ids["b"] == here(), ids

def large(seed):
    return np.random.default_rng(seed).bytes(20_000_000)

made = on("c", large).remote(7)
assert zray.get(made, timeout=30) == large(7)  # from c to here
put = zray.put(large(8))
assert zray.get(on("a", lambda value: value == large(8)).remote(put), timeout=30)  # from here to a
assert zray.get(on("c", lambda value: value == large(8)).remote(put), timeout=30)

@zray.remote(resources={"c": 1})
class Counter:
    def __init__(self):
        self.seen = []
    def add(self, number):
        self.seen.append(number)
        return len(self.seen)
    def where(self):
        return here(), self.seen

counter = Counter.remote()
assert zray.get([counter.add.remote(number) for number in range(200)], timeout=30) == list(range(1, 201))
assert zray.get(counter.where.remote(), timeout=20) == (ids["c"], list(range(200)))
for name in "abc":
    say(ids[name])
"""
    printed = hosts[1].program(HEADER + source, cluster[0]).ends_well().split()
    members = status(hosts[2])
    assert printed == [members[name] for name in "abc"]


WORK = """
def work(number, tally):
    tally.visit()
    threading.Event().wait(0.05)
    return number * number

from tests.gates import Tally
tally = Tally(sys.argv[2])
count = int(sys.argv[3])
refs = [zray.remote(work).options(max_retries=3).remote(number, tally) for number in range(count)]
zray.wait(refs, num_returns=count // 10, timeout=30)
say("under way")
"""
RESULTS = """
assert zray.get(refs, timeout=50) == [number * number for number in range(count)]
say("right")
"""


def a_cut_costs_nothing(network, hosts, cluster, tmp_path, cut_off, seconds, count):
    """So many tasks, and calls on an actor, run while that host is cut off: all is right, once, and all are members."""
    before = status(hosts[0])
    source = COUNTER + "assert zray.get(counter.add.remote(), timeout=20) == 1\n"
    calls = "counts = [counter.add.remote() for _ in range(100)]\n"
    ending = "assert zray.get(counts, timeout=30) == list(range(2, 102))\n"
    program = hosts[1].program(HEADER + source + WORK + calls + RESULTS + ending, cluster[0], str(tmp_path), str(count))
    program.says("under way")
    network.cut_for(cut_off, seconds)
    program.says("right")
    program.ends_well()
    assert status(hosts[0]) == before
    assert Tally(tmp_path).count() == count


def test_a_cut_that_heals_in_time_costs_nothing(network, hosts, cluster, tmp_path):
    a_cut_costs_nothing(network, hosts, cluster, tmp_path, hosts[2], 1, 100)


def test_a_program_outside_that_is_cut_off_for_seconds_goes_on(network, hosts, tmp_path):
    """For longer than any node may be, and than it takes its links to notice.  Nothing runs twice meanwhile."""
    cluster = hosts[0].start_head()
    hosts[1].join(cluster)
    source = (
        COUNTER
        + """
assert len({zray.get(on(host, here).remote(), timeout=20) for host in "ab"} | {here()}) == 3
"""
    )
    calls = "counts = [counter.add.remote() for _ in range(100)]\n"
    ending = "assert zray.get(counts, timeout=50) == list(range(1, 101))\n"
    work = HEADER + source.replace('{"c": 1}', '{"b": 1}') + WORK + calls
    program = hosts[2].program(work + RESULTS + ending, cluster[0], str(tmp_path), "100", token=cluster[1])
    program.says("under way")
    network.cut_for(hosts[2], 6)
    program.says("right")
    program.ends_well()
    assert set(status(hosts[0])) == set("ab")
    assert Tally(tmp_path).count() == 100


def test_a_host_that_is_cut_off_for_long_stops_and_joins_anew(network, hosts, cluster, tmp_path):
    before = status(hosts[0])
    program = hosts[1].program(HEADER + WORK + RESULTS, cluster[0], str(tmp_path), "150")
    program.says("under way")
    cut_off = hosts[2].node_pids()
    network.cut(hosts[2])
    until_listed(hosts[0], "ab")
    program.says("right")
    program.ends_well()
    network.heal(hosts[2])
    until_listed(hosts[0], "abc")  # nobody has done anything there
    until_ended(cut_off)
    after = status(hosts[0])
    assert set(after) == set("abc") and after["c"] != before["c"]
    source = 'say(zray.get(on("c", here).remote(), timeout=20))'
    assert hosts[1].program(HEADER + source, cluster[0]).ends_well() == f"{after['c']}\n"


def test_a_head_whose_cable_is_out_for_long_costs_nothing(network, hosts, cluster, tmp_path):
    """Nobody can tell whether it is oneself that is cut off: all wait, and go on.  Nothing runs twice."""
    a_cut_costs_nothing(network, hosts, cluster, tmp_path, hosts[0], 8, 150)
    assert "no heartbeat comes from any other machine of the cluster" in hosts[0].logs()
    assert "its workers are stopped" in hosts[1].logs() and "its workers continue" in hosts[1].logs()


def test_a_head_whose_machine_loses_its_power_costs_no_actor(network, hosts, tmp_path):
    """No reset tells the nodes.  The head is started again with `--state-dir`, and all goes on where it was."""
    start = ("--state-dir", str(tmp_path / "state"))
    cluster = hosts[0].start_head(*start)
    for host in hosts[1:]:
        host.join(cluster)
    before = status(hosts[1])
    source = COUNTER + "assert zray.get(counter.add.remote(), timeout=20) == 1\n"
    calls = "assert zray.get([counter.add.remote() for _ in range(100)], timeout=60) == list(range(2, 102))\n"
    program = hosts[1].program(
        HEADER + source + "say('under way')\nsys.stdin.readline()\n" + calls + "say('right')\n", cluster[0]
    )
    program.says("under way")
    head = hosts[0].node_pids()
    network.cut(hosts[0])
    for pid in head:
        os.kill(pid, signal.SIGKILL)
    until_ended(head)
    until(lambda: all("its workers are stopped" in host.logs() for host in hosts[1:]), 20)
    network.heal(hosts[0])
    program.goes_on()
    hosts[0].start_head(*start)
    program.says("right")
    program.ends_well()
    after = status(hosts[1])
    assert {name: after[name] for name in "bc"} == {name: before[name] for name in "bc"}


def test_a_program_is_right_over_a_bad_network(network, hosts, cluster, tmp_path):
    network.worsen(hosts[2], delay_ms=20, loss_percent=2)
    before = status(hosts[0])
    source = """
made = [on("c", lambda number: bytes([number]) * 300_000).remote(number) for number in range(3)]
assert zray.get(made, timeout=50) == [bytes([number]) * 300_000 for number in range(3)]
"""
    program = hosts[1].program(HEADER + WORK + RESULTS + source, cluster[0], str(tmp_path), "100")
    program.says("under way")
    program.says("right")
    program.ends_well()
    assert status(hosts[0]) == before


@pytest.mark.parametrize("delay_ms, loss_percent, large, count", [(20, 0, 1_000_000, 12), (100, 2, 300_000, 10)])
def test_a_node_behind_a_slow_line_is_a_member_whatever_it_carries(
    network, hosts, cluster, delay_ms, loss_percent, large, count
):
    """Heartbeats do not wait behind what takes the line seconds."""
    network.worsen(hosts[2], delay_ms=delay_ms, loss_percent=loss_percent, bytes_per_second=250_000)
    before = status(hosts[0])
    source = """
import hashlib
import numpy as np

def digest(value):
    return hashlib.sha256(value).hexdigest()

def noise(seed, count):
    return np.random.default_rng(seed).bytes(count)

large, count = map(int, sys.argv[2:])
put = zray.put(noise(1, large))
assert zray.get(on("c", digest).remote(put), timeout=50) == digest(noise(1, large))
made = on("c", noise).remote(2, large)
assert digest(zray.get(made, timeout=50)) == digest(noise(2, large))
say("large")
# As arguments and answers are that go with their tasks.
small = [on("c", lambda value: value).remote(noise(number, 60_000)) for number in range(count)]
assert zray.get(small, timeout=50) == [noise(number, 60_000) for number in range(count)]
"""
    program = hosts[0].program(HEADER + source, cluster[0], str(large), str(count))
    program.says("large")
    program.ends_well()
    assert status(hosts[0]) == before


def test_what_a_program_outside_puts_goes_over_its_slow_line_once(network, hosts, cluster):
    """However many read it, at the same time or later.  (The first reader of it may be any of them.)"""
    outside = network.add("d")
    network.worsen(outside, delay_ms=20, loss_percent=0, bytes_per_second=1_000_000)
    source = """
import hashlib
import numpy as np

def digest(box):
    return hashlib.sha256(zray.get(box[0], timeout=50)).hexdigest()

def sent():
    (line,) = (line for line in open("/proc/net/dev") if line.strip().startswith("eth0:"))
    return int(line.partition(":")[2].split()[8])

assert len({zray.get(on(host, here).remote(), timeout=20) for host in "abc"} | {here()}) == 4
value = np.random.default_rng(1).bytes(5_000_000)
before = sent()
put = zray.put(value)
seen = zray.get([on(host, digest).remote([put]) for host in "abc"], timeout=50)
seen.append(zray.get(on("b", digest).remote([put]), timeout=50))
assert set(seen) == {hashlib.sha256(value).hexdigest()}, seen
assert len(value) < sent() - before < 1.3 * len(value), (before, sent())
"""
    outside.program(HEADER + source, cluster[0], token=cluster[1]).ends_well()


def test_a_node_that_is_killed_costs_no_result(hosts, cluster, tmp_path):
    program = hosts[1].program(HEADER + WORK + RESULTS, cluster[0], str(tmp_path), "150")
    program.says("under way")
    (node,) = hosts[2].node_pids()
    os.kill(node, signal.SIGKILL)
    until_listed(hosts[0], "ab")
    program.says("right")
    program.ends_well()
    until(lambda: Tally(tmp_path).count() >= 150)


# There is nobody at that address.
PROXIES = {
    name: "http://10.255.255.1:3128"
    for scheme in ("http", "https", "all", "ftp", "socks")
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())
}


@pytest.fixture
def alone(network):
    """A host without a cable, whose user has proxies in the environment."""
    host = network.add("a")
    host.ip("link del eth0")
    host.variables = PROXIES
    host.address = "127.0.0.1"
    return host


def test_a_laptop_without_any_network(alone):
    alone.ip("link set lo down")
    source = "import zray\nzray.init(num_cpus=1)\nassert zray.get(zray.remote(lambda: 7).remote(), timeout=20) == 7\n"
    alone.program(source).ends_well()


def test_a_cluster_where_there_is_nothing_but_loopback(alone):
    """And a program that comes to it from outside, as far as it can tell."""
    cluster = alone.start_head()
    alone.join(cluster)
    source = """
ids = set(zray.get([zray.remote(lambda: (threading.Event().wait(0.1), here())[1]).remote() for _ in range(30)]))
assert len(ids) == 2, ids
"""
    alone.program(HEADER + source, cluster[0]).ends_well()
    (alone.folder / "outside").mkdir()
    alone.variables = PROXIES | {"ZRAY_TMPDIR": str(alone.folder / "outside")}
    alone.program(HEADER + source + "assert here() not in ids\n", cluster[0], token=cluster[1]).ends_well()


COUNTED = """
import sys, zray
zray.init()
print(len(zray.nodes()), zray.cluster_resources()["CPU"], flush=True)
sys.exit(5)
"""


def test_line_that_all_machines_get_makes_a_cluster_of_them(network, tmp_path):
    """The machine with the address runs the program, and the others are nodes, as with `ray symmetric-run`."""
    head, other = network.add("a"), network.add("b")
    line = [sys.executable, "-m", "cli.main", "symmetric-run", "--address", f"{head.address}:6379", "--min-nodes", "2"]
    line += ["--meet", str(tmp_path), "--num-cpus", "1", "--", sys.executable, "-c", COUNTED]
    pipe = subprocess.PIPE
    begun = [
        subprocess.Popen(host.inside(*line), env=host.environment(), stdout=pipe, stderr=pipe, text=True)
        for host in (other, head)
    ]
    found = [(*process.communicate(timeout=60), process.returncode) for process in begun]
    assert found[1][0] == "2 2.0\n" and found[1][2] == 5, found
    assert found[0] == ("", "", 0)
    assert "head at 10.231.0.1:6379" in found[1][1] and "ZRAY_TOKEN" not in found[1][1]
    assert not head.node_pids() and not other.node_pids() and not list(tmp_path.iterdir())
