"""A GCS shard by itself: who is told what, and that repeats and strangers change nothing."""

import pytest

from zray.ids import put_id, return_id
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard, functions
from zray.wire.actors import (
    ActorNamesListed,
    ActorNameTaken,
    ActorRegistered,
    ActorRemoved,
    LookUpActor,
    LookUpActorNames,
    LookUpActorReply,
    RegisterActor,
)
from zray.wire.gcs import (
    AddLocations,
    FetchFunction,
    FetchFunctionReply,
    FreeCopies,
    HoldAtNode,
    HoldAtNodeReply,
    NodeLost,
    ObjectLocated,
    OfferCopies,
    RebuildObject,
    RecordTasks,
    RecordTasksReply,
    ReleaseAtNode,
    ReleaseFunctions,
    RemoveLocations,
    SubscribeObject,
)
from zray.wire.task_spec import ActorOptions, TaskSpec
from zray.wire.tasks import Function, PublishFunction

TASK = b"t" * 16
OBJECT = return_id(TASK, 1)
N1, N2, N3 = "n1/local", "n2/local", "n3/local"


@pytest.fixture
def shard():
    shard = GcsShard("gcs-0")
    yield shard
    shard.check_everything()


def tell(shard, sender, message):
    effects = shard.handle(sender, message, 0.0)
    return [(effect.destination, effect.message) for effect in effects if type(effect) is Send]


def test_a_record_is_acknowledged_when_asked(shard):
    assert tell(shard, N1, RecordTasks(N1, [TaskSpec(TASK, b"f" * 16)], 7)) == [(N1, RecordTasksReply(7))]
    assert tell(shard, N1, RecordTasks(N1, [TaskSpec(TASK, b"f" * 16)])) == []
    assert tell(shard, N1, HoldAtNode(N1, [OBJECT], 8)) == [(N1, HoldAtNodeReply(8))]
    tell(shard, N1, ReleaseAtNode(N1, [OBJECT]))
    assert not shard.tasks.records


def test_what_was_inside_of_a_value_is_held_if_it_is_there(shard):
    """Who gave the value may be lost, and with it what it alone held."""
    record, inside = RecordTasks(N1, [TaskSpec(TASK, b"f" * 16)]), HoldAtNode(N2, [OBJECT], 8, are_inside=True)
    there, gone = [(N2, HoldAtNodeReply(8))], [(N2, HoldAtNodeReply(8, are_gone=True))]
    tell(shard, N1, record)
    assert tell(shard, N2, inside) == there
    tell(shard, N1, ReleaseAtNode(N1, [OBJECT]))
    assert OBJECT[:16] in shard.tasks.records
    tell(shard, N2, ReleaseAtNode(N2, [OBJECT]))
    assert tell(shard, N2, inside) == gone and not shard.tasks.records
    tell(shard, N1, record)
    tell(shard, "monitor", NodeLost(N1, "killed"))
    assert tell(shard, N2, inside) == gone and not shard.tasks.records


def test_what_was_put_is_there_while_somebody_holds_it(shard):
    """Its task could be run again, and that does not make it."""
    value = put_id(TASK, 1)
    inside = HoldAtNode(N2, [value], 8, are_inside=True)
    tell(shard, N3, RecordTasks(N3, [TaskSpec(TASK, b"f" * 16)]))
    assert tell(shard, N2, inside) == [(N2, HoldAtNodeReply(8, are_gone=True))]
    tell(shard, N1, HoldAtNode(N1, [value], 0))
    assert tell(shard, N2, inside) == [(N2, HoldAtNodeReply(8))]


def test_who_asks_where_an_object_is_is_told_now_or_later(shard):
    """Ray paper, figure 7b: 2, 4 and 5."""
    tell(shard, N1, RecordTasks(N1, [TaskSpec(TASK, b"f" * 16)]))
    assert tell(shard, N1, SubscribeObject(N1, OBJECT)) == []
    located = ObjectLocated(OBJECT, 9, [N2])
    assert tell(shard, N2, AddLocations(N2, [(OBJECT, 9)])) == [(N1, located)]
    assert tell(shard, N2, AddLocations(N2, [(OBJECT, 9)])) == []  # a repeat: nobody waits any more
    assert tell(shard, N3, SubscribeObject(N3, OBJECT)) == [(N3, located)]


