"""A monitor's verdicts: on whom there is none, and what it says of the others, to people."""

from zray.roles.effects import HostLeft, Send
from zray.roles.monitor import VERDICT_CHARACTERS_MAX, Monitor
from zray.wire.gcs import GiveUpNode, NodeLost, RegisterNode
from zray.wire.limits import CHARACTERS_MAX


def test_a_verdict_does_not_repeat_all_that_a_host_has_said():
    """Its last words are as long as a message may have them; what is said about them must not be longer."""
    monitor = Monitor("monitor", ["global"])
    monitor.handle("n1/local", RegisterNode("n1/local", {}), 0.0)
    effects = monitor.handle("host", HostLeft("n1/local", "x" * CHARACTERS_MAX), 1.0)
    told = [effect.message for effect in effects if type(effect) is Send and type(effect.message) is NodeLost]
    assert {len(message.reason) for message in told} == {VERDICT_CHARACTERS_MAX}


def test_nobody_gives_up_the_head():
    monitor = Monitor("monitor", [])
    monitor.handle("n1/local", RegisterNode("n1/local", {}, kind="head"), 0.0)
    effects = monitor.handle("n2/local", GiveUpNode("n1/local", ""), 1.0)
    assert not [effect for effect in effects if type(effect) is Send] and "n1/local" in monitor.nodes
