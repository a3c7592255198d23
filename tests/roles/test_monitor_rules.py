"""The monitor by itself: a verdict has a cause, is told to everybody once, and is final."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zray.roles.effects import (
    DrainOrdered,
    Finding,
    HostLeft,
    HostLinkChanged,
    HostProbed,
    NoteLost,
    NoteMember,
    ProbeHost,
    Send,
    SetTimer,
)
from zray.roles.monitor import (
    ENDED_TICKS_MAX,
    LOOK_AT_TICKS,
    LOSSES_TOLD,
    RETURN_TICKS_MAX,
    SILENT_TICKS_MAX,
    STALL_SECONDS,
    STRANGER_TICKS_MAX,
    TICK_SECONDS,
    WAIT_SECONDS,
    MemberState,
    Monitor,
)
from zray.roles.role import Later
from zray.wire.drains import DrainNode, DrainReport
from zray.wire.gcs import Heartbeat, HeartbeatReply, NodeJoined, NodeLost, RegisterNode

NODES = [f"n{number}/local" for number in range(1, 5)]
LISTENERS = ["global", "gcs-0"]

nodes = st.sampled_from(NODES)


class MonitorMachine(RuleBasedStateMachine):
    """The model: who is a member, and for how many ticks nothing was heard of it."""

    def __init__(self):
        super().__init__()
        self.monitor = Monitor("monitor", LISTENERS)
        self.now = 0.0
        self.silent = {}  # member -> ticks
        self.returning = set()  # members that the monitor now has not heard register
        self.lost = []  # in their order
        self.down = set()
        self.ended = {}  # node -> ticks since its process was found to have ended
        self.drains = {}  # node -> ticks left; None: it takes what it takes
        self.strangers = {}  # node that was connected, and is no member -> ticks
        self.unreached = set()  # members where the last look found nobody
        self.awaited = set()  # members that are back, not heard of since none was
        self.alone = 0  # ticks since none is heard of
        self.number = 0

    def _tell(self, sender, message, must_lose=()):
        """Returns what was said besides verdicts.  must_lose: those that must be lost by it."""
        effects = self.monitor.handle(sender, message, self.now)
        return self._look_at(effects, must_lose)

    def _look_at(self, effects, must_lose):
        said, noted, verdicts = [], [], {}
        for effect in effects:
            if type(effect) is NoteLost:
                noted.append(effect.node)
                assert effect.node not in self.lost, "lost twice"
            elif type(effect) is Send and type(effect.message) is NodeLost and effect.message.node in noted:
                verdicts.setdefault(effect.message.node, []).append(effect.destination)
            else:
                said.append(effect)
        assert sorted(noted) == sorted(must_lose)
        members = set(self.silent)
        for node in noted:
            members.discard(node)
            assert sorted(verdicts[node]) == sorted({*LISTENERS, *members, node}), "not told to all, once"
            self._forget(node)
        return said

    def _forget(self, node):
        self.lost.append(node)
        self.returning.discard(node)
        self.down.discard(node)
        self.unreached.discard(node)
        self.awaited.discard(node)
        for table in (self.silent, self.ended, self.drains, self.strangers):
            table.pop(node, None)

    @rule(node=nodes, heard_count=st.integers(0, len(NODES)))
    def register(self, node, heard_count):
        """heard_count: of so many losses it has heard."""
        last_lost = (["", *self.lost] + [""] * len(NODES))[heard_count]
        register = RegisterNode(node, {}, endpoint=f"{node}:1", last_lost=last_lost)
        said = self._tell(node, register)
        self.strangers.pop(node, None)
        if node in self.lost:
            ((target, message),) = [(effect.destination, effect.message) for effect in said]
            assert (target, type(message), message.node) == (node, NodeLost, node)
        elif node in self.returning:
            self.returning.remove(node)
            self.silent[node] = 0
            news = self.lost[self.lost.index(last_lost) + 1 :] if last_lost else self.lost
            self._check_greetings(node, said, news, is_new=False)
        elif node not in self.silent:
            assert said.pop(0) == NoteMember(register)
            said = [effect for effect in said if type(effect) is not SetTimer]
            self._check_greetings(node, said, self.lost[-LOSSES_TOLD:], is_new=True)
            self.silent[node] = 0
        else:
            assert not said

    def _check_greetings(self, node, said, lost, *, is_new):
        """It hears of all others, and of these losses; all others hear of it, if it is new."""
        told = [(effect.destination, effect.message.node) for effect in said if type(effect.message) is NodeLost]
        assert told == [(node, other) for other in lost]
        met = [(effect.destination, effect.message.node) for effect in said if type(effect.message) is NodeJoined]
        assert len(told) + len(met) == len(said)
        others = self.silent.keys() - {node}
        expected = {(node, other) for other in others}
        if is_new:
            expected |= {(other, node) for other in (*others, *LISTENERS)}
        assert sorted(met) == sorted(expected)

    @rule(node=nodes)
    def heartbeat(self, node):
        self.number += 1
        said = [(effect.destination, effect.message) for effect in self._tell(node, Heartbeat(node, self.number))]
        if node in self.silent:
            self.silent[node] = 0
            self.awaited.discard(node)
            self.unreached.discard(node)
            assert said == [(node, HeartbeatReply(self.number))]
        elif node in self.lost:
            assert [(target, type(message)) for target, message in said] == [(node, NodeLost)]
        else:
            assert not said

    @rule(alive=st.sets(nodes), count=st.sampled_from([1, 1, 2, 10, 30, 101, 630]))
    def ticks(self, alive, count):
        """Those are alive all the time."""
        for _ in range(count):
            self._tick(TICK_SECONDS)
            for node in self.silent.keys() & alive:
                self.heartbeat(node)

    @rule()
    def stand_still(self):
        """Whoever was silent meanwhile: we would not know."""
        self.silent = dict.fromkeys(self.silent, 0)
        self._tick(TICK_SECONDS + STALL_SECONDS + 0.01)

    def _tick(self, seconds):
        if not self.monitor.is_ticking:
            return
        self.now += seconds
        must_lose = []
        verdicts_wait = self._verdicts_wait()
        for node in self.silent:
            self.silent[node] += 1
            ticks_left = self.drains.get(node)
            if ticks_left is not None:
                self.drains[node] = ticks_left - 1
                if ticks_left == 0:
                    must_lose.append(node)
                    continue
            is_late = node in self.returning or node in self.awaited
            is_silent = self.silent[node] > (RETURN_TICKS_MAX if is_late else SILENT_TICKS_MAX)
            if is_silent and not (verdicts_wait and node in self.unreached):
                must_lose.append(node)
            elif node in self.ended:
                self.ended[node] += 1
                if self.ended[node] > ENDED_TICKS_MAX:
                    must_lose.append(node)
        for node in self.strangers:
            self.strangers[node] += 1
            if self.strangers[node] > STRANGER_TICKS_MAX:
                must_lose.append(node)
        tick = Later(self.monitor.tick, ())
        said = self._tell("timer", tick, must_lose)
        assert [effect for effect in said if type(effect) is SetTimer] == [SetTimer(TICK_SECONDS, tick)]
        looked_at = {effect.role for effect in said if type(effect) is ProbeHost}
        assert self.down - self.ended.keys() - self.returning <= looked_at <= self.silent.keys()

    def _verdicts_wait(self):
        """Of several members none is heard of, nor found; not for ever."""
        if len(self.silent) > 1 and self.silent.keys() == self.unreached:
            if min(self.silent.values()) > LOOK_AT_TICKS:
                self.alone += 1
                return self.alone <= WAIT_SECONDS / TICK_SECONDS
        if self.alone:
            self.alone = 0
            self.silent = dict.fromkeys(self.silent, 0)
            self.awaited = self.silent.keys() - self.returning
        return False

    @rule(node=nodes, is_up=st.booleans())
    def link_changes(self, node, is_up):
        said = self._tell("host", HostLinkChanged(node, is_up))
        if is_up:
            self.down.discard(node)
            self.ended.pop(node, None)
            self.unreached.discard(node)
            if node in self.returning:
                self.silent[node] = 0
            elif node not in self.silent and node not in self.lost:
                self.strangers.setdefault(node, 0)
            assert not said
        elif node in self.silent:
            self.down.add(node)
            assert said == [ProbeHost(node, f"{node}:1")]

    @rule(node=nodes, finding=st.sampled_from([Finding.ENDED, Finding.ENDED, Finding.ANSWERS, Finding.OUT_OF_REACH]))
    def probed(self, node, finding):
        if finding is Finding.ENDED and (node in self.down or node in self.returning):
            self.ended.setdefault(node, 0)
        (self.unreached.add if finding is Finding.OUT_OF_REACH and node in self.silent else self.unreached.discard)(
            node
        )
        assert not self._tell("host", HostProbed(node, finding))

    @rule(node=nodes)
    def leave(self, node):
        assert not self._tell(
            "host", HostLeft(node, "shutdown"), [node] if node in self.silent or node in self.strangers else []
        )

    @rule()
    def nobody_is_found(self):
        """A cable is out."""
        for node in self.silent:
            self.probed(node, Finding.OUT_OF_REACH)

    @rule(node=nodes, seconds=st.sampled_from([0.0, 0.5, 2.0]))
    def drain(self, node, seconds):
        said = self._tell("host", DrainOrdered(node, seconds))
        is_new = node in self.silent and node not in self.drains
        assert said == ([Send(node, DrainNode())] if is_new else [])
        if is_new:
            self.drains[node] = None
        if node in self.silent and seconds:
            self.drains[node] = int(seconds / TICK_SECONDS)

    @rule(node=nodes, sender=nodes, is_done=st.booleans())
    def report_drain(self, node, sender, is_done):
        counts = node == sender and node in self.silent
        if counts and not is_done:
            self.drains.setdefault(node, None)
        assert not self._tell(sender, DrainReport(node, [], is_done), [node] if counts and is_done else [])

    @precondition(lambda self: self.silent)
    @rule()
    def follow(self):
        """The head is started again."""
        former = [member.facts for member in self.monitor.nodes.values()]
        self.monitor = Monitor("monitor", LISTENERS, former=former, lost=self.lost)
        self.monitor.now = self.now
        self.monitor.start()
        said = self.monitor.take_effects()
        told = [(effect.destination, effect.message.node) for effect in said if type(effect) is Send]
        assert sorted(told) == sorted((listener, node) for listener in LISTENERS for node in self.silent)
        self.returning = set(self.silent)
        self.silent = dict.fromkeys(self.silent, 0)
        self.down, self.ended, self.drains = set(), {}, {}
        self.strangers, self.unreached, self.awaited, self.alone = {}, set(), set(), 0

    @invariant()
    def agrees(self):
        monitor = self.monitor
        assert set(monitor.nodes) == set(self.silent)
        assert list(monitor.lost) == self.lost
        assert not monitor.lost.keys() & set(monitor.nodes)
        assert {node: member.silent_ticks for node, member in monitor.nodes.items()} == self.silent
        states = {node: member.state for node, member in monitor.nodes.items()}
        assert {node for node, state in states.items() if state is MemberState.RETURNING} == self.returning
        assert monitor.strangers == self.strangers
        assert {node for node, member in monitor.nodes.items() if member.is_out_of_reach} == self.unreached
        assert {node for node, state in states.items() if state is MemberState.AWAITED} == self.awaited
        assert monitor.isolation.ticks == self.alone


MonitorMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None, derandomize=True)
TestMonitorRules = MonitorMachine.TestCase