def test_copies_are_freed_when_nobody_holds_them(shard):
    tell(shard, N1, RecordTasks(N1, [TaskSpec(TASK, b"f" * 16)]))
    tell(shard, N2, HoldAtNode(N2, [OBJECT], 0))
    tell(shard, N2, AddLocations(N2, [(OBJECT, 9)]))
    assert tell(shard, N1, ReleaseAtNode(N1, [OBJECT])) == []
    assert tell(shard, N1, ReleaseAtNode(N1, [OBJECT])) == []
    assert tell(shard, N2, ReleaseAtNode(N2, [OBJECT])) == [(N2, FreeCopies([OBJECT]))]
    assert not shard.tasks.records


def test_a_copy_that_went_by_an_old_word_is_made_again_if_it_is_held_and_was_the_last(shard):
    """FreeCopies may cross the news of a copy that was made anew."""
    spec = TaskSpec(TASK, b"f" * 16)
    tell(shard, N1, RecordTasks(N1, [spec]))
    for node in (N2, N3):
        tell(shard, node, AddLocations(node, [(OBJECT, 9)]))
    assert tell(shard, N2, RemoveLocations(N2, [OBJECT])) == []
    assert tell(shard, N3, RemoveLocations(N3, [OBJECT])) == [(N1, RebuildObject(OBJECT, spec, 0, True))]
    assert tell(shard, N1, SubscribeObject(N1, OBJECT)) == []
    assert tell(shard, N2, AddLocations(N2, [(OBJECT, 9)])) == [(N1, ObjectLocated(OBJECT, 9, [N2]))]


def test_of_copies_that_may_go_the_last_one_stays(shard):
    tell(shard, N1, RecordTasks(N1, [TaskSpec(TASK, b"f" * 16)]))
    for node in (N1, N2, N3):
        tell(shard, node, AddLocations(node, [(OBJECT, 9)]))
    assert tell(shard, N1, OfferCopies(N1, [OBJECT])) == []  # it holds it
    assert tell(shard, N2, OfferCopies(N2, [OBJECT, return_id(b"o" * 16, 1)])) == [(N2, FreeCopies([OBJECT]))]
    tell(shard, N1, RemoveLocations(N1, [OBJECT]))
    assert tell(shard, N3, OfferCopies(N3, [OBJECT])) == []
    assert tell(shard, N1, SubscribeObject(N1, OBJECT)) == [(N1, ObjectLocated(OBJECT, 9, [N3]))]


def test_a_value_that_nobody_holds_is_freed_as_it_comes(shard):
    """Everybody let go while it was being made."""
    assert tell(shard, N2, AddLocations(N2, [(OBJECT, 9)])) == [(N2, FreeCopies([OBJECT]))]
    assert not shard.tasks.records


def test_what_is_said_of_unknown_objects_changes_nothing(shard):
    for message in (ReleaseAtNode(N1, [OBJECT]), RemoveLocations(N1, [OBJECT]), ActorRemoved(TASK), NodeLost(N1, "")):
        assert tell(shard, N1, message) == []
    assert not shard.tasks.records


def test_a_lost_node_holds_nothing(shard):
    tell(shard, N1, RecordTasks(N1, [TaskSpec(TASK, b"f" * 16)]))
    tell(shard, N2, HoldAtNode(N2, [OBJECT], 0))
    tell(shard, N2, AddLocations(N2, [(OBJECT, 9)]))
    tell(shard, "monitor", NodeLost(N2, "silent"))
    (order,) = tell(shard, N1, SubscribeObject(N1, OBJECT))
    assert order == (N1, RebuildObject(OBJECT, TaskSpec(TASK, b"f" * 16), 0, True))
    tell(shard, N1, ReleaseAtNode(N1, [OBJECT]))
    assert not shard.tasks.records
    assert tell(shard, N2, HoldAtNode(N2, [OBJECT], 1)) == []
    assert not shard.tasks.records


