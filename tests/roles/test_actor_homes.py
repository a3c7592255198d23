"""Where actors live, and who has them made again: the shard's side, and the end of an offer."""

import pytest

from tests.roles.desk import DRIVER, FUNCTION, JOB, Acknowledged, Desk
from zray.ids import FIRST_RETURN
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard, homes
from zray.wire.actors import (
    ActorAccepted,
    ActorHandedOver,
    ActorRegistered,
    CreateActor,
    ForwardCalls,
    KillActor,
    LookUpActor,
    LookUpActorReply,
    PlaceActor,
    RegisterActor,
    SpillActor,
)
from zray.wire.gcs import FreeCopies, HoldAtNode, HoldAtNodeReply, NodeJoined, NodeLost, ReleaseAtNode
from zray.wire.handles import HandleReleased
from zray.wire.homes import (
    ActorAt,
    ActorClaimed,
    ActorForgotten,
    ActorKilled,
    ActorLife,
    ActorLocated,
    ActorOrphaned,
    ActorRefused,
    ActorUnguarded,
    GuardActor,
    LocateActor,
    UnguardActor,
)
from zray.wire.objects import HoldObjects, ReleaseObjects
from zray.wire.scheduling import JobEnded, JobFacts, PlaceTask, SpillTask
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import SubmitTasks

N1, N2, N3 = "n1/local", "n2/local", "n3/local"
ACTOR = b"a" * 16
JOB_THERE = b"job-0002"
CPU = {"CPU": RESOURCE_UNIT}
HANDLE = ACTOR + FIRST_RETURN
MADE, MOVED, AGAIN = (ActorLife("n1/local#1", term) for term in range(3))


def tell(shard, sender, message):
    """What the shard says to that."""
    effects = shard.handle(sender, message, 1.0)
    return [(effect.destination, effect.message) for effect in effects if type(effect) is Send]


def shard_of(*, guardian=N1, held_by=(N1, N3)):
    """One actor, made at the first node, that lives at the second."""
    shard = GcsShard("gcs-0")
    tell(shard, N1, ActorAt(ACTOR, N1, MADE, is_settled=False))
    for node in held_by:
        tell(shard, node, HoldAtNode(node, [HANDLE], 0))
    tell(shard, N1, ActorAt(ACTOR, N2, MOVED, is_settled=False, guardian=guardian))
    assert tell(shard, N3, LocateActor(ACTOR, N3)) == []  # until it is settled
    said = tell(shard, N2, ActorAt(ACTOR, N2, MOVED, guardian=guardian))
    assert said == [(N2, ActorClaimed(ACTOR, MOVED, is_held=True)), (N3, ActorLocated(ACTOR, N2))]
    return shard


def test_an_actor_without_a_guardian_goes_with_its_node():
    shard = shard_of(guardian="")
    assert tell(shard, "monitor", NodeLost(N2, "")) == []
    dead = ActorLocated(ACTOR, "", N2)
    assert tell(shard, N3, LocateActor(ACTOR, N3, lost=N2)) == [(N3, dead)]
    for node in (N1, N3):
        tell(shard, node, ReleaseAtNode(node, [HANDLE]))
    assert not shard.homes.homes


def test_one_that_went_with_its_node_is_known_as_long_as_somebody_may_ask(monkeypatch):
    """However many others have: who asked for one that is forgotten would wait for ever."""
    monkeypatch.setattr(homes, "LOST_ACTORS_MAX", 0)
    shard = shard_of(guardian="")
    tell(shard, "monitor", NodeLost(N2, ""))
    dead = ActorLocated(ACTOR, "", N2)
    assert tell(shard, N3, LocateActor(ACTOR, N3)) == [(N3, dead)]
    tell(shard, N1, ReleaseAtNode(N1, [HANDLE]))
    assert tell(shard, N3, LocateActor(ACTOR, N3)) == [(N3, dead)]
    tell(shard, N3, ReleaseAtNode(N3, [HANDLE]))
    assert not shard.homes.homes


def test_one_that_nobody_has_a_handle_to_is_forgotten_when_its_guardian_lets_go_of_it():
    """Its node had said so to the guardian, and was lost before it could tell the shard."""
    shard = shard_of()
    tell(shard, "monitor", NodeLost(N2, ""))
    for node in (N1, N3):
        tell(shard, node, ReleaseAtNode(node, [HANDLE]))
    assert shard.homes.homes  # its guardian is to hear that nobody wants it
    tell(shard, N1, ActorUnguarded(ACTOR, MOVED.birth, MOVED.term))
    assert not shard.homes.homes


