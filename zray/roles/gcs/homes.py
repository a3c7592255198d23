"""The homes of actors: from an actor's creation until it is dead and no handle is left.

unknown                         askers wait, if they want to
not settled                     askers wait
settled                         askers are told
lost node, with a backup        the backup will claim the actor, or decline; askers are told to wait
lost node, no backup            dead: askers are told of the lost node; if it has never had a backup, its maker may make
                                it anew then, and later claims of its former life are refused
made anew, former home lives    claims are confirmed when the actor has ended there, or that node is lost
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from msgspec import Struct

from ...ids import FIRST_RETURN
from ...wire import homes
from ...wire.handles import HandleReleased
from ...wire.message import Message
from ..role import on

# Actors lost with their nodes are remembered while handles exist, whose holders would otherwise wait for ever; and
# beyond those up to so many.
LOST_ACTORS_MAX = 10_000
# Limit of unknown actors with askers, beside those about to settle: when a handle is passed on, the actor's
# announcement is on its way, and there are not more of these.
ASKERS_MAX = 100_000


class Home(Struct, array_like=True, gc=False, eq=False, forbid_unknown_fields=True):
    """The home of an actor; snapshots have it as it is."""

    node: str  # its local scheduler
    life: homes.ActorLife
    is_settled: bool
    guardian: str  # "": none
    is_killed: bool = False
    was_guarded: bool = False  # it has had a backup, so others may have seen effects of its calls
    is_given_up: bool = False  # somebody was told that it is lost, and has had no backup
    former: list[tuple[str, str]] = []  # homes that may still run it, and its births there
    owed: int = 0  # claims of `node` to be confirmed when those have ended


class ActorHomes:
    """The homes of a shard's actors.  lost: the shard's own table of lost nodes."""

    PASSING = {"homes askers": None}
    LASTING = {
        "lost, and without a handle": (lambda table: len(table.dead_without_handles()), "LOST_ACTORS_MAX"),
        "not known, and asked for": (lambda table: len(table.askers.keys() - table.homes.keys()), "ASKERS_MAX"),
    }

    def __init__(
        self, lost: dict[str, None], send: Callable[[str, Message], None], is_held: Callable[[bytes], bool]
    ) -> None:
        self.homes: dict[bytes, Home] = {}
        self.frozen: dict[bytes, Home] | None = None  # as at the start of a dump (state.Frozen)
        self.askers: dict[bytes, dict[str, None]] = {}  # actor unknown or not settled -> askers
        self._lost = lost
        self._send = send
        self._is_held = is_held  # whether somebody has a handle, by the handle's object

    def changes(self, actor_id: bytes, home: Home) -> None:
        """Keep the former record for a dump, before a change."""
        if self.frozen is not None and self.frozen.get(actor_id) is home:
            self.frozen[actor_id] = copy(home)

    # --- claims ---

    def actor_at(self, message: homes.ActorAt, sender: str) -> None:
        """Handle ActorAt: from the new home, or from the node that hands the actor over."""
        actor_id, node, life = message.actor_id, message.node, message.life
        if sender in self._lost:
            return
        home = self.homes.get(actor_id)
        former: list[tuple[str, str]] = []
        if home is None and life.term:
            self._refuse(actor_id, node, life, is_gone=True)
            return
        if home is not None and home.life.birth != life.birth:
            if life.term:
                self._refuse(actor_id, node, life)
                return
            former = [*home.former, (home.node, home.life.birth)] if home.node not in self._lost else home.former
            for place in dict.fromkeys((home.node, home.guardian)):
                self._refuse(actor_id, place, home.life, is_awaited=place == home.node)
            home = None
        if home is not None and home.is_given_up:
            self._refuse(actor_id, node, life, is_gone=True)
            return
        is_new = home is None or life.term > home.life.term
        if home is None:
            home = self.homes[actor_id] = Home(node, life, message.is_settled, "", former=former)
        elif not is_new and (node != home.node or life.term < home.life.term):
            self._refuse(actor_id, node, life)
            return
        elif not is_new and sender != node:
            return  # the new home has claimed it since
        self.changes(actor_id, home)
        home.owed = home.owed if home.node == node else 0
        home.node, home.life, home.is_settled = node, life, message.is_settled
        home.guardian = "" if message.guardian in self._lost else message.guardian
        home.was_guarded = home.was_guarded or bool(message.guardian)
        if sender == node and (life.term or home.guardian or message.is_second):
            home.owed += 1
            self._confirm(actor_id, home)
        self._answer(actor_id, home)

    def _confirm(self, actor_id: bytes, home: Home) -> None:
        """Confirm the claims of the home, unless the actor may still run at a former one."""
        while home.owed and not home.former and home.node not in self._lost:
            home.owed -= 1
            is_held = self._is_held(actor_id + FIRST_RETURN)
            self._send(home.node, homes.ActorClaimed(actor_id, home.life, is_held, home.is_killed))

    def _former_ended(self, actor_id: bytes, home: Home, ended: Callable[[tuple[str, str]], bool]) -> None:
        """Note former homes that have ended the actor, or are lost."""
        if any(map(ended, home.former)):
            self.changes(actor_id, home)
            home.former = [each for each in home.former if not ended(each)]
            self._confirm(actor_id, home)

    def _refuse(
        self, actor_id: bytes, node: str, life: homes.ActorLife, *, is_gone: bool = False, is_awaited: bool = False
    ) -> None:
        if node and node not in self._lost:
            self._send(node, homes.ActorRefused(actor_id, life.birth, is_gone, is_awaited))

    @on(homes.ActorKilled)
    def on_actor_killed(self, message: homes.ActorKilled) -> None:
        """Handle ActorKilled: the actor is not restarted any more."""
        home = self.homes.get(message.actor_id)
        if home is not None:
            self.changes(message.actor_id, home)
            home.is_killed = True

    def actor_unguarded(self, message: homes.ActorUnguarded, sender: str) -> None:
        """Handle ActorUnguarded: without its node, the actor is dead now; or an actor of a former birth has ended."""
        home = self.homes.get(message.actor_id)
        if home is not None and home.former:
            self._former_ended(message.actor_id, home, lambda each: each == (sender, message.birth))
        if home is not None and (home.life.birth, home.life.term, home.guardian) == (
            message.birth,
            message.term,
            sender,
        ):
            self.changes(message.actor_id, home)
            home.guardian = ""
            self._answer(message.actor_id, home)
            self.handle_gone(message.actor_id)  # the last handle may have gone during its recovery
            if home.node in self._lost:
                self._forget_dead()

    @on(homes.ActorForgotten)
    def on_actor_forgotten(self, message: homes.ActorForgotten) -> None:
        """Handle ActorForgotten: unless the actor was restarted elsewhere."""
        home = self.homes.get(message.actor_id)
        if home is not None and home.node == message.node:
            del self.homes[message.actor_id]

    # --- questions ---

    @on(homes.LocateActor)
    def on_locate_actor(self, message: homes.LocateActor) -> None:
        """LocateActor."""
        actor_id = message.actor_id
        home = self.homes.get(actor_id)
        if message.node in self._lost:
            return
        if home is None and not (message.wait and not message.lost):
            self._send(message.node, homes.ActorLocated(actor_id, "", message.lost))
            return
        if home is None and actor_id not in self.askers and len(self.askers) >= ASKERS_MAX:
            self._send(message.node, homes.ActorLocated(actor_id, "", ""))
            return
        askers = self.askers.setdefault(actor_id, {})
        askers[message.node] = None
        if home is None or (home.node == message.lost and message.lost not in self._lost):
            return  # not heard of; or we have not heard of that loss (told the same for another's sake, it asks again)
        if message.lost and not home.is_settled and home.node not in self._lost:
            self._send(message.node, homes.ActorLocated(actor_id, "", message.lost, is_coming=True))
        self._answer(actor_id, home, only=message.node)

    def _answer(self, actor_id: bytes, home: Home, only: str = "") -> None:
        """Answer the askers, if there is news.  only: the asker that has not been told the present state."""
        askers = self.askers.get(actor_id)
        if askers is None:
            return
        is_lost = home.node in self._lost
        if is_lost and home.guardian:
            for asker in (only,) if only else askers:
                self._send(asker, homes.ActorLocated(actor_id, "", home.node, is_coming=True))
        elif is_lost or home.is_settled:
            del self.askers[actor_id]
            found = homes.ActorLocated(actor_id, home.node)
            if is_lost:
                found = homes.ActorLocated(actor_id, "", home.node, was_guarded=home.was_guarded)
                self.changes(actor_id, home)
                home.is_given_up = not home.was_guarded
            for asker in askers:
                self._send(asker, found)

    # --- ends ---

    def node_lost(self, node: str) -> None:
        """Handle a lost node (already in the table): its backups, its questions, and its actors."""
        for actor_id in list(self.askers):
            self._asks_no_more(actor_id, node)
        for actor_id, home in list(self.homes.items()):
            was_guarded = bool(home.guardian)
            if home.former:
                self._former_ended(actor_id, home, lambda each: each[0] == node)
            if home.guardian == node:
                self.changes(actor_id, home)
                home.guardian = ""
            if home.node == node or (was_guarded and home.node in self._lost):
                self._answer(actor_id, home)
                self.handle_gone(actor_id)
                if home.guardian:
                    self._send(home.guardian, homes.ActorOrphaned(actor_id, home.life.birth, home.life.term))
        self._forget_dead()

    def _forget_dead(self) -> None:
        dead = self.dead_without_handles()
        for actor_id in dead[: max(0, len(dead) - LOST_ACTORS_MAX)]:
            del self.homes[actor_id]

    def dead_without_handles(self) -> list[bytes]:
        """Return dead actors without known handles."""
        return [
            actor_id
            for actor_id, home in self.homes.items()
            if home.node in self._lost and not home.guardian and not self._is_held(actor_id + FIRST_RETURN)
        ]

    def let_go(self, actor_id: bytes, node: str, *, was_holder: bool) -> str:
        """Note that a node dropped its handle.  Returns the actor's home to be told, if no handle is left."""
        self._asks_no_more(actor_id, node)
        home = self.homes.get(actor_id)
        if was_holder and home is not None and home.node not in self._lost and self._is_held(actor_id + FIRST_RETURN):
            self._send(home.node, HandleReleased(actor_id))  # the others may be actors in a cycle
        return self.handle_gone(actor_id)

    def _asks_no_more(self, actor_id: bytes, node: str) -> None:
        askers = self.askers.get(actor_id)
        if askers is not None and askers.pop(node, "") is None and not askers:
            del self.askers[actor_id]

    def handle_gone(self, actor_id: bytes) -> str:
        """Perhaps nobody has a handle any more.  As `let_go`."""
        home = self.homes.get(actor_id)
        if home is None or self._is_held(actor_id + FIRST_RETURN):
            return ""
        if home.node not in self._lost:
            return home.node
        if not home.guardian:
            del self.homes[actor_id]
        return ""
