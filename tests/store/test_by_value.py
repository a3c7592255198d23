"""Classes and functions that travel by value: a process that knows them keeps them as they are."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
import weakref

import pytest

from tests.store.peer import Peer, program
from zray.store.functions import deserialize_function, serialize_function
from zray.store.values import cloudpickled, deserialize, serialize, to_bytes

MODEL = """
import abc, collections, dataclasses, enum, functools, typing

made = []
RATE = 1
used = 0

def helper():
    return RATE

class Meta(type):
    def __new__(meta, name, bases, namespace):
        made.append(name)
        return super().__new__(meta, name, bases, namespace)

class Config(metaclass=Meta):
    rate = 0.1
    table = {"a": 1}
    extra = "extra"

    class Inner:
        depth = 1

    def __init_subclass__(cls):
        made.append("sub")

    def __init__(self):
        self.mine = 1

    def use(self):
        global used
        used += 1
        return used

    def rates(self):
        return type(self).rate, helper(), self.scaled(2)

    @staticmethod
    def scaled(by):
        return RATE * by

    @classmethod
    def count(cls):
        cls.counted = getattr(cls, "counted", 0) + 1
        return cls.counted

class Child(Config):
    pass
"""


@pytest.fixture(scope="module")
def peer():
    with Peer() as peer:
        yield peer


@pytest.fixture
def main():
    return program(MODEL)


def round_trip(value):
    return deserialize(to_bytes(serialize(value)))


def identity(value):
    return value


def rates_of(value):
    return value.rates()


def count_of(value):
    return value.count()


def attribute_of(value, name):
    return getattr(value, name, None)


def test_class_of_the_program_stays_as_it_is_when_a_value_comes_back(main):
    config = main["Config"]
    config.counter = 0
    data = to_bytes(serialize([config(), main["Child"]()]))
    before, made = dict(vars(config)), list(main["made"])
    config.rate, config.table["b"], config.late = 0.5, 2, "late"
    del config.extra
    back, child = deserialize(data)
    assert type(back) is config and type(child) is main["Child"]
    assert (config.rate, config.table, config.late) == (0.5, {"a": 1, "b": 2}, "late") and not hasattr(config, "extra")
    assert all(vars(config)[name] is value for name, value in before.items() if name not in ("rate", "extra"))
    assert main["made"] == made
    assert back.use() == 1 and main["used"] == 1


@pytest.mark.parametrize("kind", ["instance", "class", "method", "class method", "nested class", "function", "list"])
def test_what_a_program_defines_is_itself_after_another_process_had_it(peer, main, kind):
    config = main["Config"]
    value = {
        "instance": config(), "class": config, "method": config().use, "class method": config.count,
        "nested class": config.Inner, "function": main["helper"], "list": [config, config.Inner, main["helper"]],
    }[kind]  # fmt: skip
    made = list(main["made"])
    back = peer.run(identity, value)
    config.rate = 7
    again = peer.run(identity, back)
    main["RATE"] = 3
    if kind == "instance":
        assert type(back) is config and again.rates() == (7, 3, 6)
    elif kind in ("method", "class method"):
        assert back.__func__ is again.__func__ is value.__func__
    else:
        assert back == again == value
    assert main["made"] == made


def test_class_that_another_process_knows_keeps_what_that_process_has_set(peer, main):
    config = main["Config"]
    counts = [peer.run(count_of, config) for _ in range(3)]
    assert counts == [1, 2, 3] and not hasattr(config, "counted")
    assert peer.run(rates_of, config()) == (0.1, 1, 2)
    assert [peer.run(count_of, main["Child"]) for _ in range(2)] == [4, 5]


def test_class_that_its_program_has_changed_is_changed_elsewhere_too(peer, main):
    """An attribute, a table changed in place, a method, an attribute less; what was set there stays."""
    config = main["Config"]
    peer.run(count_of, config)
    config.rate = 0.5
    config.table["a"] = 2
    config.rates = lambda self: (type(self).rate, "new")
    del config.extra
    assert peer.run(rates_of, config()) == (0.5, "new")
    assert peer.run(attribute_of, config, "table") == {"a": 2}
    assert peer.run(attribute_of, config, "extra") is None
    assert peer.run(count_of, config) == 2


@pytest.mark.parametrize("name, value, expected", [("RATE", 5, (0.1, 5, 10)), ("helper", lambda: "other", None)])
def test_methods_see_the_globals_that_their_program_has_changed(peer, main, name, value, expected):
    config = main["Config"]
    assert peer.run(rates_of, config()) == (0.1, 1, 2)
    peer.run(count_of, config)
    main[name] = value
    assert peer.run(rates_of, config()) == (expected or (0.1, "other", 2))
    assert peer.run(count_of, config) == 2


def test_value_of_an_earlier_moment_does_not_undo_a_change(peer, main):
    config = main["Config"]
    old = to_bytes(serialize((rates_of, (config(),))))
    assert peer.run(rates_of, config()) == (0.1, 1, 2)
    config.rate = 0.5
    assert peer.run(rates_of, config()) == (0.5, 1, 2)
    assert deserialize(peer.exchange(old)) == (0.5, 1, 2)


def test_class_that_a_third_process_passes_on_leaves_the_known_one_alone(peer, main):
    config = main["Config"]
    peer.run(count_of, config)
    with Peer() as other:
        for _ in range(2):
            other.run(count_of, config)
        passed_on = other.exchange(to_bytes(serialize((identity, ((count_of, (config,)),)))))
        assert deserialize(peer.exchange(passed_on)) == 2
        config.rate = 0.5
        other.run(rates_of, config())
        passed_on = other.exchange(to_bytes(serialize((identity, ((rates_of, (config(),)),)))))
        assert deserialize(peer.exchange(passed_on)) == (0.5, 1, 2)


def test_class_defined_again_is_another_class(peer):
    namespace = program("class Config:\n    rate = 1")
    first = namespace["Config"]
    peer.run(identity, first)
    exec("class Config:\n    rate = 2", namespace)
    assert peer.run(attribute_of, namespace["Config"], "rate") == 2
    assert peer.run(attribute_of, first, "rate") == 1
    assert peer.run(identity, namespace["Config"]) is namespace["Config"] is not first


ENUMS = """
import enum