def test_who_asks_before_the_shard_has_heard_is_told_afterwards():
    for guardian in ("", N1):
        shard = shard_of(guardian=guardian)
        assert tell(shard, N3, LocateActor(ACTOR, N3, lost=N2)) == []
        told = (N3, ActorLocated(ACTOR, "", N2, is_coming=bool(guardian)))
        assert told in tell(shard, "monitor", NodeLost(N2, ""))


def test_who_lets_go_of_the_handle_asks_no_more():
    """Nobody may ever hear of the actor: its maker is lost."""
    shard = GcsShard("gcs-0")
    for node in (N1, N3):
        tell(shard, node, HoldAtNode(node, [HANDLE], 0))
        assert tell(shard, node, LocateActor(ACTOR, node)) == []
    tell(shard, N1, ReleaseAtNode(N1, [HANDLE]))
    assert tell(shard, N2, ActorAt(ACTOR, N2, MADE)) == [(N3, ActorLocated(ACTOR, N2))]
    tell(shard, N3, ReleaseAtNode(N3, [HANDLE]))
    assert not shard.homes.askers


def test_a_claim_of_one_that_somebody_was_told_to_be_lost_without_a_backup_is_refused():
    """The node that it was offered to had it, and its maker made it anew: the state was lost with the first one."""
    shard = GcsShard("gcs-0")
    tell(shard, N1, ActorAt(ACTOR, N1, MADE, is_settled=False))
    tell(shard, N3, HoldAtNode(N3, [HANDLE], 0))
    tell(shard, "monitor", NodeLost(N1, ""))
    assert tell(shard, N3, LocateActor(ACTOR, N3, wait=False)) == [(N3, ActorLocated(ACTOR, "", N1))]
    refused = ActorRefused(ACTOR, MADE.birth, is_gone=True)
    assert tell(shard, N2, ActorAt(ACTOR, N2, MOVED)) == [(N2, refused)]
    assert tell(shard, N3, ActorAt(ACTOR, N3, ActorLife("n3/local#1"))) == []  # made anew
    assert tell(shard, N2, LocateActor(ACTOR, N2)) == [(N2, ActorLocated(ACTOR, N3))]


def test_a_claim_of_one_that_nobody_has_asked_for_is_granted_though_its_maker_is_lost():
    shard = GcsShard("gcs-0")
    tell(shard, N1, ActorAt(ACTOR, N1, MADE, is_settled=False))
    tell(shard, N3, HoldAtNode(N3, [HANDLE], 0))
    tell(shard, "monitor", NodeLost(N1, ""))
    claimed = ActorClaimed(ACTOR, MOVED, is_held=True)
    assert tell(shard, N2, ActorAt(ACTOR, N2, MOVED)) == [(N2, claimed)]
    assert tell(shard, N3, LocateActor(ACTOR, N3)) == [(N3, ActorLocated(ACTOR, N2))]


def test_the_guardian_has_it_when_its_node_is_lost():
    shard = shard_of()
    tell(shard, "monitor", NodeLost(N2, ""))
    tell(shard, N3, LocateActor(ACTOR, N3, lost=N2))
    said = tell(shard, N1, ActorAt(ACTOR, N1, AGAIN, is_settled=False))
    assert said == [(N1, ActorClaimed(ACTOR, AGAIN, is_held=True))]
    assert (N3, ActorLocated(ACTOR, N1)) in tell(shard, N1, ActorAt(ACTOR, N1, AGAIN))


def test_a_claim_of_an_earlier_term_changes_nothing():
    """The node that is lost was about to claim it when it died; its word comes late, or the shard hears late."""
    shard = shard_of()
    tell(shard, N1, ActorAt(ACTOR, N1, AGAIN, is_settled=False))
    assert tell(shard, N2, ActorAt(ACTOR, N2, MOVED, guardian=N1)) == [(N2, ActorRefused(ACTOR, MOVED.birth))]
    assert shard.homes.homes[ACTOR].node == N1


def test_who_hands_it_over_may_be_heard_last():
    shard = shard_of()
    assert tell(shard, N1, ActorAt(ACTOR, N2, MOVED, is_settled=False, guardian=N1)) == []
    assert tell(shard, N3, LocateActor(ACTOR, N3)) == [(N3, ActorLocated(ACTOR, N2))]


