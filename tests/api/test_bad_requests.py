"""Requests without a meaning, or too large for a message, are refused where they are made (docs/security.md, B19)."""

import math
import sys
import threading
import traceback

import pytest

import zray
from zray import object_ref
from zray.exceptions import SerializationError
from zray.host.process.spawn import import_path

REQUESTS = {
    "negative": {"num_cpus": -1},
    "NaN": {"num_cpus": math.nan},
    "infinite": {"num_gpus": math.inf},
    "of another type": {"num_cpus": "1"},
    "a truth": {"num_cpus": True},
    "beyond all machines": {"num_cpus": 1e308},
    "a negative one of a kind": {"resources": {"disk": -0.5}},
    "NaN of a kind": {"resources": {"disk": math.nan}},
    "beyond all machines of a kind": {"resources": {"disk": 10**308}},
    "10,000 names": {"resources": {f"r{number}": 1 for number in range(10_000)}},
    "a name of 1 MB": {"resources": {"r" * (1 << 20): 1}},
    "no name": {"resources": {"": 1}},
    "a name that cannot be printed": {"resources": {"\x1b[2J": 1}},
    "a name with a NUL": {"resources": {"a\0b": 1}},
    "a name that turns the direction": {"resources": {"\u202egnp": 1}},
    "a name that is none": {"resources": {7: 1}},
    "a list": {"resources": ["disk"]},
}


def one():
    return 1


class Actor:
    pass


@pytest.mark.parametrize("options", REQUESTS.values(), ids=REQUESTS)
def test_it_is_an_error_of_the_caller_and_short(options):
    for ask in (
        lambda: zray.remote(**options)(one),
        lambda: zray.remote(one).options(**options),
        lambda: zray.remote(**options)(Actor),
        lambda: zray.remote(Actor).options(**options),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            ask()
        assert len(str(caught.value)) < 500 and str(caught.value).isprintable()


def test_more_refs_together_than_messages_can_name_are_refused_where_they_are_pickled(session, monkeypatch):
    """A message that the receiver would refuse is not built (docs/security.md, S10)."""
    monkeypatch.setattr(object_ref, "REFS_MAX", 10)
    refs = [zray.put(number) for number in range(11)]
    count = zray.remote(lambda *values: len(values))

    @zray.remote
    def captures():
        return len(refs)

    for ask in (lambda: zray.put(refs), lambda: count.remote(refs), lambda: count.remote(*refs), captures.remote):
        with pytest.raises(SerializationError, match="11 refs .* at most 10"):
            ask()
    assert zray.get([count.remote(refs[1:]), count.remote(*refs[1:])]) == [1, 10]


def test_the_names_of_code_are_as_long_as_they_like_and_are_cut(session):
    """Text that others see is cut to a length (docs/security.md, B28)."""

    def long():
        return 1

    long.__qualname__ = long.__name__ = "long" * 100_000
    assert zray.get(zray.remote(long).remote(), timeout=20) == 1
    kind = type("Kind", (), {"value": lambda self: 1, "__qualname__": "Kind" * 100_000})
    assert zray.get(zray.remote(kind).remote().value.remote(), timeout=20) == 1


def test_a_method_whose_name_no_message_has_is_refused(session):
    kind = type("Kind", (), {"m" * 100_000: lambda self: 1})
    with pytest.raises(ValueError, match="The name of a method has 100000 characters"):
        zray.remote(kind).remote()


def test_a_path_that_no_system_has_is_left_out(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, "/" + "x" * 100_000])
    assert import_path() and max(map(len, import_path())) < 100_000


class Unwilling:
    def __getstate__(self):
        raise RuntimeError("mine")


@pytest.mark.parametrize("value, is_theirs", [(threading.Lock(), False), (Unwilling(), True)], ids=["lock", "own"])
@pytest.mark.parametrize("way", ["put", "task"])
def test_what_cannot_be_pickled_is_said_in_few_lines_and_how_only_of_their_own_code(session, way, value, is_theirs):
    """Where zray and its picklers have noticed tells nobody anything."""
    give = zray.put if way == "put" else zray.remote(lambda value: value).remote
    with pytest.raises(SerializationError) as caught:
        give(value)
    text = "".join(traceback.format_exception(caught.value))
    assert ("RuntimeError: mine\n" in text) is is_theirs and ("cloudpickle.py" in text) is is_theirs
    assert len(caught.traceback) <= 3
