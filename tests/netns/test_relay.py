"""Hosts that cannot reach each other: the head relays between them."""

import os
import signal

import pytest

from tests.gates import until
from tests.netns.network import NoNamespaces, status
from tests.netns.programs import COUNTER, HEADER

pytestmark = pytest.mark.slow

EXCHANGE = """
import numpy as np

def large(seed):
    return np.random.default_rng(seed).bytes(5_000_000)

made = on("c", large).remote(7)
assert zray.get(made, timeout=30) == large(7)  # from c to here
put = zray.put(large(8))
assert zray.get(on("c", lambda value: value == large(8)).remote(put), timeout=30)  # and back
assert zray.get([counter.add.remote() for _ in range(300)], timeout=30) == list(range(1, 301))
"""


def test_two_hosts_behind_a_firewall(network, hosts):
    """Which drops what comes from the other one, in silence."""
    network.separate(*hosts[1:])
    cluster = hosts[0].start_head()
    for host in hosts[1:]:
        host.join(cluster)
    hosts[1].program(HEADER + COUNTER + EXCHANGE, cluster[0]).ends_well()
    assert "is reached through the head" in hosts[2].logs()
    assert "is reached through the head" not in hosts[0].logs() + hosts[1].logs()


COLLECTIVE = """
import numpy as np
from zray.util import collective

@zray.remote(num_cpus=0)
class Member:
    def init(self, rank, size):
        self.rank = rank
        collective.init_collective_group(size, rank)
    def add(self, count):
        array = np.full(count, self.rank + 1.0)
        collective.allreduce(array)
        return float(array.min()), float(array.max())
    def gone(self):
        try:
            collective.barrier()
        except collective.CollectiveGroupError as error:
            return str(error)

members = [Member.options(resources={host: 1}).remote() for host in sys.argv[2]]
zray.get([member.init.remote(rank, len(members)) for rank, member in enumerate(members)], timeout=30)
total = len(members) * (len(members) + 1) / 2
for count in (10, 100_000, 1_000_000):
    found = zray.get([member.add.remote(count) for member in members], timeout=40)
    assert found == [(total, total)] * len(members), found
waiting = [member.gone.remote() for member in members[1:]]
zray.kill(members[0])
assert all("rank 0" in text for text in zray.get(waiting, timeout=20))
"""


def test_members_of_a_collective_group_that_only_the_relay_connects(network, hosts):
    """The program, whose own node has no member, reaches them through the relay too."""
    network.separate(*hosts[1:])
    cluster = hosts[0].start_head()
    for host in hosts[1:]:
        host.join(cluster)
    hosts[1].program(HEADER + COLLECTIVE, cluster[0], "bc").ends_well()
    hosts[1].program(HEADER + COLLECTIVE, cluster[0], "acbc").ends_well()
    assert "is reached through the head" in hosts[2].logs()


def test_program_outside_makes_a_group_of_members_that_only_the_relay_connects(network, hosts):
    outside = network.add("d")
    network.separate(*hosts[1:], outside)
    cluster = hosts[0].start_head()
    for host in hosts[1:]:
        host.join(cluster)
    own = """
@zray.remote(num_cpus=0)
class Declared:
    def add(self, count):
        array = np.ones(count)
        collective.allreduce(array, "made")
        return set(array.tolist())

members = [Declared.options(resources={host: 1}).remote() for host in "bc"]
collective.create_collective_group(members, 2, [0, 1], group_name="made")
for count in (10, 300_000):
    assert zray.get([member.add.remote(count) for member in members], timeout=40) == [{2.0}] * 2
"""
    source = HEADER + COLLECTIVE.partition("@zray")[0] + own
    outside.program(source, cluster[0], token=cluster[1]).ends_well()


@pytest.fixture
def behind_routers(network):
    """Three hosts, two of them behind a router each."""
    try:
        return [network.add("a"), *map(network.add_behind_nat, "bc")]
    except NoNamespaces as error:
        pytest.skip(f"no routers here: {error}")


def test_two_hosts_behind_routers_of_their_own(behind_routers):
    """Their addresses mean nothing to others; here they are even the same."""
    hosts = behind_routers
    cluster = hosts[0].start_head()
    for host in hosts[1:]:
        host.join(cluster)
    assert set(status(hosts[0])) == set("abc")
    hosts[1].program(HEADER + COUNTER + EXCHANGE, cluster[0]).ends_well()
    assert "is reached through the head" in hosts[2].logs()
    assert "a router lies between" in hosts[1].logs() and "a router lies between" not in hosts[0].logs()


@pytest.mark.parametrize("plan, killed", [("--global-schedulers", 2), ("--gcs-replicas", 1)])
def test_what_the_head_starts_later_is_reached_from_behind_routers(behind_routers, plan, killed):
    """A scheduler or a replica that takes the place of one that was killed cannot come to them: they come to it."""
    hosts = behind_routers
    cluster = hosts[0].start_head(plan, "2")
    for host in hosts[1:]:
        host.join(cluster, "--no-replicas")
    former = hosts[0].node_pids("service")
    assert len(former) == 2
    for pid in former[:killed]:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(set(hosts[0].node_pids("service")) - set(former)) == killed)
    hosts[1].program(HEADER + COUNTER + EXCHANGE, cluster[0]).ends_well()


def test_replicas_run_behind_routers_too(behind_routers):
    """Nobody can call them there: they call, and where that does not do, the head passes it on."""
    hosts = behind_routers
    cluster = hosts[0].start_head("--gcs-replicas", "3")
    for host in hosts[1:]:
        host.join(cluster)
    for host in hosts[1:]:
        until(lambda host=host: host.node_pids("service"))
    hosts[1].program(HEADER + COUNTER + EXCHANGE, cluster[0]).ends_well()
    said = [path.read_text() for host in hosts[1:] for path in host.folder.glob("zray-*/*/logs/gcs-*.log")]
    assert len(said) == 2 and all("is reached through the head" in lines for lines in said)


def test_who_can_be_reached_is(hosts, cluster):
    hosts[1].program(HEADER + COUNTER + EXCHANGE, cluster[0]).ends_well()
    assert not any("through the head" in host.logs() for host in hosts)