def test_without_its_guardian_it_is_dead_whoever_is_lost_first():
    for order in ((N1, N2), (N2, N1)):
        shard = shard_of()
        for node in order:
            tell(shard, "monitor", NodeLost(node, ""))
        assert tell(shard, N3, LocateActor(ACTOR, N3, lost=N2)) == [(N3, ActorLocated(ACTOR, "", N2, was_guarded=True))]


def test_a_guardian_that_does_not_have_it_any_more_says_so():
    shard = shard_of()
    tell(shard, N3, LocateActor(ACTOR, N3, lost=N2))
    tell(shard, "monitor", NodeLost(N2, ""))
    unguarded = ActorUnguarded(ACTOR, MOVED.birth, MOVED.term)
    assert tell(shard, N1, unguarded) == [(N3, ActorLocated(ACTOR, "", N2, was_guarded=True))]


def test_a_guardian_that_has_said_so_too_early_is_asked_when_the_node_is_lost():
    """Its word had overtaken that of the node, which said who guards it: who asked for the actor waited for ever."""
    shard = shard_of()
    assert (N1, ActorOrphaned(ACTOR, MOVED.birth, MOVED.term)) in tell(shard, "monitor", NodeLost(N2, ""))
    tell(shard, N3, LocateActor(ACTOR, N3, lost=N2))
    for birth, term in ((MOVED.birth, MADE.term), ("n3/local#1", MOVED.term)):
        assert tell(shard, N1, ActorUnguarded(ACTOR, birth, term)) == [], "that was another home of it"
    unguarded = ActorUnguarded(ACTOR, MOVED.birth, MOVED.term)
    assert tell(shard, N1, unguarded) == [(N3, ActorLocated(ACTOR, "", N2, was_guarded=True))]


def test_who_is_asked_for_an_actor_that_it_does_not_guard_says_so():
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    orphaned = ActorOrphaned(ACTOR, MADE.birth, MADE.term)
    desk.tell(N1, GuardActor(TaskSpec(ACTOR, b"f" * 16), ActorOptions(max_restarts=1), MADE, JOB, JobFacts(home=N1)))
    desk.take_sent()
    desk.tell("gcs-0", orphaned)
    assert not desk.take_sent(), "it claims it when it hears of the loss"
    desk.tell(N1, UnguardActor(ACTOR, MADE.birth, False))
    unguarded = [("gcs-0", ActorUnguarded(ACTOR, MADE.birth, MADE.term))]
    assert desk.take_sent(ActorUnguarded) == unguarded
    desk.tell("gcs-0", orphaned)
    assert desk.take_sent(ActorUnguarded) == unguarded


def test_a_task_that_runs_again_makes_it_anew():
    shard = shard_of()
    anew = ActorLife("n3/local#1")
    refused = ActorRefused(ACTOR, MADE.birth)
    awaited = ActorRefused(ACTOR, MADE.birth, is_awaited=True)
    assert tell(shard, N3, ActorAt(ACTOR, N3, anew)) == [(N2, awaited), (N1, refused)]
    assert tell(shard, N1, ActorAt(ACTOR, N1, AGAIN)) == [(N1, refused)]
    assert shard.homes.homes[ACTOR].life == anew


@pytest.mark.parametrize(
    "sender, word",
    [(N2, ActorUnguarded(ACTOR, MOVED.birth, 0)), ("monitor", NodeLost(N2, "silent"))],
    ids=["it has ended", "its node is lost"],
)
def test_an_actor_made_anew_starts_when_the_former_one_runs_no_more(sender, word):
    """Two actors of one id ran: the node of the first was cut off."""
    shard = shard_of()
    anew = ActorLife("n3/local#1")
    tell(shard, N3, ActorAt(ACTOR, N3, anew, is_second=True))
    moved = ActorLife(anew.birth, 1)
    assert tell(shard, N3, ActorAt(ACTOR, N1, moved, is_settled=False, guardian=N3)) == []
    assert tell(shard, N1, ActorAt(ACTOR, N1, moved, guardian=N3)) == []
    claimed = (N1, ActorClaimed(ACTOR, moved, is_held=True))
    assert claimed in tell(shard, sender, word)
    assert claimed not in tell(shard, sender, word), "it was said"


