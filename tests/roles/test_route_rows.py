"""Routes to actors of other nodes: each row of the table of their states is taken by messages."""

import pytest

from tests.roles.desk import DRIVER
from tests.roles.rows_taken import record_rows
from tests.roles.test_restarts import ACTOR, N2, N3, Elsewhere
from zray.ids import return_id
from zray.roles.local_scheduler.routes.route import OPEN, TRANSITIONS, Route
from zray.wire.gcs import NodeLost
from zray.wire.homes import ActorLocated
from zray.wire.objects import ReleaseObjects


@pytest.fixture
def taken(monkeypatch):
    return record_rows(monkeypatch, Route, "_enter")


def test_each_row_is_taken(taken):
    desk = Elsewhere()  # located, and lost
    for message in (
        ActorLocated(ACTOR, "", is_coming=True),
        ActorLocated(ACTOR, "", is_coming=True),
        ActorLocated(ACTOR, N3),
    ):
        desk.tell("gcs-0", message)
    assert taken == set(TRANSITIONS)


def test_word_of_a_second_home_changes_nothing_while_the_first_one_is_there():
    desk = Elsewhere()
    desk.tell("gcs-0", ActorLocated(ACTOR, N3))
    for message in (ActorLocated(ACTOR, N2), ActorLocated(ACTOR, "", is_coming=True), ActorLocated(ACTOR, "", lost=N3)):
        desk.tell("gcs-0", message)
    route = desk.scheduler.routes.by_actor[ACTOR]
    assert (route.state, route.home) == (OPEN, N3)


def test_loss_of_another_node_changes_nothing():
    desk = Elsewhere()
    desk.tell("gcs-0", ActorLocated(ACTOR, N3))
    desk.tell("monitor", NodeLost("n4/local", "killed"))
    call = desk.call(0)
    assert not desk.failed(call) and not desk.waiting()


def test_route_of_an_actor_that_has_ended_goes():
    desk = Elsewhere()
    desk.tell("gcs-0", ActorLocated(ACTOR, ""))
    assert ACTOR not in desk.scheduler.routes.by_actor


def test_route_without_a_handle_stays_while_a_call_waits():
    desk = Elsewhere()
    desk.call(1)
    desk.tell(DRIVER, ReleaseObjects([return_id(ACTOR, 1)]))
    assert ACTOR in desk.scheduler.routes.by_actor
