"""The directory of actors: one home at a time, by terms that only grow; who asks is answered once, and truly."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zray.ids import return_id
from zray.roles.gcs import GcsShard
from zray.wire.gcs import FreeCopies, HoldAtNode, NodeLost, ReleaseAtNode
from zray.wire.homes import (
    ActorAt,
    ActorClaimed,
    ActorForgotten,
    ActorKilled,
    ActorLife,
    ActorLocated,
    ActorRefused,
    ActorUnguarded,
    LocateActor,
)

ACTOR = b"a" * 16
HANDLE = return_id(ACTOR, 1)
NODES = ["n1/local", "n2/local", "n3/local"]

nodes = st.sampled_from(NODES)


class HomesMachine(RuleBasedStateMachine):
    """The model: one actor, its home as the last claim that counts has it, and who waits to hear of it."""

    def __init__(self):
        super().__init__()
        self.shard = GcsShard("gcs-0")
        self.dead = set()  # nodes
        self.lost = set()  # those of which the shard has heard that
        self.home = None  # (node, life, is_settled, guardian)
        self.is_killed = False
        self.is_given_up = False  # somebody was told that it is lost, and it has had no backup
        self.was_guarded = False
        self.former = []  # (node, birth) that may still run it
        self.owed = 0  # claims that are not confirmed yet
        self.lives = []  # (node, life) of all claims so far
        self.births = 0
        self.holders = set()
        self.asking = {}  # who waits for an answer -> the node that it knows to be lost

    def _tell(self, sender, message):
        """Returns what was said besides answers."""
        said, self.again = [], []
        effects = self.shard.handle(sender, message, 0.0)
        for effect in effects:
            assert effect.destination not in self.lost, "a word to a lost node"
            if type(effect.message) is ActorLocated:
                self._answered(effect.destination, effect.message)
            else:
                said.append((effect.destination, effect.message))
        for node in self.again:  # as local schedulers do; it is not told the same at once, or it would ask for ever
            again = self.shard.handle(node, LocateActor(ACTOR, node, lost=self.asking[node]), 0.0)
            assert not again, "who asks again is told the same again"
        return said

    def _answered(self, node, answer):
        assert node in self.asking, "an answer that nobody waits for"
        home, is_settled, guardian = (self.home[0], self.home[2], self.home[3]) if self.home else ("", False, "")
        known = self.asking[node]
        if answer.is_coming:
            is_made_again = home in self.lost and guardian
            assert is_made_again or (known and not is_settled), "nobody makes it again"
            return
        if answer.node:
            assert (answer.node, is_settled) == (home, True)
            assert home not in self.lost, "said to live at a lost node"
            if known != home:  # else it asks again: the shard has not heard of that loss
                del self.asking[node]
            self.again += [node] * (known == home)
            return
        del self.asking[node]
        assert home in self.lost or self.home is None
        assert not guardian, "said to be dead, and somebody makes it again"
        if answer.lost and self.home:
            assert answer.was_guarded == self.was_guarded or home == known
            self.is_given_up = self.is_given_up or not self.was_guarded

    # --- claims ---

    def _claim(self, sender, node, life, *, is_settled=True, guardian="", is_second=False):
        """As the dialog of homes has it: the newest term of a birth counts, and the newest birth."""
        self.lives.append((node, life))
        before, refused, counts = self.home, set(), False
        if sender not in self.lost:
            if before is None or before[1].birth != life.birth:
                counts = life.term == 0
                refused = {before[0], before[3]} if counts and before else {node} if not counts else set()
            elif self.is_given_up:
                refused = {node}
            elif life.term > before[1].term:
                counts = True
            elif (node, life.term) == (before[0], before[1].term):
                counts = sender == node
            else:
                refused = {node}
        if counts:
            if before is None or before[1].birth != life.birth:
                self.is_killed = self.is_given_up = self.was_guarded = False
                self.former = [*self.former, (before[0], before[1].birth)] if before else []
                self.former = [each for each in self.former if each[0] not in self.lost]
            if before is None or before[0] != node:
                self.owed = 0
            self.home = (node, life, is_settled, "" if guardian in self.lost else guardian)
            self.was_guarded = self.was_guarded or guardian != ""
        said = self._tell(sender, ActorAt(ACTOR, node, life, is_settled, guardian, is_second))
        refusals = {target for target, message in said if type(message) is ActorRefused}
        assert refusals == refused - self.lost - {""}
        claimed = [(target, message) for target, message in said if type(message) is ActorClaimed]
        awaited = [(target, message.birth) for target, message in said if getattr(message, "is_awaited", False)]
        is_anew = counts and before and before[1].birth != life.birth
        assert awaited == ([(before[0], before[1].birth)] if is_anew and before[0] not in self.lost else [])
        self.owed += counts and sender == node and (life.term > 0 or self.home[3] != "" or is_second)
        assert claimed == self._confirmed()

    def _confirmed(self):
        """What the home is told when nobody else may run the actor."""
        if self.home is None or self.former or self.home[0] in self.lost:
            return []
        owed, self.owed = self.owed, 0
        return [(self.home[0], ActorClaimed(ACTOR, self.home[1], bool(self.holders), self.is_killed))] * owed

    @precondition(lambda self: self.former)
    @rule(data=st.data())
    def former_has_ended(self, data):
        node, birth = data.draw(st.sampled_from(self.former))
        self.former = [each for each in self.former if each != (node, birth)]
        assert self._tell(node, ActorUnguarded(ACTOR, birth, 0)) == self._confirmed()

    @precondition(lambda self: self.home is None or self.births < 3)
    @rule(node=nodes, is_settled=st.booleans(), guardian=st.sampled_from(["", *NODES]), is_second=st.booleans())
    def make(self, node, is_settled, guardian, is_second):
        """Its creation runs, for the first time or again."""
        if node not in self.lost:
            self.births += 1
            life = ActorLife(f"{node} {self.births}")
            guardian = guardian if guardian != node else ""
            self._claim(node, node, life, is_settled=is_settled, guardian=guardian, is_second=is_second)

    @precondition(lambda self: self.home)
    @rule(is_settled=st.booleans(), guardian=st.sampled_from(["", *NODES]))
    def home_speaks(self, is_settled, guardian):
        node, life, *_ = self.home
        self._claim(node, node, life, is_settled=is_settled, guardian=guardian if guardian != node else "")

    @precondition(lambda self: self.home)
    @rule(node=nodes)
    def hand_over(self, node):
        home, life, _, _ = self.home
        if node != home:
            self._claim(home, node, ActorLife(life.birth, life.term + 1), is_settled=False)

    @precondition(lambda self: self.home and self.home[3])
    @rule(is_settled=st.booleans())
    def guardian_claims(self, is_settled):
        _, life, _, guardian = self.home
        self._claim(guardian, guardian, ActorLife(life.birth, life.term + 1, 1), is_settled=is_settled)

    @precondition(lambda self: self.home and self.home[0] in self.lost)
    @rule(node=nodes)
    def who_was_offered_it_claims(self, node):
        _, life, _, guardian = self.home
        if node not in (guardian, *self.lost):
            self._claim(node, node, ActorLife(life.birth, life.term + 1))

    @precondition(lambda self: self.lives)
    @rule(data=st.data(), sender=nodes)
    def old_word(self, data, sender):
        """Of an earlier life, late."""
        node, life = data.draw(st.sampled_from(self.lives))
        if life.term:
            self._claim(sender, node, life)

    @rule(node=nodes, is_late=st.booleans())
    def unguard(self, node, is_late):
        birth, term = (self.home[1].birth, self.home[1].term) if self.home else ("none", 0)
        if self.home and self.home[3] == node and not is_late:
            self.home = (*self.home[:3], "")
            assert not self._tell(node, ActorUnguarded(ACTOR, birth, term))
            self._nobody_asks()
        else:
            assert not self._tell(node, ActorUnguarded(ACTOR, birth, term + is_late))

    @rule(node=nodes)
    def kill(self, node):
        self.is_killed = self.home is not None
        assert not self._tell(node, ActorKilled(ACTOR))

    @precondition(lambda self: self.home)
    @rule(node=nodes)
    def forget(self, node):
        if self.home and self.home[0] == node:
            self.home, self.former, self.owed = None, [], 0
        assert not self._tell(node, ActorForgotten(ACTOR, node))

    # --- questions and handles ---

    @rule(node=nodes, wait=st.booleans())
    def ask(self, node, wait):
        home = self.home[0] if self.home else ""
        self._ask(node, wait, home if home in self.lost else "")

    @precondition(lambda self: self.home and self.home[0] in self.dead)
    @rule(node=nodes)
    def ask_for_its_next_home(self, node):
        """Perhaps before the shard has heard that the one so far is lost."""
        self._ask(node, True, self.home[0])

    def _ask(self, node, wait, lost):
        if node == lost:
            return
        was_asking = self.asking.get(node)
        if node not in self.lost:
            self.asking[node] = lost
        assert not self._tell(node, LocateActor(ACTOR, node, wait, lost))
        if self.home is None and (lost or not wait):
            assert node not in self.asking, "asked at once, and not answered"
            if was_asking is not None:
                self.asking[node] = was_asking  # that question is still open

    @rule(node=nodes)
    def hold(self, node):
        if node not in self.lost:
            self.holders.add(node)
        assert not self._tell(node, HoldAtNode(node, [HANDLE], 0))

    def _nobody_asks(self):
        """Whether the home is forgotten: its node is lost, nobody makes it again, and nobody has a handle."""
        if self.home and self.home[0] in self.lost and not self.home[3] and not self.holders:
            self.home, self.former, self.owed = None, [], 0

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data):
        node = data.draw(st.sampled_from(sorted(self.holders)))
        self.holders.remove(node)
        self.asking.pop(node, None)
        told = self._tell(node, ReleaseAtNode(node, [HANDLE]))
        if not self.holders and self.home and self.home[0] not in self.lost:
            assert (self.home[0], FreeCopies([HANDLE])) in told, "its node does not hear that nobody has a handle"
        self._nobody_asks()

    # --- nodes ---

    @precondition(lambda self: len(self.dead) < len(NODES) - 1)
    @rule(node=nodes, is_heard=st.booleans())
    def die(self, node, is_heard):
        self.dead.add(node)
        if is_heard:
            self._lose(node)

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def lose(self, data):
        self._lose(data.draw(st.sampled_from(sorted(self.dead))))

    def _lose(self, node):
        if node in self.lost:
            assert not self._tell("monitor", NodeLost(node, "silent")), "said once more, and something changed"
            return
        self.lost.add(node)
        self.asking.pop(node, None)
        concerns = self.home is not None and (node in (self.home[0], self.home[3]) or node in self.holders)
        self.holders.discard(node)
        if self.home and self.home[3] == node:
            self.home = (*self.home[:3], "")
        self.former = [each for each in self.former if each[0] != node]
        said = self._tell("monitor", NodeLost(node, "silent"))
        claimed = [(target, message) for target, message in said if type(message) is ActorClaimed]
        assert claimed == self._confirmed()
        if concerns:
            self._nobody_asks()

    @rule()
    def follow(self):
        """Another shard goes on with its state."""
        follower = GcsShard("gcs-0")
        follower.load(list(self.shard.dump()))
        self.shard = follower

    @invariant()
    def agrees(self):
        home = self.shard.homes.homes.get(ACTOR)
        assert (home is None) == (self.home is None)
        if home is not None:
            assert (home.node, home.life, home.is_settled, home.guardian) == self.home
            assert home.is_killed == self.is_killed
            assert (home.former, home.owed) == (self.former, self.owed)
            assert (home.is_given_up, home.was_guarded) == (self.is_given_up, self.was_guarded)
            if home.node in self.lost:
                is_known = not home.guardian
            else:
                is_known = home.is_settled
            waiting = [node for node, known in self.asking.items() if known != home.node or known in self.lost]
            assert not (waiting and is_known), "somebody waits for what is known"
        assert set(self.shard.homes.askers.get(ACTOR, ())) == self.asking.keys()


HomesMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None, derandomize=True)
TestHomes = HomesMachine.TestCase