@pytest.mark.parametrize("attempts", [0, 1])
def test_an_actor_that_may_be_second_waits_for_the_word_of_the_shard(attempts):
    """The first run of its maker may have made it, on a node or in a worker that is gone."""
    desk = Desk(cpus=1)
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    place = PlaceTask(desk.new_spec(), N1, JOB_THERE, JobFacts(home=N1), 1, attempts)
    desk.tell("global", place)
    worker = desk.give_birth()
    assert desk.inflight(worker) == 1
    desk.take_sent()
    desk.tell(worker, CreateActor(TaskSpec(ACTOR, FUNCTION), ActorOptions()))
    ((_, said),) = desk.take_sent(ActorAt)
    assert said.is_second == bool(attempts)
    assert len(desk.starting) == 1 - attempts, "a process for the actor"
    if attempts:
        desk.tell("gcs-0", ActorClaimed(ACTOR, said.life, is_held=True))
        assert len(desk.starting) == 1


def test_a_home_says_when_it_has_ended_an_actor_that_was_made_anew():
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    place = PlaceActor(TaskSpec(ACTOR, FUNCTION), ActorOptions(), N1, MADE, JOB, JobFacts(home=N1))
    desk.tell("global", place)
    desk.tell(N1, ActorHandedOver(ACTOR, MOVED))
    desk.tell("gcs-0", ActorClaimed(ACTOR, MOVED, is_held=True))
    desk.take_sent()
    for _ in range(2):  # also one that it has no more
        desk.tell("gcs-0", ActorRefused(ACTOR, MADE.birth, is_awaited=True))
        assert ACTOR not in desk.scheduler.calls.actors
        assert desk.take_sent(ActorUnguarded) == [("gcs-0", ActorUnguarded(ACTOR, MADE.birth, 0))]


def test_who_was_killed_is_not_made_again():
    shard = shard_of()
    tell(shard, N3, ActorKilled(ACTOR))
    tell(shard, "monitor", NodeLost(N2, ""))
    claimed = ActorClaimed(ACTOR, AGAIN, is_held=True, is_killed=True)
    assert tell(shard, N1, ActorAt(ACTOR, N1, AGAIN, is_settled=False)) == [(N1, claimed)]


def test_who_was_forgotten_is_not_made_again():
    shard = shard_of()
    tell(shard, N2, ActorForgotten(ACTOR, N2))
    gone = ActorRefused(ACTOR, AGAIN.birth, is_gone=True)
    assert tell(shard, N1, ActorAt(ACTOR, N1, AGAIN, is_settled=False)) == [(N1, gone)]


def test_its_node_hears_that_nobody_has_a_handle():
    """Also one that does not hold the handle's object, and has no copy of it."""
    shard = shard_of()
    assert tell(shard, N1, ReleaseAtNode(N1, [HANDLE])) == [(N2, HandleReleased(ACTOR))]
    assert (N2, FreeCopies([HANDLE])) in tell(shard, N3, ReleaseAtNode(N3, [HANDLE]))


def test_a_name_goes_with_its_actor():
    shard = GcsShard("gcs-0")
    options = ActorOptions(name="it", max_restarts=1)

    def found():
        ((_, reply),) = tell(shard, N3, LookUpActor("", "it"))
        assert type(reply) is LookUpActorReply
        return reply.node

    registered = [(N1, ActorRegistered(ACTOR))]
    assert tell(shard, N1, RegisterActor(ACTOR, options, N2, N1)) == []  # not its own yet: it gives nothing away
    assert tell(shard, N1, RegisterActor(ACTOR, options, N1)) == registered
    assert tell(shard, N3, RegisterActor(ACTOR, options, N2)) == []
    assert tell(shard, N1, RegisterActor(ACTOR, options, N2, N1)) == registered
    assert found() == N2
    tell(shard, "monitor", NodeLost(N2, ""))
    assert found() == N1  # its guardian
    assert tell(shard, N1, RegisterActor(ACTOR, options, N2, N1)) == registered  # handed over before that was known
    assert found() == N1
    assert tell(shard, N1, RegisterActor(ACTOR, options, N2)) == []  # and nobody guards it
    assert found() == ""


def test_an_offer_that_comes_to_nothing_leaves_nothing():
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    spec = TaskSpec(ACTOR, b"f" * 16)
    desk.tell("global", PlaceActor(spec, ActorOptions(), N1, MADE, JOB, JobFacts(home=N1)))
    assert ACTOR in desk.scheduler.moves.offers
    desk.tell(N1, ActorRefused(ACTOR, MADE.birth))
    assert not desk.scheduler.calls.actors and not desk.scheduler.moves.offers
    assert HANDLE not in desk.scheduler.objects.entries
    assert not desk.scheduler.routes.by_actor


