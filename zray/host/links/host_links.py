"""The links of a host process to the others of its cluster: a ROUTER that listens, a DEALER per host to reach.

A pair of hosts has one connection, and another for heartbeats (heartbeat_channel.py): the host that joined later
connects to the earlier one.  A host is known by its key: a frame is read only if the connection's key (user id of each
frame, proven to libzmq) belongs to the claimed host; wire/allowed.py lists the roles of each key.  A broken connection
is made again, and unacknowledged frames are sent again: roles never notice.  Nothing here unpickles.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import zmq

from ...exceptions import ProtocolError
from ...version import __version__
from ...wire import hosts, session
from ...wire.codec import Letter, Mail, decode_mail
from ...wire.link import MailFrame, Parts, open_unnumbered, unnumbered
from ...wire.message import PROTOCOL_VERSION, Message
from ..process.malloc_tuning import keep_freed
from ..security.keyring import Key, KeyPair, KeyRing, hosts_gone
from ..security.zap import Gate
from . import tcp_connections
from .bulk_lane import Released
from .compatibility import why_not, why_not_join
from .dialer import ATTEMPT_SECONDS, DENIED, Dealer
from .heartbeat_channel import Pulses
from .host_link import CUT_SECONDS, DENIALS, LAST_WORDS_MS, Cut, Loop, Neighbour, Retry, Unmet
from .listener import Arrival, Listener, Wire
from .violations import BoundedLog, Offences

TURN_FRAMES_MAX = 256


class Neighbours:
    """All links of a host.  The reactor treats the object as a role, and passes timers to it."""

    def __init__(
        self,
        host: str,
        keys: KeyPair,
        ring: KeyRing,
        log: Callable[[str], None],
        *,
        on_join: Callable[[hosts.JoinCluster, Key, str], Message] | None = None,
    ) -> None:
        self.host = host
        self.address = f"{host}/links"
        self.keys = keys
        self.ring = ring
        self.on_join = on_join  # a newcomer with a token asks: the head answers
        self.on_link: Callable[[str, bool], None] = lambda host, is_up: None  # the link to a host is up, or no longer
        self.has_said_goodbye = False
        self.on_goodbye: Callable[[str, str], None] = lambda host, reason: None  # a host announces its end
        self.on_expelled: Callable[[str, str], None] = lambda host, reason: None  # a host lets us in no more
        # The link to a host is hopeless.
        self.on_given_up: Callable[[Neighbour, str], None] = lambda it, reason: self.forget(it.host, reason)
        self.on_denied: Callable[[str], None] = lambda host: None  # a host that admitted us refuses now
        self.on_new_head: Callable[[str, hosts.HostWelcome], None] = lambda former, welcome: (
            None
        )  # a head follows another
        self.way: Callable[[Neighbour, float], tuple[str, float]] = lambda it, now: (it.endpoint, ATTEMPT_SECONDS)
        self.on_read: Callable[[Arrival, Key, Message | None], None] = lambda arrival, key, message: None  # the head
        self.on_reached: Callable[[Neighbour], None] = lambda neighbour: None  # an attempt of ours has succeeded
        self.welcome = lambda: hosts.HostWelcome(self.host)  # the answer to a host's greeting
        self.by_host: dict[str, Neighbour] = {}
        self.by_identity: dict[bytes, Neighbour] = {}
        self.gone = hosts_gone()
        self.unmet = Unmet()
        self.roles: set[str] = set()  # our own addresses: membership only
        self.offences = Offences()
        self.dropped_frames = 0
        self.log = BoundedLog(log)
        self.restless: dict[Any, None] = {}  # sockets that may be readable
        self.loop: Loop
        keep_freed()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self.gate = Gate(self.context, ring, self.log)
        self.listener = Listener(self.context, keys, ring)
        self.pulses = Pulses(self)

    def attach(self, loop: Loop, roles: Iterable[str]) -> None:
        """Attach to the reactor's loop, for these roles."""
        self.loop = loop
        self.roles.update(roles)
        loop.watch(self.gate.descriptor, self.gate.answer)
        loop.watch(int(self.listener.socket.fd), lambda: self.stir(self.listener))
        loop.watch(int(self.listener.monitor.fd), lambda: self.stir(self.listener))
        self.stir(self.listener)
        self.gate.answer()

    def stir(self, socket: Any) -> None:
        """Mark a socket as possibly readable."""
        self.restless[socket] = None

    # --- hosts ---

    def meet(self, host: str, key: Key, endpoint: str) -> None:
        """Admit a host, and connect to it if an endpoint (HOST:PORT) is given."""
        if host in self.by_host or host in self.gone or host == self.host:
            return
        self.ring.add(key)
        neighbour = self.by_host[host] = Neighbour(host, key, endpoint, time.monotonic())
        neighbour.backlog = self.unmet.take(host)
        if endpoint:
            self.connect(neighbour)

    def forget(self, host: str, reason: str = "", *, is_lost: bool = False) -> None:
        """Forget a host for good: refuse its key from now on, drop its mail, and cut its connection.

        reason: sent to the host if the link is up.  is_lost: the monitor declared the host dead.
        """
        self.gone[host] = None
        self.unmet.take(host)
        self.ring.forget(host, is_lost=is_lost)
        neighbour = self.by_host.pop(host, None)
        if neighbour is not None:
            if reason and neighbour.is_up:
                self._put(
                    neighbour, unnumbered(hosts.HostExpelled(f"{reason} ({hosts.WAS_LOST})" if is_lost else reason))
                )
            if neighbour.wire is not None:
                self.loop.set_timer(CUT_SECONDS, self.address, Cut(neighbour.wire))
            self.hang_up(neighbour, LAST_WORDS_MS if reason else 0)

    def _succeed(self, head: Neighbour, host: str) -> None:
        """Replace a restarted head: the same key, another host id.  Messages in flight to the former head are
        dropped.
        """
        del self.by_host[head.host]
        self.gone[head.host] = None
        self.log(f"the head was started again: host {head.host} is host {host} now")
        head.become(host)
        self.ring.keys[head.key.public] = head.key
        self.by_host[host] = head
        head.backlog = self.unmet.take(host)

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Our timers."""
        message.due(self)
        return []

    # --- connections of ours ---

    def connect(self, neighbour: Neighbour) -> None:
        """Start an attempt to reach a host."""
        endpoint, seconds = self.way(neighbour, time.monotonic())
        self.use(neighbour, self.dealer_to(neighbour, endpoint), seconds)

    def dealer_to(self, neighbour: Neighbour, endpoint: str) -> Dealer:
        """Return a connection that greets the host as soon as possible."""
        hello = unnumbered(hosts.HostHello(PROTOCOL_VERSION, __version__, self.host))
        return Dealer(self.context, self.keys, endpoint, neighbour.key.public, hello)

    def use(self, neighbour: Neighbour, dealer: Dealer, seconds: float) -> None:
        """Make a connection the host's current one."""
        neighbour.attempt += 1
        neighbour.dealer = dealer
        dealer.watch(self.loop, lambda: self.stir(dealer), lambda: self._look(neighbour, dealer))
        self.stir(dealer)
        self.loop.set_timer(seconds, self.address, Retry(neighbour.host, neighbour.attempt))
        self._look(neighbour, dealer)

    def _look(self, neighbour: Neighbour, dealer: Dealer) -> None:
        if dealer is not neighbour.dealer:
            return
        dealer.look()
        if not dealer.over:
            return
        self._hear_last_words(neighbour, dealer)
        if neighbour.is_up:
            self.log(f"the connection to host {neighbour.host} broke")
        elif neighbour.failures in (0, 10):
            # Refused at first: the other host may not have been told of us yet.
            level = "not yet" if dealer.over == DENIED else dealer.over
            self.log(f"cannot reach host {neighbour.host} at {neighbour.endpoint}: {level}")
        self.hang_up(neighbour)
        seconds = neighbour.failed(dealer.over == DENIED)
        if dealer.over == DENIED and neighbour.failures >= DENIALS and neighbour.link.received:
            if neighbour.failures == DENIALS:
                self.log(f"host {neighbour.host} refuses the key of this host")
            self.on_denied(neighbour.host)
        self.loop.set_timer(seconds, self.address, Retry(neighbour.host, neighbour.attempt))

    def _hear_last_words(self, neighbour: Neighbour, dealer: Dealer) -> None:
        """Read the unnumbered messages received before a connection ended; the rest will be sent again."""
        for frame, _ in dealer.hear(TURN_FRAMES_MAX):
            try:
                self._greeted(neighbour, open_unnumbered(decode_mail(frame)), is_over=True)
            except ProtocolError:
                continue

    def hang_up(self, neighbour: Neighbour, linger_ms: int = 0) -> None:
        """Close the host's connections, if any."""
        self.pulses.close(neighbour)
        if neighbour.is_up:
            neighbour.is_up = False
            neighbour.down_since = time.monotonic()
            self.on_link(neighbour.host, False)
        dealer, neighbour.dealer = neighbour.dealer, None
        if dealer is not None:
            dealer.unwatch(self.loop)
            self.restless.pop(dealer, None)
            dealer.close(linger_ms)
        self.by_identity.pop(neighbour.identity, None)
        neighbour.lane.reset()
        neighbour.identity = b""

    def _is_up(self, neighbour: Neighbour) -> None:
        """Bring a link up after both sides are identified: resend unacknowledged frames, then the backlog."""
        neighbour.came_up()
        neighbour.lane.wake = lambda: self.loop.deliver_from_thread(self.address, Released(neighbour.host))
        self.pulses.link_is_up(neighbour)
        self.on_link(neighbour.host, True)
        for frame in neighbour.link.resend():
            self._put(neighbour, frame)
        self.flush(neighbour)

    # --- sending ---

    def post(self, letters: dict[tuple[str, str], list[Message]]) -> None:
        """Send a turn's messages, keyed by (own role, other role): a frame per host."""
        bundles: dict[str, list[Letter]] = {}
        for (source, target), messages in letters.items():
            bundles.setdefault(target.partition("/")[0], []).append(Letter(source, target, messages))
        for host, bundle in bundles.items():
            neighbour = self.by_host.get(host)
            if neighbour is not None:
                neighbour.backlog += neighbour.lane.without_bulk(bundle)
                self.flush(neighbour)
                if neighbour.pulse is not None:
                    self.pulses.beat(neighbour, bundle)
            elif host not in self.gone and not self.unmet.keep(host, bundle):
                self.log(f"dropped messages for {host[:40]!r}: the host is unknown")

    def flush(self, neighbour: Neighbour) -> None:
        """Send what may be sent by now to a host: messages first, and bulk data as far as the connection takes it."""
        if not neighbour.backlog and not neighbour.lane.waiting:
            return
        if reason := neighbour.why_stuck(time.monotonic()):
            self.log(f"declared host {neighbour.host} dead: {reason}")
            self.on_given_up(neighbour, reason)
        elif neighbour.is_up and not neighbour.link.is_full:
            letters = neighbour.take_backlog() or neighbour.lane.following()
            while letters:
                for frame in neighbour.link.pack_mail(letters):
                    self._put(neighbour, frame)
                letters = neighbour.lane.following()

    def _put(self, neighbour: Neighbour, frame: MailFrame) -> None:
        if isinstance(frame, Parts):
            frame = neighbour.lane.watched(frame)
        dealer = neighbour.dealer
        if dealer is not None:
            dealer.send(frame)
            self.stir(dealer)  # sending may have consumed the event of an arrival
        elif neighbour.identity:
            self.answer(neighbour.identity, frame, neighbour)

    def answer(self, identity: bytes, frame: MailFrame, neighbour: Neighbour | None = None) -> None:
        self.stir(self.listener)  # sending may have consumed the event of an arrival
        if not self.listener.send(identity, frame) and neighbour is not None and neighbour.identity == identity:
            self.hang_up(neighbour)  # the host will connect again

    def acknowledge(self) -> None:
        """Acknowledge to hosts that have sent much and received nothing."""
        for neighbour in self.by_host.values():
            if neighbour.link.owes_acknowledgement and neighbour.is_up:
                for frame in neighbour.link.pack_mail([Letter("", "", [session.Ack()])]):
                    self._put(neighbour, frame)

    # --- receiving ---

    def take_in(self) -> Iterator[tuple[Neighbour, Letter]]:
        """Yield the permitted letters that have arrived."""
        for socket in list(self.restless):
            if socket is self.listener:
                yield from self._take_from_listener()
            elif socket in self.pulses.by_dealer:
                yield from self.pulses.take_from_dealer(socket)
            elif socket in self.restless:  # skip a socket closed because of an earlier message
                yield from self._take_from_dealer(socket)

    def _take_from_dealer(self, dealer: Dealer) -> Iterator[tuple[Neighbour, Letter]]:
        neighbour = next((found for found in self.by_host.values() if found.dealer is dealer), None)
        frames = dealer.hear(TURN_FRAMES_MAX)
        if len(frames) < TURN_FRAMES_MAX:
            self.restless.pop(dealer, None)
        for frame, bulk in frames:
            if neighbour is None or neighbour.dealer is not dealer:
                return  # hung up meanwhile
            try:
                mail = decode_mail(frame, bulk)
                if neighbour.is_up and mail.sequence:
                    yield from self._open(neighbour, mail, len(frame))
                else:
                    self._greeted(neighbour, open_unnumbered(mail))
            except ProtocolError as error:
                self.offend(neighbour, str(error))

    def _greeted(self, neighbour: Neighbour, message: Message | None, *, is_over: bool = False) -> None:
        """Handle the answer to our HostHello, or a refusal."""
        if type(message) is hosts.HostWelcome:
            former = neighbour.host
            if not is_over and message.host == former:
                self._is_up(neighbour)
                self.on_reached(neighbour)
            elif not is_over and neighbour.key.kind == "head":
                self._succeed(neighbour, message.host)
                self._is_up(neighbour)
                self.on_new_head(former, message)
        elif type(message) is hosts.HostGoodbye:
            self.on_goodbye(neighbour.host, message.reason)
        elif type(message) is hosts.HostExpelled:
            self.on_expelled(neighbour.host, message.reason)
        elif type(message) is hosts.HostRefused:
            self.log(f"host {neighbour.host} refuses us: {message.reason}")
        elif type(message) is hosts.MessageRefused:
            self.log(f"host {neighbour.host} refused a message of this host: {message.reason}")

    def _take_from_listener(self) -> Iterator[tuple[Neighbour, Letter]]:
        self.restless.pop(self.listener, None)
        for count, arrival in enumerate(self.listener.hear(), start=1):
            if count >= TURN_FRAMES_MAX:
                self.stir(self.listener)
            identity, key = arrival.identity, arrival.key
            if arrival.bulk is None:
                self._bad(identity, key, "too many parts in a message")
                continue
            neighbour = self.by_identity.get(identity)
            try:
                mail = decode_mail(arrival.data, arrival.bulk)
                if neighbour is not None and key is neighbour.key and mail.sequence:
                    yield from self._open(neighbour, mail, len(arrival.data))
                elif key is not None and (beside := self.pulses.by_identity.get(identity)) and key is beside.key:
                    yield from self.pulses.heard(beside, mail)
                elif key is not None:
                    self._greet(arrival, key, open_unnumbered(mail))
                else:
                    self.dropped_frames += 1  # of a key admitted formerly, but refused now
            except ProtocolError as error:
                if key is not None and key.kind == "joiner" and (refusal := why_not_join(arrival.data)):
                    self.dropped_frames += 1
                    self.answer(identity, unnumbered(hosts.JoinRefused(refusal)))
                else:
                    self._bad(identity, key, str(error))
            if self.listener in self.restless and count >= TURN_FRAMES_MAX:
                return
        tcp_connections.check_ended_connections(self)
        tcp_connections.watch_unauthenticated(self)

    def _bad(self, identity: bytes, key: Key | None, reason: str) -> None:
        """Count a malformed frame, or a frame that its sender may not send."""
        neighbour = self.by_identity.get(identity) or self.pulses.by_identity.get(identity)
        if neighbour is not None and key is neighbour.key:
            self.offend(neighbour, reason)
            return
        self.dropped_frames += 1
        name = f"{key.kind} {key.name}" if key is not None else "a key that is not admitted"
        self.log(f"bad frame from {name}: {reason}")

    def _greet(self, arrival: Arrival, key: Key, message: Message | None) -> None:
        """The first frame of a connection."""
        identity, peer_address = arrival.identity, arrival.peer_address
        if key.kind == "reader":
            self.on_read(arrival, key, message)
            return
        if key.kind == "joiner":
            if type(message) is hosts.JoinCluster and self.on_join is not None:
                self.answer(identity, unnumbered(self.on_join(message, key, peer_address)))
            else:
                self.refuse(identity, key, "a token's key may send JoinCluster to the head, and nothing else")
            return
        neighbour = self.by_host.get(key.name)
        if neighbour is not None and neighbour.identity == identity and type(message) is hosts.HostGoodbye:
            self.on_goodbye(neighbour.host, message.reason)
        elif type(message) is hosts.HostAside and neighbour is not None and neighbour.is_up:
            self.pulses.greeted(neighbour, arrival)
        elif type(message) is not hosts.HostHello or neighbour is None:
            if type(message) not in (hosts.MessageRefused, session.Ack):
                self.refuse(identity, key, "HostHello has to come first")
        elif refusal := why_not("host", "other one", message.protocol, message.version, ""):
            self.refuse(identity, key, refusal)
        elif message.host != key.name:
            self.refuse(identity, key, f"the key of this connection is not that of host {message.host[:40]!r}")
        else:
            self.hang_up(neighbour)
            neighbour.identity, neighbour.seen_at, neighbour.wire = identity, peer_address, Wire(arrival.frame)
            self.by_identity[identity] = neighbour
            self.answer(identity, unnumbered(self.welcome()))
            self._is_up(neighbour)

    def refuse(self, identity: bytes, key: Key, reason: str) -> None:
        self.dropped_frames += 1
        self.log(f"refused {key.kind} {key.name}: {reason}")
        self.answer(identity, unnumbered(hosts.HostRefused(reason)))

    def _open(self, neighbour: Neighbour, mail: Mail, size: int) -> Iterator[tuple[Neighbour, Letter]]:
        """Yield the letters of a frame that the sender may write and that address a local role."""
        letters = neighbour.link.unpack_mail(mail, size)
        if neighbour.backlog or neighbour.lane.waiting:
            self.flush(neighbour)
        yield from self.sifted(neighbour, (it for it in letters if it.source or it.target))  # the others are an Ack

    def sifted(self, neighbour: Neighbour, letters: Iterable[Letter]) -> Iterator[tuple[Neighbour, Letter]]:
        """Yield the permitted letters; report the others to the sender."""
        for letter in letters:
            if self.by_host.get(neighbour.host) is not neighbour:
                return  # forgotten because of the last letter: the death is final
            letter, refusals = neighbour.sift(letter, self.roles)
            for refusal in refusals:
                self.offend(neighbour, refusal)
            if letter.messages:  # if nothing may be said, there may be no such role
                yield neighbour, letter

    def offend(self, neighbour: Neighbour, reason: str) -> None:
        """Handle a forbidden message: count, log, reply; forget the host after too many."""
        self.log(f"refused from host {neighbour.host}: {reason}")
        self._put(neighbour, unnumbered(hosts.MessageRefused(reason)))
        if self.offences.note(neighbour.host, time.monotonic()):
            self.log(f"dropped host {neighbour.host}: it sent too many messages that it may not send")
            self.forget(neighbour.host)
            self.on_given_up(neighbour, "it sent too many messages that it may not send")

    def trouble(self, neighbour: Neighbour, error: Exception) -> None:
        """Report that a role failed on a message."""
        self.log("".join(traceback.format_exception(error)))
        self.offend(neighbour, f"the host could not handle it ({type(error).__name__}: {error})")

    # --- the end ---

    def say_goodbye(self, reason: str) -> None:
        """We end, and why: the others need not find out.  The rest of our end may take a while."""
        self.has_said_goodbye = True
        for neighbour in self.by_host.values():
            if neighbour.is_up:
                self._put(neighbour, unnumbered(hosts.HostGoodbye(reason)))

    def close(self, last_words: str = "") -> None:
        """Close all links.  last_words: the reason sent to others, with a moment to leave."""
        linger_ms = LAST_WORDS_MS if last_words else 0
        if last_words and not self.has_said_goodbye:
            self.say_goodbye(last_words)
        for neighbour in self.by_host.values():
            self.on_link = lambda host, is_up: None
            self.hang_up(neighbour, linger_ms)
        self.gate.close()
        self.listener.close(linger_ms)
        self.context.destroy(linger=linger_ms)
