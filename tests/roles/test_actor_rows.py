"""Actors of a node: each row of the table of their states is taken by messages."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER
from tests.roles.rows_taken import record_rows
from tests.roles.test_shutdowns import ACTOR, ShutdownDesk
from zray.roles.local_scheduler.tables import ACTOR_TRANSITIONS, Actor
from zray.roles.work_effects import SessionEnds
from zray.wire.actors import ActorStarted, KillActor
from zray.wire.task_spec import ActorOptions

OTHER = b"b" * 16


def starts_and_restarts():
    """An actor dies in its constructor, and in a call; it says twice that its constructor has returned."""
    desk = ActorDesk()
    desk.create(ACTOR, ActorOptions(resources={}, max_restarts=-1))
    for is_alive in (False, True):
        while not desk.actors:
            desk.give_birth()
        (worker,) = desk.actors
        if is_alive:
            desk.construct(worker)
            desk.tell(worker, ActorStarted(ACTOR))
        desk.actors.pop(worker)
        desk.kill(worker)
    desk.tell(DRIVER, KillActor(ACTOR, True))  # while it waits for a worker


def ends_before_it_starts():
    """An actor gets no name; others are killed before they have a worker, and while their constructors run."""
    desk = ActorDesk()
    desk.create(OTHER, ActorOptions(name="joe", resources={}))
    desk.names["joe"] = ACTOR
    desk.answer_name()
    desk.create(ACTOR, ActorOptions(resources={}))
    desk.tell(DRIVER, KillActor(ACTOR, True))
    desk.create(b"c" * 16, ActorOptions(resources={}))
    while not desk.actors:
        desk.give_birth()
    desk.tell(DRIVER, KillActor(b"c" * 16, True))


def stops():
    """An actor runs shutdown code as the session ends; its process dies after that."""
    desk = ShutdownDesk()
    worker, _ = desk.actor()
    desk.tell("local", SessionEnds())
    desk.tell(worker, ActorStarted(ACTOR))
    assert desk.scheduler.rejected["the start of an actor that does not start"] == 1
    desk.kill(worker)


@pytest.fixture
def taken(monkeypatch):
    return record_rows(monkeypatch, Actor, "_enter")


def test_each_row_is_taken(taken):
    for scenario in (starts_and_restarts, ends_before_it_starts, stops):
        scenario()
    assert taken == set(ACTOR_TRANSITIONS)