def test_an_offer_that_comes_once_more_when_the_actor_is_dead_here_changes_nothing():
    """Who offers it asks more than once.  Its death was forgotten, and the shard never heard that nobody has it."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    place = PlaceActor(TaskSpec(ACTOR, FUNCTION), ActorOptions(), N1, MADE, JOB, JobFacts(home=N1))
    desk.tell("global", place)
    desk.tell(N1, ActorHandedOver(ACTOR, MOVED))
    desk.tell("gcs-0", ActorClaimed(ACTOR, MOVED, is_held=True))
    desk.tell(N1, KillActor(ACTOR))
    assert not desk.scheduler.calls.actors
    desk.take_sent()
    desk.tell("global", place)
    assert not desk.take_sent() and not desk.scheduler.moves.offers
    desk.tell("gcs-0", FreeCopies([HANDLE]))
    assert desk.take_sent(ActorForgotten) == [("gcs-0", ActorForgotten(ACTOR, "local"))]


def test_what_is_claimed_is_the_life_that_was_handed_over_though_an_earlier_one_was_offered():
    """The offer was on its way while the actor went to another node, which was lost: the claim was refused for ever."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    spec = TaskSpec(ACTOR, b"f" * 16)
    desk.tell("global", PlaceActor(spec, ActorOptions(), N1, MADE, JOB, JobFacts(home=N1)))
    life = ActorLife(MADE.birth, 3, restart_count=1)
    desk.take_sent()
    desk.tell(N1, ActorHandedOver(ACTOR, life))
    ((_, claim),) = desk.take_sent(ActorAt)
    assert (claim.node, claim.life) == ("local", life)


@pytest.mark.parametrize("is_dead", [True, False])
def test_who_has_claimed_an_actor_forgets_it_at_no_late_word_of_its_lost_node(is_dead):
    """The shard gave it to who knew nothing of it any more, and it had a home for ever (found by seed 80210091)."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    spec, options = TaskSpec(ACTOR, b"f" * 16), ActorOptions(max_restarts=1)
    desk.tell(N1, GuardActor(spec, options, MADE, JOB, JobFacts(home=N1)))
    desk.scheduler.guards.guarded[ACTOR].options = ActorOptions(
        max_restarts=1, detached=True
    )  # its driver went as well
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    desk.tell(N1, UnguardActor(ACTOR, MADE.birth, is_dead))
    desk.take_sent()
    desk.tell("gcs-0", ActorClaimed(ACTOR, MOVED, is_held=True))
    assert (ACTOR in desk.scheduler.calls.actors) != is_dead
    assert (ACTOR in desk.scheduler.ends.graves) == is_dead
    assert not desk.scheduler.guards.guarded


def test_a_claim_that_is_granted_after_it_was_made_anew_here_makes_no_other_life_of_it():
    """The one that had been made anew was forgotten: its process stayed for ever."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    spec, options = TaskSpec(ACTOR, b"f" * 16), ActorOptions(max_restarts=1)
    desk.tell(N1, GuardActor(spec, options, MADE, JOB, JobFacts(home=N1)))
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    desk.tell(DRIVER, CreateActor(spec, options))
    anew = desk.scheduler.calls.actors[ACTOR]
    desk.tell("gcs-0", ActorClaimed(ACTOR, MOVED, is_held=True))
    desk.tell("gcs-0", ActorRefused(ACTOR, MADE.birth))
    assert desk.scheduler.calls.actors == {ACTOR: anew}
    assert not desk.scheduler.guards.guarded


