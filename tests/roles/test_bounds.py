"""Each role says what bounds what it keeps (USERS 2.4, 10); the simulator asserts it after each turn (tests/sim)."""

from zray.roles.gcs.results import Results
from zray.roles.relay import TUNNELS_MAX, Relay
from zray.wire.gcs import NodeJoined
from zray.wire.relay import OpenTunnel


def test_a_relay_says_how_many_tunnels_a_host_has():
    relay = Relay("relay")
    for host in ("a", "b"):
        relay.handle("monitor", NodeJoined(f"{host}/local", {}), 0.0)
    relay.handle("a/tunnels", OpenTunnel("b", 1), 0.0)
    assert list(relay.bounds()) == [("tunnels of a", 1, TUNNELS_MAX), ("tunnels of b", 1, TUNNELS_MAX)]


def test_a_tail_forgets_what_it_has_told_nodes_that_are_lost():
    class Member:
        acknowledged = 0
        history = ()
        replica = type("Replica", (), {"sessions": {"n1/shard-0": None}})

    results = Results(Member)
    results.told = {"n1/shard-0": 3, "n2/shard-0": 5}
    results.tell()
    assert results.told == {"n1/shard-0": 3}
