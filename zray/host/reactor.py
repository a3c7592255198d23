"""The event loop of a node process.

A turn receives all arrived messages, handles them, then sends a frame per destination.  So a lone message leaves at
once, and a flood leaves in batches: batching with no timer and no tuning.

The host's duties towards the roles (roles/role.py), in their order: handle every message and perform its effects, local
messages among them, until nothing is left; end each role's turn, likewise; then send the messages.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..roles.effects import Effect, Send, SetTimer
from ..roles.role import Role, acts_at_end_of_turn
from ..wire.message import Message
from .links.process_links import LIGHT_BYTES, Peer, Peers
from .process.malloc_tuning import Rest

if TYPE_CHECKING:
    from .links.host_links import Neighbours

# A turn with no more than one light frame of a process, or so many messages of other hosts, serves a waiting sender,
# not a flood: the first role's messages leave before the other roles have their turn.  (A round trip takes a tenth
# less; a flood wants few frames.)
LIGHT_MAIL_COUNT = 8
# Limits of turns in a row that look only at frames: so many, or for so long (a turn of a thousand large frames takes 50
# ms, and timers must be heard).
BUSY_TURNS_MAX = 16
BUSY_SECONDS_MAX = 0.01
ROUND_COUNT_MAX = 1_000  # of local exchanges in a turn: more is a loop between roles, a bug


class Reactor:
    """Roles, their messages, their timers."""

    def __init__(
        self,
        roles: Sequence[Role],
        peers: Peers,
        perform: dict[type, Callable[[str, Any], None]],
        on_hello: Callable[[bytes, bytes], None],
        on_trouble: Callable[[Peer, Exception], None],
        on_offence: Callable[[Peer, Any], None],
        neighbours: Neighbours | None = None,
    ) -> None:
        self.roles = list(roles)
        self.first = self.roles[:1]
        self.role_by_address = {role.address: role for role in roles}
        # The order in which turns end; roles without an end of turn are not asked.
        self.places = {role.address: place for place, role in enumerate(roles)}
        self.batching = [(self.places[role.address], role) for role in roles if acts_at_end_of_turn(role)]
        self.peers = peers
        self.neighbours = neighbours  # links to the other hosts; None without a cluster
        self.letters: dict[tuple[str, str], list[Message]] = {}  # for other hosts: by (own role, other role)
        self.perform = perform
        self.on_hello = on_hello
        self.on_trouble = on_trouble  # called for a process whose message failed
        self.on_offence = on_offence  # called for a process that sent a forbidden message
        self.local: deque[tuple[str, str, Any]] = deque()  # (role, sender, message)
        self.outbox: dict[str, list[Message]] = {}
        self.timers: list[tuple[float, int, str, Any]] = []
        self.timer_count = 0
        self.watched: dict[int, Callable[[], None]] = {}
        self.epoll = select.epoll()
        self.socket_fd = int(peers.socket.fd)
        self.epoll.register(self.socket_fd, select.EPOLLIN | select.EPOLLET)
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.watch(self.wake_fd, self._woken)
        self.from_threads: deque[tuple[str, Any]] = deque()  # outcomes of slow effects: (role, message)
        self.rest = Rest()  # checked with timers, which fire each second: frames pay nothing for it
        self.leaving: list[str] = []  # processes whose links end with this turn
        self.ended = ""

    def watch(self, descriptor: int, action: Callable[[], None]) -> None:
        """Call `action` whenever the descriptor is readable."""
        self.watched[descriptor] = action
        self.epoll.register(descriptor, select.EPOLLIN)

    def watch_writing(self, descriptor: int, wanted: bool) -> None:
        """Call the action of a watched descriptor also when it becomes writable."""
        with contextlib.suppress(FileNotFoundError):  # not watched yet
            self.epoll.modify(descriptor, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def unwatch(self, descriptor: int) -> None:
        """No longer."""
        if self.watched.pop(descriptor, None) is not None:
            self.epoll.unregister(descriptor)

    def deliver(self, role: str, message: Any) -> None:
        """Deliver a message of the host's own to a role, in this turn."""
        self.local.append((role, "host", message))

    def handle_delivered(self, now: float) -> None:
        """Handle delivered messages now, because they affect the handling of mail behind them."""
        local = self.local
        while local:
            address, sender, message = local.popleft()
            effects = self.role_by_address[address].handle(sender, message, now)
            if effects:
                self._perform(address, effects)

    def deliver_from_thread(self, role: str, message: Any, *, is_awaited: bool = True) -> None:
        """Deliver from another thread: soon, or together with other events if no role waits for the outcome."""
        self.from_threads.append((role, message))
        if is_awaited:
            os.eventfd_write(self.wake_fd, 1)

    # --- the loop ---

    def run(self) -> None:
        """Run until `ended` is set."""
        self.turn(())
        busy = 0
        looked_at = time.monotonic()
        is_woken = False  # by a process
        while not self.ended:
            frames = self.peers.receive_first() if is_woken else self.peers.receive()
            is_woken = False
            if self.neighbours is not None and self.neighbours.restless:
                self.take_mail(self.neighbours)
            if frames:
                self.turn(frames)
                busy += 1
                if busy % BUSY_TURNS_MAX and time.monotonic() - looked_at < BUSY_SECONDS_MAX:
                    continue
            # In a flood too, timers and the ends of processes get their turn.
            for descriptor, _ in self.epoll.poll(0.0 if frames else self._timeout()):
                if descriptor == self.socket_fd:
                    is_woken = not frames
                    continue
                action = self.watched.get(descriptor)
                if action is not None:
                    action()
            if self.from_threads:
                self._take_from_threads()
            looked_at = time.monotonic()
            if self.timers and self.timers[0][0] <= looked_at:
                self._fire_timers()
            if self.local or self.outbox or self.letters:
                self.turn(())

    def _timeout(self) -> float:
        if self.local or self.from_threads or (self.neighbours is not None and self.neighbours.restless):
            return 0.0
        return max(0.0, self.timers[0][0] - time.monotonic()) if self.timers else -1.0

    def end_soon(self, reason: str) -> None:
        """Set `ended` from a signal handler, and end the sleep."""
        self.ended = self.ended or reason
        os.eventfd_write(self.wake_fd, 1)

    def _woken(self) -> None:
        try:
            os.eventfd_read(self.wake_fd)
        except BlockingIOError:
            pass

    def _take_from_threads(self) -> None:
        while self.from_threads:
            role, message = self.from_threads.popleft()
            self.local.append((role, role, message))

    def _fire_timers(self) -> None:
        now = time.monotonic()
        self.rest.look(now)
        while self.timers and self.timers[0][0] <= now:
            _, _, role, message = heapq.heappop(self.timers)
            self.local.append((role, role, message))

    def take_mail(self, neighbours: Neighbours) -> None:
        """Handle the mail of other hosts as part of the coming turn."""
        count = 0
        for neighbour, letter in neighbours.take_in():
            now = time.monotonic()
            count += len(letter.messages)
            role = self.role_by_address[letter.target]
            try:
                for message in letter.messages:
                    self._perform(letter.target, role.handle(letter.source, message, now))
            except Exception as error:
                neighbours.trouble(neighbour, error)
        if count:
            self.turn((), is_light=count <= LIGHT_MAIL_COUNT)
            neighbours.acknowledge()  # to hosts without an answer in this turn

    def turn(self, frames: Sequence[tuple[bytes, bytes]], *, is_light: bool = False) -> None:
        """Take a turn.  is_light: the turn began with little mail."""
        now = time.monotonic()
        heard: dict[Peer, None] = {}
        by_identity = self.peers.by_identity
        for identity, frame in frames:
            peer = by_identity.get(identity)
            if peer is None:
                self.on_hello(identity, frame)
                continue
            heard[peer] = None
            roles = peer.roles
            try:
                for message in self.peers.unpack(peer, frame):
                    role = roles.get(type(message))
                    if role is None:
                        self.on_offence(peer, message)
                        continue
                    effects = role.handle(peer.address, message, now)
                    if effects:
                        self._perform(role.address, effects)
            except Exception as error:
                # Whatever the error, its sender pays: a node serves others too.
                self.on_trouble(peer, error)
        self._settle(now, is_light=is_light or (len(frames) == 1 and len(frames[0][1]) < LIGHT_BYTES))
        self._send_outbox()
        if self.letters:
            self._post()
        self.peers.acknowledge(heard)
        while self.leaving:
            self.peers.remove(self.leaving.pop())

    def _send_outbox(self) -> None:
        if self.outbox:
            outbox, self.outbox = self.outbox, {}
            for address, messages in outbox.items():
                self.peers.send(address, messages)

    def _post(self) -> None:
        letters, self.letters = self.letters, {}
        if self.neighbours is not None:
            self.neighbours.post(letters)

    def _settle(self, now: float, *, is_light: bool) -> None:
        """Local messages and ends of turns, until nothing is left to do."""
        local = self.local
        if is_light and not local:
            for role in self.first:
                effects = role.first_words(now)
                if effects:
                    self._perform(role.address, effects)
                    self._send_outbox()
        for _ in range(ROUND_COUNT_MAX):
            self.handle_delivered(now)
            if is_light and self.letters:
                self._post()
            is_over = True
            for place, role in self.batching:
                effects = role.end_turn(now)
                if effects:
                    self._perform(role.address, effects)
                    if is_light and place == 0:
                        self._send_outbox()  # who waits for it runs on while the rest is done
                        if self.letters:
                            self._post()
                    # Messages at the end of a role's turn reach the next role before its own end of turn.
                    while local and local[0][0] != role.address:
                        address, sender, message = local.popleft()
                        self._perform(address, self.role_by_address[address].handle(sender, message, now))
                        if self.places[address] < place:
                            is_over = False  # its turn had ended, and has to once more
            if is_over and not local:
                return
        raise RuntimeError(f"roles keep each other busy: {local[0]}")

    def _perform(self, address: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                destination = effect.destination  # type: ignore[union-attr]
                if destination in self.role_by_address:
                    self.local.append((destination, address, effect.message))  # type: ignore[union-attr]
                    continue
                messages = self.outbox.get(destination)
                if messages is None:
                    messages = self.box(address, destination)
                messages.append(effect.message)  # type: ignore[union-attr,arg-type]
            elif kind is SetTimer:
                self.set_timer(effect.delay, address, effect.message)  # type: ignore[union-attr]
            else:
                self.perform[kind](address, effect)

    def hear_again(self, address: str, kept: Sequence[tuple[str, Any]]) -> None:
        """Handle kept messages again, as HearAgain says."""
        role, now = self.role_by_address[address], time.monotonic()
        for sender, message in kept:
            try:
                self._perform(address, role.handle(sender, message, now))
            except Exception as error:
                self._blame(sender, error)

    def _blame(self, sender: str, error: Exception) -> None:
        """Blame the sender of a message that failed."""
        neighbours = self.neighbours
        if (peer := self.peers.by_address.get(sender)) is not None:
            self.on_trouble(peer, error)
        elif neighbours is not None and (neighbour := neighbours.by_host.get(sender.partition("/")[0])) is not None:
            neighbours.trouble(neighbour, error)
        else:
            raise error

    def box(self, source: str, destination: str) -> list[Message]:
        """Return the list of this turn's messages for a process, or for a role of another host."""
        if "/" in destination:
            return self.letters.setdefault((source, destination), [])
        return self.outbox.setdefault(destination, [])

    def set_timer(self, delay: float, address: str, message: Any) -> None:
        """Set a timer, as SetTimer says."""
        self.timer_count += 1
        heapq.heappush(self.timers, (time.monotonic() + delay, self.timer_count, address, message))

    def close(self) -> None:
        """Sockets and descriptors."""
        if self.neighbours is not None:
            self.neighbours.close(self.ended or "it failed")
        self.epoll.close()
        os.close(self.wake_fd)
        self.peers.close()
