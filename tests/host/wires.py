"""Hosts of a cluster without nodes around them: their links, on a loop that a test turns; and a wire to cut."""

import collections
import contextlib
import heapq
import os
import select
import socket
import threading
import time

import zmq

from tests.gates import DEADLINE_S
from zray.host.links.dialer import client
from zray.host.links.host_links import Neighbours
from zray.host.security.keyring import Key, KeyPair, KeyRing
from zray.wire.codec import decode_mail
from zray.wire.hosts import HostHello
from zray.wire.link import open_unnumbered, unnumbered
from zray.wire.message import PROTOCOL_VERSION
from zray.wire.scheduling import JobEnded

ROLES = ("local", "objects", "global", "gcs-0", "monitor", "host")


class Loop:
    """What neighbours need of a reactor."""

    def __init__(self):
        self.actions = {}
        self.epoll = select.epoll()
        self.timers = []
        self.count = 0
        self.from_threads = collections.deque()

    def watch(self, descriptor, action):
        self.actions[descriptor] = action
        self.epoll.register(descriptor, select.EPOLLIN)

    def unwatch(self, descriptor):
        if self.actions.pop(descriptor, None) is not None:
            self.epoll.unregister(descriptor)

    def set_timer(self, delay, address, message):
        self.count += 1
        heapq.heappush(self.timers, (time.monotonic() + delay, self.count, address, message))

    def deliver_from_thread(self, address, message):
        self.from_threads.append((address, message))


class Host:
    """One host; what its roles hear is in `heard`: (source, target, message)."""

    def __init__(self, kind="node", on_join=None, keys=None, port=0):
        self.name = os.urandom(8).hex()
        self.keys = keys or KeyPair.draw()
        self.key = Key(self.keys.public, kind, self.name)
        self.ring = KeyRing()
        self.lines = []
        self.links = Neighbours(self.name, self.keys, self.ring, self.lines.append, on_join=on_join)
        self.loop = Loop()
        self.heard = []
        self.helpers = {}  # what else gets timers
        self.port = self.links.listener.bind("127.0.0.1", port)
        self.endpoint = f"127.0.0.1:{self.port}"
        self.links.attach(self.loop, [f"{self.name}/{role}" for role in ROLES])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.links.close()
        self.loop.epoll.close()

    def role(self, name):
        return f"{self.name}/{name}"

    def meet(self, other, endpoint=""):
        self.links.meet(other.name, other.key, endpoint)

    def say(self, source, target, *messages):
        self.links.post({(self.role(source), target): list(messages)})

    def turn(self):
        """What a reactor does, once, without sleeping."""
        for descriptor, _ in self.loop.epoll.poll(0.0):
            action = self.loop.actions.get(descriptor)
            if action is not None:
                action()
        while self.loop.timers and self.loop.timers[0][0] <= time.monotonic():
            _, _, address, message = heapq.heappop(self.loop.timers)
            self.helpers.get(address, self.links).handle("", message, 0.0)
        while self.loop.from_threads:
            address, message = self.loop.from_threads.popleft()
            self.helpers.get(address, self.links).handle("", message, 0.0)
        for _, letter in self.links.take_in():
            assert letter.target in self.links.roles  # a reactor has to find it
            self.heard += [(letter.source, letter.target, message) for message in letter.messages]
        self.links.acknowledge()

    def messages(self):
        return [message for _, _, message in self.heard]

    def objects(self):
        """Objects that have come in chunks, as (size, bytes): no byte is missing, there twice or out of order."""
        found = []
        for message in self.messages():
            if not message.offset:
                found.append((message.size, b""))
            size, data = found[-1]
            assert (message.size, message.offset) == (size, len(data))
            found[-1] = size, data + bytes(message.data.data)
        return found

    def has_logged(self, text):
        return any(text in line for line in self.lines)


def pump(hosts, condition, deadline_s=DEADLINE_S):
    """Turn the hosts until the condition holds; AssertionError when it does not come to."""
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < end, f"not true after {deadline_s} s"
        for host in hosts:
            host.turn()
        threading.Event().wait(0.0005)
    return value


def join(later, earlier, endpoint=None):
    """Two hosts know each other's keys, and the later one connects."""
    earlier.meet(later)
    later.meet(earlier, endpoint or earlier.endpoint)


def are_up(*hosts):
    return all(neighbour.is_up for host in hosts for neighbour in host.links.by_host.values())


class Stranger:
    """A DEALER of a peer that follows no rules but libzmq's."""

    def __init__(self, server, keys=None, server_key=None, routing_id=b""):
        self.context = zmq.Context()
        self.socket = client(self.context, keys or KeyPair.draw(), server_key or server.keys.public)
        if routing_id:
            self.socket.routing_id = routing_id
        self.socket.connect(f"tcp://{server.endpoint}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.context.destroy(linger=0)


def beat(number):
    """Something that a node may say to any other."""
    return JobEnded(b"%d" % number)


def greet(host, stranger, others, name):
    """Say HostHello as `name`; the answer."""
    stranger.socket.send(unnumbered(HostHello(PROTOCOL_VERSION, "", name)))
    pump((host, *others), lambda: stranger.socket.poll(0))
    return open_unnumbered(decode_mail(stranger.socket.recv()))


class Wire:
    """A TCP proxy on loopback whose connections can be cut at any time, in the middle of anything."""

    def __init__(self, port, listener=None):
        self.port_behind = port
        self.listener = listener or socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.pairs = []
        self.carried = 0  # connections so far
        self.brought = 0  # bytes from behind to callers
        self.limit = None  # so many; then nothing more comes from there until it is higher
        self.record = None  # a bytearray: what callers have sent
        self.is_over = False
        self.thread = threading.Thread(target=self._carry, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.is_over = True
        self.thread.join(10)
        self.cut()
        self.listener.close()

    def cut(self):
        """Reset all connections; what was under way is lost."""
        for pair in list(self.pairs):
            self._drop(pair)

    def _drop(self, pair):
        if pair in self.pairs:
            self.pairs.remove(pair)
        for end in pair:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def _accept(self):
        caller = self.listener.accept()[0]
        try:
            self.pairs.append((caller, socket.create_connection(("127.0.0.1", self.port_behind))))
        except OSError:  # nobody listens behind it any more
            caller.close()
            return
        self.carried += 1

    def _carry(self):
        while not self.is_over:
            is_held = self.limit is not None and self.brought >= self.limit
            pairs = list(self.pairs)
            ends = {end: pair for pair in pairs for end in pair[: 2 - is_held] if end.fileno() >= 0}
            try:
                readable = select.select([self.listener, *ends], [], [], 0.02)[0]
            except (OSError, ValueError):
                continue  # cut meanwhile
            for end in readable:
                if end is self.listener:
                    self._accept()
                    continue
                pair = ends[end]
                other = pair[1] if pair[0] is end else pair[0]
                try:
                    data = end.recv(65536)
                    if self.record is not None and end is pair[0]:
                        self.record += data
                    self.brought += len(data) if end is pair[1] else 0
                    other.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    self._drop(pair)


def reads_a_line(call):
    """As web servers do."""
    with call.makefile("rb") as lines:
        lines.readline()
    call.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@contextlib.contextmanager
def strangers_port(answer):
    """Another program's, which does that with each call."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            with contextlib.suppress(OSError):  # the port is closed
                while True:
                    call = listening.accept()[0]
                    threading.Thread(target=serve_one, args=(call,)).start()

        def serve_one(call):
            with call, contextlib.suppress(OSError):
                answer(call)
                while call.recv(100):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
