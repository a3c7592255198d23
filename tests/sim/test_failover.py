"""How long a client of a chain is without an answer when a member is killed: what messages take, and no timer."""

import pytest

from zray.ids import return_id
from zray.sim.heads import WRITE_SECONDS
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.wire.chain import ChainMemberLost
from zray.wire.gcs import HoldAtNode

pytestmark = pytest.mark.sim

ASK_SECONDS = 1e-3
# The chain master tells client and successor; the client asks that, and the answer comes when a disk or two has it.  A
# newcomer is given the state and becomes the tail meanwhile.  Shorter than any timer of the roles.
SECONDS_MAX = ASK_SECONDS + 20 * 20e-6 + 2 * WRITE_SECONDS[1]


@pytest.mark.parametrize("which", [0, -1])
def test_a_client_waits_for_a_few_messages_when_a_member_is_killed(which):
    world = Simulator(Options(seed=1, nodes=2, replicas=2, delay="even", turn_delay_max=0.0, check_every=100))
    shards, node, chains = world.shards, world.nodes["n2"], world.heads.node
    world.run(3.0)
    (client,) = [client for client in shards.clients() if client.address == "n2/shard-0"]
    assert len(client.members) == 2 and shards.are_spread()
    answered = []

    def ask(number):
        while client.first > 1 + len(answered):
            answered.append(world.now)
        held = HoldAtNode("n2/local", [return_id(number.to_bytes(16, "big"), 1)], 0)
        node.arrive("n2/local", client.address, held)
        world.call_later(ASK_SECONDS, ask, number + 1)

    before = client.first - 1
    answered.extend([world.now] * before)
    ask(1)
    world.run(world.now + 0.03)
    killed = shards.hosts[client.members[which].partition("/")[0]]
    begun = len(answered)
    assert begun > before + 10
    shards.die(killed)
    chains.arrive("host", "chains", ChainMemberLost(killed.member.address, "killed by signal 9"))
    world.run(world.now + 0.5)
    assert killed.member.address not in client.members
    silences = [later - earlier for earlier, later in zip(answered[begun - 1 :], answered[begun:], strict=False)]
    assert len(silences) > 400
    assert max(silences) < SECONDS_MAX