@pytest.mark.parametrize("max_restarts", [0, 1])
def test_a_call_waits_for_the_guardians_claim_where_no_other_node_is_left(max_restarts):
    """The actor was dead for calls that came between the loss of the last other node and the shard's word."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    spec = TaskSpec(ACTOR, b"f" * 16)
    options = ActorOptions(max_restarts=max_restarts)
    desk.tell(N1, GuardActor(spec, options, MADE, JOB, JobFacts(home=N1)))
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    assert not desk.scheduler.members.peers
    (result,) = desk.submit(
        TaskSpec(b"c" * 16, b"", options=encode_options(TaskOptions({}, actor_id=ACTOR, method="m")))
    )
    assert desk.scheduler.objects.entries[result].value is None
    desk.tell("gcs-0", ActorClaimed(ACTOR, MOVED, is_held=True))
    if max_restarts:
        assert [task.spec.task_id for task in desk.scheduler.calls.actors[ACTOR].queue] == [b"c" * 16]
    else:
        assert b"it was unplugged" in desk.scheduler.objects.entries[result].value


def test_a_handle_is_kept_for_no_call_that_has_failed_while_its_actor_is_made_again():
    """The actor lived for ever: the node that had called it never let go of its handle."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    for node in (N1, N2):
        desk.scheduler.members.peers[node] = {}
    desk.tell(DRIVER, HoldObjects([HANDLE]))
    options = encode_options(TaskOptions(resources={}, actor_id=ACTOR, method="m", max_retries=0))
    call = TaskSpec(b"c" * 16, FUNCTION, options=options)
    (answer,) = desk.submit(call)
    desk.tell("gcs-0", ActorLocated(ACTOR, N2))
    assert [target for target, _ in desk.take_sent(ForwardCalls)] == [N2]
    desk.tell("monitor", NodeLost(N2, ""))
    desk.tell("gcs-0", ActorLocated(ACTOR, "", N2, is_coming=True))
    desk.tell(DRIVER, ReleaseObjects([answer, HANDLE]))
    assert ("gcs-0", ReleaseAtNode("local", [HANDLE])) in desk.take_sent()
    desk.tell("gcs-0", FreeCopies([HANDLE]))
    assert not desk.scheduler.routes.by_actor


@pytest.mark.parametrize("end", [NodeLost(N1, "it was unplugged"), JobEnded(JOB_THERE)], ids=["node", "driver"])
def test_calls_that_wait_for_a_word_of_where_the_actor_lives_end_with_their_driver_or_its_node(end):
    """The shard may never hear of the actor, which was to live with that node or to be placed from there; or have
    forgotten it, when all that it knew of had let go of the handle.
    """
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N1] = {}
    desk.tell("global", PlaceTask(TaskSpec(b"t" * 16, FUNCTION), N1, JOB_THERE, JobFacts(home=N1)))
    worker = desk.give_birth()
    call = TaskSpec(b"c" * 16, b"", options=encode_options(TaskOptions({}, actor_id=ACTOR, method="m")))
    desk.tell(worker, SubmitTasks([call]))
    assert desk.take_sent(LocateActor) == [("gcs-0", LocateActor(ACTOR, "local"))]
    desk.tell(N1 if type(end) is JobEnded else "monitor", end)
    assert not desk.scheduler.tasks.get(call.task_id)
    desk.kill(worker)
    assert not desk.scheduler.routes.by_actor and not desk.scheduler.tasks


class Maker(Acknowledged, Desk):
    """A node without CPUs, where a program makes an actor that recovers, for another node."""

    def __init__(self):
        super().__init__(cpus=0)
        self.join()
        for node in (N1, N2):
            self.tell("monitor", NodeJoined(node, CPU))
        options = ActorOptions(resources=CPU, class_name="A", max_restarts=-1, checkpoint_interval=2, detached=True)
        self.tell(DRIVER, CreateActor(TaskSpec(ACTOR, FUNCTION), options))
        assert SpillActor in [type(message) for _, message in self.heard()]

    def passes_the_handle(self):
        """Have a task take the handle that only another node can run."""
        options = encode_options(TaskOptions(CPU))
        self.submit(TaskSpec(b"u" * 16, FUNCTION, holds=(HANDLE,), options=options))
        return self.has_left()

    def has_left(self):
        return any(type(message) is SpillTask for _, message in self.heard())

    @property
    def birth(self):
        return self.scheduler.calls.actors[ACTOR].life.birth


def test_the_handle_of_an_actor_that_recovers_stays_until_the_shard_knows_its_home():
    desk = Maker()
    assert not desk.passes_the_handle()
    desk.tell(N2, ActorAccepted(ACTOR, desk.birth))
    sent = desk.take_sent()
    assert SpillTask not in [type(message) for _, message in sent]
    (hold,) = [message for _, message in sent if type(message) is HoldAtNode and message.object_ids == [HANDLE]]
    at = [message for _, message in sent if type(message) is ActorAt]
    assert [(message.node, message.guardian) for message in at] == [(N2, "local")]
    desk.tell("gcs-0", HoldAtNodeReply(hold.request))
    assert desk.has_left() and not desk.scheduler.logs.unheard.by_actor


def test_the_handle_of_an_actor_that_ends_before_it_has_a_home_leaves():
    desk = Maker()
    assert not desk.passes_the_handle()
    desk.tell(N1, KillActor(ACTOR))
    assert desk.has_left() and not desk.scheduler.logs.unheard.by_actor
