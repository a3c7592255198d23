"""A process that speaks to a node without zray's client: a bare DEALER, and what it likes to send."""

import os
import random
import typing

import msgspec
import zmq

from zray.host.links.compatibility import python_version
from zray.ids import JOB_ID_BYTES
from zray.version import __version__
from zray.wire.codec import decode, encode
from zray.wire.message import PROTOCOL_VERSION, Bulk
from zray.wire.session import Hello
from zray.wire.shards import SlotTable

ANSWER_MS = 20_000


class RawPeer:
    """One DEALER on a node's socket."""

    def __init__(self, address):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 2_000  # what is sent last still arrives
        self.socket.connect(address)
        self.sequence = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.context.destroy()

    def send(self, *parts):
        self.socket.send_multipart(parts)

    def say(self, *messages):
        """Messages in a proper envelope."""
        self.sequence += 1
        self.send(encode([1, self.sequence, 0, list(messages)]))

    def hear(self):
        """The messages of the next frame."""
        assert self.socket.poll(ANSWER_MS), "the node says nothing"
        return decode(self.socket.recv()).messages

    def hello(self, **changed):
        """Say Hello as a driver of this process; the first answer."""
        fields = {
            "protocol": PROTOCOL_VERSION,
            "version": __version__,
            "kind": "driver",
            "pid": os.getpid(),
            "job_id": os.urandom(JOB_ID_BYTES),
            "python": python_version(),
        }
        self.say(Hello(**{**fields, **changed}))
        return self.hear()[0]


INTEGERS = (0, 1, -1, 7, 1 << 31, (1 << 63) - 1, -(1 << 63))
LENGTHS = (0, 1, 4, 8, 16, 20, 300)
LONG = 1_000


def random_value(kind, pick):
    """Some value of a type that a message's field has: well-formed, and most likely nonsense."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return constrained_value(*arguments[:2], pick)
    if kind is SlotTable:  # refuses owners that there never were
        owners = tuple(pick.randrange(5) for _ in range(pick.randrange(1, 4)))
        return SlotTable(owners, pick.choice((0, 1, (1 << 63) - 1)), pick.choice((max(owners) + 1, (1 << 63) - 1)))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return random_message(kind, pick)
    if origin in (list, tuple):
        item = arguments[0] if origin is list or arguments[-1] is ... else None
        if item is None:
            return tuple(random_value(argument, pick) for argument in arguments)
        values = [random_value(item, pick) for _ in range(pick.randrange(3))]
        return values if origin is list else tuple(values)
    if origin is dict:
        return {random_value(arguments[0], pick): random_value(arguments[1], pick) for _ in range(pick.randrange(3))}
    if arguments:  # a union
        return random_value(pick.choice(arguments), pick)
    simple = {
        bool: lambda: pick.random() < 0.5,
        int: lambda: pick.choice(INTEGERS),
        float: lambda: pick.choice((0.0, -1.0, 1e300)),
        bytes: lambda: pick.randbytes(pick.choice(LENGTHS)),
        Bulk: lambda: Bulk(pick.randbytes(pick.choice(LENGTHS))),
        str: lambda: pick.choice(("", "driver-1", "worker-1", "local", "gcs-0", "x" * 300)),
        type(None): lambda: None,
    }
    return simple[kind]()


def constrained_value(kind, meta, pick):
    """One that the codec lets through: of the length, or not below the bound, that a field asks for."""
    if kind in (bytes, str):
        least = meta.min_length or 0
        length = pick.randint(least, max(least, min(meta.max_length or LONG, LONG)))
        return pick.randbytes(length) if kind is bytes else "x" * length
    if meta.ge is not None or meta.le is not None:
        fitting = [n for n in INTEGERS if (meta.ge is None or n >= meta.ge) and (meta.le is None or n <= meta.le)]
        return pick.choice(fitting or [meta.ge, meta.le][:1])
    return random_value(kind, pick)


def random_message(kind, pick=random):
    """A message of that type with random fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return kind(*(random_value(hints[name], pick) for name in kind.__struct_fields__))