def test_code_is_sent_now_or_as_soon_as_it_is_known(shard):
    function = Function(b"f" * 16, "f", b"code")
    assert tell(shard, N2, FetchFunction(N2, function.function_id)) == []
    assert tell(shard, N2, FetchFunction(N2, function.function_id)) == []
    assert tell(shard, N1, PublishFunction(function)) == [(N2, FetchFunctionReply(function))]
    assert tell(shard, N3, FetchFunction(N3, function.function_id)) == [(N3, FetchFunctionReply(function))]


def known(shard, *names):
    """Those whose code the shard has."""
    return [name for name in names if tell(shard, N3, FetchFunction(N3, name * 16))]


def test_code_goes_some_time_after_the_jobs_that_have_published_it(shard, monkeypatch):
    monkeypatch.setattr(functions, "ORPHANS_COUNT_MAX", 1)
    f, g, h = (Function(name * 16, "f", b"code") for name in (b"f", b"g", b"h"))
    for sender, function, node, job_id in ((N1, f, N1, b"1"), (N2, g, N1, b"1"), (N2, f, N2, b"2"), (N2, h, N2, b"2")):
        tell(shard, sender, PublishFunction(function, node, job_id))
    tell(shard, N1, ReleaseFunctions(N1, b"1"))
    assert list(shard.functions.orphans) == [g.function_id] and shard.functions.owners.keys() == {(N2, b"2", N2)}
    # Whoever has not heard that it has ended publishes for nobody; a node itself knows what goes on there.
    tell(shard, N3, PublishFunction(Function(b"i" * 16, "i", b"code"), N1, b"1"))
    assert known(shard, b"f", b"g", b"h", b"i") == [b"f", b"h", b"i"]
    tell(shard, N1, PublishFunction(Function(b"i" * 16, "i", b"code"), N1, b"1"))
    assert not shard.functions.orphans
    # With the node that would have said that it has ended, it has.
    tell(shard, "monitor", NodeLost(N2, "silent"))
    assert known(shard, b"f", b"h", b"i") == [b"h", b"i"]
    shard.check_everything()


def test_nobody_fills_the_share_of_another_node(shard, monkeypatch):
    monkeypatch.setattr(functions, "FUNCTIONS_COUNT_MAX", 1)
    for sender, name in ((N2, b"f"), (N2, b"g"), (N1, b"h")):
        tell(shard, sender, PublishFunction(Function(name * 16, "f", b"code"), N1, b"1"))
    assert list(shard.functions.orphans) == [b"g" * 16]
    shard.check_everything()


def test_a_name_is_one_actors_at_a_time(shard):
    options = ActorOptions(name="the one", namespace="ours", handle=b"methods")
    one, two = b"1" * 16, b"2" * 16
    assert tell(shard, N1, RegisterActor(one, options, N1)) == [(N1, ActorRegistered(one))]
    assert tell(shard, N1, RegisterActor(one, options, N1)) == [(N1, ActorRegistered(one))]  # a repeat
    assert tell(shard, N2, RegisterActor(two, options, N2)) == [(N2, ActorNameTaken(two, one))]
    found = LookUpActorReply("ours", "the one", one, b"methods", N1)
    assert tell(shard, N3, LookUpActor("ours", "the one")) == [(N3, found)]
    tell(shard, N2, ActorRemoved(two))
    assert tell(shard, N3, LookUpActor("ours", "the one")) == [(N3, found)]
    tell(shard, N2, RegisterActor(two, ActorOptions(name="it", namespace="theirs"), N2))
    for namespace, in_all, names in (
        ("ours", False, [("ours", "the one")]),
        ("nobody's", False, []),
        ("ours", True, [("ours", "the one"), ("theirs", "it")]),
    ):
        assert tell(shard, N3, LookUpActorNames(7, namespace, in_all)) == [(N3, ActorNamesListed(7, names))]
    tell(shard, N2, ActorRemoved(two))
    tell(shard, N1, ActorRemoved(one))
    assert tell(shard, N2, RegisterActor(two, options, N2)) == [(N2, ActorRegistered(two))]