class Color(enum.Enum):
    RED = 1
    CRIMSON = 1
    BLUE = 2

class Planet(enum.Enum):
    EARTH = (5, 6)

    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius

    @property
    def density(self):
        return self.mass * self.radius

class Labelled(enum.Enum):
    ONE = 1, "one"

    def __new__(cls, number, label):
        member = object.__new__(cls)
        member._value_, member.label = number, label
        return member

class Mode(enum.IntFlag):
    READ = 1
    WRITE = 2

class Size(str, enum.Enum):
    BIG = "big"

def looks(color, planet, labelled, mode, size):
    return (type(color)["CRIMSON"] is color, color.name, planet.density, planet.mass, labelled.label,
            type(labelled)(1) is labelled, mode, mode | 2, size + "ger", list(type(mode)))
"""


def test_members_of_enums_are_whole_in_another_process(peer):
    main = program(ENUMS)
    members = [main["Color"].RED, main["Planet"].EARTH, main["Labelled"].ONE, main["Mode"].READ, main["Size"].BIG]
    for _ in range(2):
        assert peer.run(main["looks"], *members) == main["looks"](*members)
        assert all(back is member for back, member in zip(peer.run(identity, members), members, strict=True))


OTHERS = """
import abc, collections, dataclasses, functools, typing

T = typing.TypeVar("T")

