"""Classes say of their tables how much there may be, and when it has to be gone (zray/roles/kept.py)."""

import importlib
import pkgutil
from collections import deque

import pytest

from tests.roles.desk import Desk
from zray import roles
from zray.roles.gcs import GcsShard
from zray.roles.gcs.chain import ChainMember
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.kept import Latest, bounds_of, exceeded_bounds_of, left_of, wholes_of
from zray.roles.monitor import Monitor
from zray.roles.object_manager import ObjectManager

# Tables without a limit that may stay.
UNSAID = {
    "ActorHomes._lost": "the lost nodes of the shard",
    "Role.rejected": "counts by reasons, which are constants of the code",
    "Role._effects": "what is decided in a call leaves with it",
    "Calls.promised": "amounts by resource; the simulator asserts that they are 0 at rest",
    "Departures.kinds": "options of tasks; those of kinds that are gone go at the next look",
    "Dispatch.queues": "queues of jobs, each of which bounds its own",
    "Flushing._oldest": "tasks with records; looked at when their specs are to leave",
    "GcsShard.lost": "nodes, for good: they are as many as have been lost",
    "Going.closed": "nodes",
    "GroupTable.attending": "nodes",
    "Gpus.free": "amounts by resource",
    "Gpus.total": "amounts by resource",
    "Lineage.marks": "moments since the oldest task that is not recorded",
    "MakingRoom.copies": "objects; when they have doubled, those that are gone go",
    "Puts.last": "tasks; when they have doubled, those that are gone go",
    "Resources.held": "amounts by resource",
    "Resources.reserved": "amounts by resource",
    "Results.unsaid": "updates since it became the tail; its last ones stay when it is the tail no more",
    "Results.touched": "clients",
}
LIMIT = 2


class Record:
    __slots__ = ("calls", "part")
    PASSING = {"calls": "LIMIT"}
    LASTING = {"part": ...}

    def __init__(self):
        self.calls, self.part = [1], None


class Part:
    OF_JOBS = {"first second": "whole.size", "size": lambda part: len(part.whole.records) + 3}
    LASTING = {"the most calls": (lambda part: (len(it.calls) for it in part.whole.records.values()), 7)}

    def __init__(self, whole):
        self.whole, self.first, self.second, self.size = whole, {}, deque("abc"), 4


class Whole:
    PASSING = {"records": ...}

    def __init__(self):
        self.size, self.records, self.latest = 5, {b"\x01": Record(), "two": Record()}, Latest(9)
        self.part = Part(self)


@pytest.fixture
def whole(monkeypatch):
    for cls in (Record, Part):
        monkeypatch.setattr(cls, "__module__", "zray.roles.test_kept")
    monkeypatch.setitem(importlib.sys.modules, "zray.roles.test_kept", importlib.import_module(__name__))
    return Whole()


def test_bounds_are_of_a_role_its_parts_and_its_records(whole):
    assert sorted(bounds_of(whole)) == [
        ("Whole.latest.entries", 0, 9),
        ("Whole.part.first", 0, 5),
        ("Whole.part.second", 3, 5),
        ("Whole.part.size", 4, 5),
        ("Whole.part.the most calls", 1, 7),
        ("Whole.records[01].calls", 1, 2),
        ("Whole.records[two].calls", 1, 2),
    ]


def test_limits_are_those_that_constants_have_now(whole, monkeypatch):
    monkeypatch.setattr(importlib.import_module(__name__), "LIMIT", 1)
    assert ("Whole.records[two].calls", 1, 1) in list(bounds_of(whole))


def test_parts_that_may_be_replaced_are_those_of_now(whole):
    holder = type("Holder", (), {"__module__": "zray.roles.test_kept", "LASTING": {"part": ...}})()
    holder.part = Part(whole)
    before, holder.part.first[1] = left_of(holder, "OF_JOBS"), 1
    assert "Holder.part.first" not in before and left_of(holder, "OF_JOBS")["Holder.part.first"] == {1: 1}
    holder.part = Part(whole)
    assert "Holder.part.first" not in left_of(holder, "OF_JOBS")


def test_exceeded_bounds_are_those_with_more_than_their_limits(whole):
    assert list(exceeded_bounds_of(whole)) == []
    whole.records["two"].calls += [2, 3]
    whole.part.second += "def"
    whole.part.size = 6
    whole.records["two"].part = Part(whole)
    assert sorted(exceeded_bounds_of(whole)) == [
        ("Whole.part.second", 6, 5),
        ("Whole.part.size", 6, 5),
        ("Whole.records[two].calls", 3, 2),
    ]


def test_tables_that_are_not_empty_are_left(whole):
    whole.records["two"].calls.clear()
    assert left_of(whole, "PASSING") == {"Whole.records": whole.records, "Whole.records[01].calls": [1]}
    assert left_of(whole, "OF_JOBS") == {"Whole.part.second": deque("abc"), "Whole.part.size": 4}


def shard():
    shard = GcsShard("gcs-0")
    shard.tasks.keep(2, "gcs-0", ("n1/local",))
    return shard


ROLES = [
    lambda: Desk().scheduler,
    shard,
    lambda: ChainMember("n1/gcs-0", "gcs-0", "master", is_durable=True),
    lambda: GlobalScheduler("global", ["gcs-0"]),
    lambda: ObjectManager("objects", "local", capacity=1 << 20),
    lambda: Monitor("monitor", ["global"]),
]


def tables_in(part, met):
    """(class and attribute, table) of all tables of an object and its parts."""
    met.add(id(part))
    slots = [name for cls in type(part).__mro__ for name in getattr(cls, "__slots__", ())]
    for name in {**dict.fromkeys(slots), **getattr(part, "__dict__", {})}:
        value = getattr(part, name)
        if isinstance(value, (dict, list, deque, set)) and type(value) is not Latest:
            yield f"{type(part).__name__}.{name}", value
        elif type(value).__module__.startswith("zray.roles.") and id(value) not in met:
            yield from tables_in(value, met)


@pytest.mark.parametrize("make", ROLES)
def test_something_is_said_of_each_table_that_is_empty_at_first(make):
    role = make()
    rows = [(whole if row.part is None else row.part, row) for _, whole, rows in wholes_of(role) for row in rows.whole]
    said = {id(row.get(part)) for part, row in rows}
    found = {where for where, table in tables_in(role, set()) if not table and id(table) not in said}
    excepted = {name.replace("Role.", f"{type(role).__name__}.") for name in UNSAID}
    unsaid = sorted(found - excepted)
    assert not unsaid, f"PASSING, OF_JOBS or LASTING of their classes say nothing of {', '.join(unsaid)}"


def test_names_and_constants_are_those_of_the_code():
    for module in pkgutil.walk_packages(roles.__path__, "zray.roles."):
        for cls in vars(importlib.import_module(module.name)).values():
            if not isinstance(cls, type) or cls.__module__ != module.name:
                continue
            for kind in ("PASSING", "OF_JOBS", "LASTING"):
                for most in vars(cls).get(kind, {}).values():
                    there, _, name = str(most[1] if isinstance(most, tuple) else most).rpartition(".")
                    if name.isupper():
                        beside = f"{module.name.rpartition('.')[0]}.{there}" if there else module.name
                        assert hasattr(importlib.import_module(beside), name), f"{cls}: {most}"
