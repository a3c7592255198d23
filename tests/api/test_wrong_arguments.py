"""Arguments of a wrong kind are errors of the one call that has them; the session and its other calls go on."""

import random

import pytest

import zray
from zray.host import context
from zray.wire.actors import KillActor

NAN = float("nan")
NO_TEXT = "caf\udce9"  # what os.listdir() says of a name that is no UTF-8


@zray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


@pytest.fixture(scope="module", autouse=True)
def shared(session):
    return session


@pytest.fixture
def nothing_is_lost():
    """An actor lives on, with its state, and tasks run."""
    counter = Counter.remote()
    assert zray.get(counter.add.remote()) == 1
    yield
    assert zray.get([counter.add.remote(), zray.remote(lambda: 7).remote()], timeout=20) == [2, 7]


WRONG = {
    "get_actor by no text": (ValueError, "cannot be encoded as UTF-8", lambda ref, actor: zray.get_actor(NO_TEXT)),
    "get_actor, namespace": (TypeError, "namespace", lambda ref, actor: zray.get_actor("a", namespace=4)),
    "name that is no text": (
        ValueError,
        "cannot be encoded as UTF-8",
        lambda ref, actor: Counter.options(name=NO_TEXT).remote(),
    ),
    "kill, no_restart": (TypeError, "no_restart", lambda ref, actor: zray.kill(actor, no_restart=None)),
    "wait for a number": (TypeError, "ObjectRefs", lambda ref, actor: zray.wait([1])),
    "wait, num_returns": (TypeError, "num_returns", lambda ref, actor: zray.wait([ref], num_returns="x")),
    "wait, timeout": (TypeError, "timeout", lambda ref, actor: zray.wait([ref], timeout="a")),
    "get, timeout": (TypeError, "timeout", lambda ref, actor: zray.get(ref, timeout="a")),
    "get, not a number": (ValueError, "nan", lambda ref, actor: zray.get(ref, timeout=NAN)),
    "wait, not a number": (ValueError, "nan", lambda ref, actor: zray.wait([ref], timeout=NAN)),
    "as_completed, not a number": (ValueError, "nan", lambda ref, actor: list(zray.as_completed([ref], timeout=NAN))),
    "next to no CPU": (ValueError, "0.0001", lambda ref, actor: Counter.options(num_cpus=1e-9)),
    "next to nothing": (ValueError, "0.0001", lambda ref, actor: Counter.options(resources={"a": 0.00009})),
    "label, no end": (
        ValueError,
        r"must be like .* not 'in\(ssd'",
        lambda ref, actor: Counter.options(label_selector={"disk": "in(ssd"}),
    ),
    "no such method": (AttributeError, "It has: add", lambda ref, actor: actor.__len__),
    "init, namespace": (TypeError, "namespace", lambda ref, actor: zray.init(namespace=4)),
    "init, address": (TypeError, "address", lambda ref, actor: zray.init(address=b"auto")),
    "init, Ray's folder": (NotImplementedError, "ZRAY_TMPDIR", lambda ref, actor: zray.init(_temp_dir="/tmp")),
}


@pytest.mark.parametrize("error, word, call", WRONG.values(), ids=WRONG)
def test_it_is_refused_where_it_is_made(nothing_is_lost, error, word, call):
    actor = Counter.remote()
    with pytest.raises(error, match=word):
        call(zray.put(1), actor)


def test_wait_looks_at_a_list_that_has_the_address_of_one_it_knows():
    refs = [zray.put(1), zray.put(2)]
    _, rest = zray.wait(refs)
    rest[0] = 1
    with pytest.raises(TypeError, match="ObjectRefs"):
        zray.wait(rest)


def test_what_cannot_be_said_takes_nothing_along(nothing_is_lost):
    """Should a door above be open: the link between the program and its node stays whole."""
    runtime = context.runtime
    ref = zray.remote(lambda: 3).remote()
    runtime.say(KillActor(NO_TEXT, True))
    with pytest.raises(UnicodeEncodeError):
        runtime.flush()
    assert zray.get(ref, timeout=20) == 3


def test_parameters_may_have_any_name():
    assert zray.get(zray.remote(lambda self: self).remote(self=1)) == 1
    assert zray.get(zray.remote(lambda args, kwargs: (args, kwargs)).remote(args=1, kwargs=2)) == (1, 2)


def test_methods_that_are_written_in_c():
    generator = zray.remote(random.Random).remote(3)
    assert zray.get(generator.random.remote()) == random.Random(3).random()
    store = zray.remote(type("Store", (dict,), {})).remote(a=1)
    assert zray.get([store.get.remote("a"), store.get.remote("b", 2), store.setdefault.remote("c", 3)]) == [1, 2, 3]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("option", ["num_cpus", "num_gpus", "max_retries", "priority", "num_returns", "max_calls"])
def test_integer_beyond_any_float_is_refused_as_other_numbers_are(option, sign):
    with pytest.raises((TypeError, ValueError), match=option):
        zray.remote(**{option: sign * 10**400})(lambda: 1)