class Base(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

class Square(Base):
    def area(self):
        return 4

@Base.register
class Virtual: pass

class Box(typing.Generic[T]):
    def __init__(self, item: T): self.item = item

class IntBox(Box[int]): pass

@dataclasses.dataclass
class Point:
    x: int = 0
    tags: list = dataclasses.field(default_factory=list, metadata={"a": 1})

class Pair(typing.NamedTuple):
    a: int
    b: str = "b"

Old = collections.namedtuple("Old", "a b")

class Cached:
    @functools.cached_property
    def once(self): return object()

def local():
    class Local:
        count = 0
        def me(self): return Local
    return Local

Local = local()

def checks(square, box, point, pair, old, cached, lo):
    return (square.area(), isinstance(Virtual(), Base), type(box).__orig_bases__[0].__args__, point == Point(1, [2]),
            pair._replace(a=3).b, old.a, cached.once is cached.once, lo.me() is type(lo))
"""


def test_kinds_of_classes_work_in_another_process_and_come_back_as_themselves(peer):
    main = program(OTHERS)
    values = [main["Square"](), main["IntBox"](1), main["Point"](1, [2]), main["Pair"](1), main["Old"](1, 2)]
    values += [main["Cached"](), main["Local"]()]
    before = [dict(vars(type(value))) for value in values]
    for _ in range(2):
        assert peer.run(main["checks"], *values) == (4, True, (int,), True, "b", 1, True, True)
        back = peer.run(identity, values)
    assert [type(value) for value in back] == [type(value) for value in values]
    for value, was in zip(values, before, strict=True):
        now = vars(type(value))
        assert all(now[name] is part for name, part in was.items()), type(value)


def test_class_registered_at_an_abstract_one_later_is_known_elsewhere(peer):
    main = program(OTHERS)
    main["is_one"] = lambda base, value: isinstance(value, base)
    late = type("Late", (), {"__module__": "__main__"})
    assert peer.run(main["is_one"], main["Base"], late()) is False
    main["Base"].register(late)
    assert peer.run(main["is_one"], main["Base"], late()) is True


def test_pickle_inside_a_pickle_leaves_the_class_alone(main):
    from zray import cloudpickle

    config = main["Config"]
    data = to_bytes(serialize([config(), cloudpickle.dumps(config())]))
    config.rate = 9
    one, inner = deserialize(data)
    two = cloudpickle.loads(inner)
    assert type(one) is type(two) is config and config.rate == 9


def test_pickles_of_one_class_are_equal_as_long_as_it_is(peer, main):
    config = main["Config"]
    first = serialize_function(config)[0]
    config()
    peer.run(rates_of, config())
    assert serialize_function(config)[0] == serialize_function(config)[0] == first
    assert peer.run(lambda cls: serialize_function(cls)[0] == serialize_function(cls)[0], config)


def test_class_whose_first_arrival_fails_is_whole_with_the_next(peer):
    source = """
    class Fails:
        def __reduce__(self):
            return int, ("no number",)

    class Holder:
        part = None
        rate = 5
    """
    main = program(source)
    holder = main["Holder"]
    holder.part = main["Fails"]()
    with pytest.raises(Exception, match="no number"):
        peer.run(attribute_of, holder, "rate")
    holder.part = None
    assert peer.run(attribute_of, holder, "rate") == 5


def test_threads_that_read_a_new_class_at_once_all_find_it_whole(peer):
    def read_together(data):
        from zray.store.values import deserialize

        start, seen = threading.Barrier(4), []

        def read():
            start.wait()
            seen.append(deserialize(data).rates())

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return seen

    for _ in range(10):
        assert peer.run(read_together, to_bytes(serialize(program(MODEL)["Config"]()))) == [(0.1, 1, 2)] * 4


def test_class_that_is_dropped_leaves_nothing(main):
    config = main["Config"]
    round_trip([config(), main["helper"]])
    config.rate = 2
    round_trip(config())
    seen = weakref.ref(config)
    del config
    main.clear()
    gc.collect()
    assert seen() is None


def test_class_with_values_of_any_kind_is_compared_without_asking_them(main):
    import numpy

    class Odd:
        def __eq__(self, other):
            raise RuntimeError("not comparable")

        __hash__ = None

    config = main["Config"]
    config.array, config.odd, config.nan = numpy.zeros(3), Odd(), float("nan")
    config.functions = {"a": lambda: config.rate}
    first = serialize_function(config)[0]
    assert serialize_function(config)[0] == first
    config.array, config.odd = numpy.ones(3), Odd()
    assert serialize_function(config)[0] != first
    config.functions["b"] = len
    assert deserialize_function(serialize_function(config)[0]) is config


def test_function_is_built_anew_elsewhere_with_the_globals_of_its_program(peer):
    main = program("used = 0\ndef use():\n    global used\n    used += 1\n    return used\n")
    assert [peer.run(main["use"]) for _ in range(2)] == [1, 1]
    main["used"] = 5
    assert peer.run(main["use"]) == 6 and main["used"] == 5
    assert round_trip(main["use"]) is main["use"]


def test_pickling_functions_that_are_registered_later_are_used():
    import copyreg

    import cloudpickle

    class Handle:
        def __reduce__(self):
            raise TypeError("not like this")

    for table in (copyreg.dispatch_table, cloudpickle.Pickler.dispatch_table):
        with pytest.raises(Exception, match="not like this"):
            serialize(Handle())
        table[Handle] = lambda handle: (int, (7,))
        try:
            assert round_trip(Handle()) == 7
        finally:
            del table[Handle]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("zray.api.remote_function", "RemoteFunction"),
        ("zray.api.actor_class", "ActorClass"),
        ("zray.api.actor_handle", "ActorHandle"),
        ("zray.api.runtime_context", "RuntimeContext"),
        ("zray.api.dag", "FunctionNode"),
    ],
)
def test_class_of_zray_goes_by_its_public_name_in_a_program_that_has_not_imported_that(monkeypatch, place, name):
    cls = getattr(importlib.import_module(place), name)
    monkeypatch.delitem(sys.modules, cls.__module__, raising=False)
    assert len(cloudpickled(cls)) < 100
