"""Payloads of messages: only workers and drivers open them, and code only under its hash (docs/security.md, S8, S9)."""

import os
import pickle
import random

import msgspec
import pytest

import zray
from tests.gates import is_running
from tests.host.raw import RawPeer, random_message
from zray.exceptions import DeserializationError
from zray.host import context
from zray.ids import function_id, return_id
from zray.store.errors import deserialize_error
from zray.store.values import is_error
from zray.wire.actors import CreateActor
from zray.wire.allowed import ALLOWED
from zray.wire.message import Bulk, Message
from zray.wire.objects import PutObjects
from zray.wire.session import GetStatus, Goodbye, ProcessDropped, StatusReply, Welcome
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import Function, ObjectsReady, PublishFunction, SubmitTasks, TasksFinished

pytestmark = pytest.mark.usefixtures("session")


class Canary:
    """Its unpickling leaves a trace: which process did it."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        code = "open(__import__('os').path.join({!r}, str(__import__('os').getpid())), 'w').close()"
        return exec, (code.format(self.folder),)


def opened_by(folder):
    return {int(name) for name in os.listdir(folder)}


def submit(peer, code, name):
    """A task of that code under that name; its value."""
    spec = TaskSpec(os.urandom(16), name)
    peer.say(PublishFunction(Function(name, "f", code)), SubmitTasks([spec]))
    while True:
        for message in peer.hear():
            for ready in message.objects if type(message) is ObjectsReady else ():
                if ready[0] == return_id(spec.task_id, 1):
                    return ready[1]


def test_code_that_is_not_what_its_name_says_is_not_opened(tmp_path):
    """docs/security.md, B17."""
    code = pickle.dumps(Canary(tmp_path))
    with RawPeer(context.runtime.paths.address) as peer:
        assert type(peer.hello()) is Welcome
        value = submit(peer, code, b"f" * 16)
        assert is_error(value)
        with pytest.raises(DeserializationError, match="does not match its hash"):
            raise deserialize_error(value)
        assert not opened_by(tmp_path)
        submit(peer, code, function_id(code))
        assert opened_by(tmp_path) and os.getpid() not in opened_by(tmp_path)


def with_a_canary(value, data):
    """The same, with that in one of its fields of bytes: each in its turn, however deep."""
    if type(value) is bytes:
        yield data
    elif type(value) is Bulk:
        yield Bulk(data)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            for changed in with_a_canary(getattr(value, name), data):
                yield msgspec.structs.replace(value, **{name: changed})
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            for changed in with_a_canary(item, data):
                yield type(value)([*value[:index], changed, *value[index + 1 :]])


def is_valid(message):
    try:
        msgspec.msgpack.decode(
            msgspec.msgpack.encode(message, enc_hook=lambda value: value.data),
            type=type(message),
            dec_hook=lambda kind, value: Bulk(value),
        )
    except msgspec.ValidationError:
        return False
    return True


def variants(kind, data):
    """Messages of that type that the node will handle."""
    for seed in range(12):
        yield from filter(is_valid, with_a_canary(random_message(kind, random.Random(seed)), data))


SAID_TO_A_NODE = sorted(
    {kind for (source, _), kinds in ALLOWED.items() if source in ("driver", "worker") for kind in kinds}
    - {Goodbye, GetStatus},
    key=lambda kind: kind.__name__,
)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_no_pickle_in_any_field_is_opened_by_the_node(protocol, tmp_path):
    """All fields of all messages of drivers and workers are tried; at worst the sender is dropped (B16)."""
    data = pickle.dumps(Canary(tmp_path), protocol=protocol)
    node_pid, said = context.runtime.node_pid, set()
    for kind in SAID_TO_A_NODE:
        assert issubclass(kind, Message)
        for message in variants(kind, data):
            said.add(kind)
            with RawPeer(context.runtime.paths.address) as peer:
                assert type(peer.hello()) is Welcome
                peer.say(message, GetStatus(7))
                while not any(type(heard) in (StatusReply, ProcessDropped) for heard in peer.hear()):
                    pass
    assert {PublishFunction, SubmitTasks, CreateActor, PutObjects, TasksFinished} <= said
    assert zray.get(zray.remote(lambda: 1).remote(), timeout=20) == 1
    assert context.runtime.node_pid == node_pid and is_running(node_pid)
    assert node_pid not in opened_by(tmp_path)
