"""ObjectRef: what a name of a value can do."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import sys
import weakref
from concurrent.futures import Future

import pytest

from zray import object_ref
from zray.object_ref import ObjectID, ObjectRef, collect_refs, released

ID = bytes(range(20))


@pytest.fixture(autouse=True)
def fresh():
    object_ref.enable_releases()


def test_refs_are_values():
    ref = ObjectRef(ID)
    assert ObjectID is ObjectRef
    assert ref == ObjectRef(ID) and hash(ref) == hash(ObjectRef(ID)) and {ref: 1}[ObjectRef(ID)] == 1
    assert ref != ObjectRef(ID[::-1])
    assert ref.hex() == ID.hex() and ref.binary() == ID and ref.task_id() == ID[:16]
    assert repr(ref) == f"ObjectRef({ID.hex()})"
    assert weakref.ref(ref)() is ref
    with pytest.raises(AttributeError):
        ref.id = b""
    with pytest.raises(TypeError, match="zray.get"):
        iter(ref)


def test_a_ref_that_dies_is_said_once():
    ref = ObjectRef(ID)
    assert not released
    del ref
    assert list(released) == [ID]


def test_copies_are_counted(monkeypatch):
    told = []
    monkeypatch.setattr(object_ref, "on_restore", told.append)
    ref = ObjectRef(ID)
    assert copy.copy(ref) == copy.deepcopy([ref])[0] == ref
    assert told == [ID, ID]


def test_refs_can_be_awaited(monkeypatch):
    def resolve(ref):
        future = Future()
        future.set_result(("value of", ref.id))
        return future

    monkeypatch.setattr(object_ref, "resolve_future", resolve)

    async def main():
        ref = ObjectRef(ID)
        return await ref, await asyncio.wait_for(asyncio.shield(ref), 5), await asyncio.gather(ref)

    assert asyncio.run(main()) == (("value of", ID), ("value of", ID), [("value of", ID)])
    assert ObjectRef(ID).future().result(1) == ("value of", ID)


def test_without_a_runtime_there_is_no_value(monkeypatch):
    monkeypatch.setattr(object_ref, "resolve_future", None)
    with pytest.raises(RuntimeError, match="init"):
        ObjectRef(ID).future()


def test_nested_collections_stay_apart():
    one, two = ObjectRef(ID), ObjectRef(ID[::-1])
    with collect_refs() as outer:
        one.__reduce__()
        with collect_refs() as inner:
            two.__reduce__()
        one.__reduce__()
    assert list(outer) == [ID] and list(inner) == [ID[::-1]]


def test_a_forked_child_says_nothing_until_it_is_told_to():
    ref = ObjectRef(ID)
    child = os.fork()
    if child == 0:
        silent = not released
        del ref
        silent = silent and not released
        object_ref.enable_releases()
        ObjectRef(ID)
        os._exit(0 if silent and list(released) == [ID] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not released


def test_refs_alive_at_the_end_of_the_interpreter_are_quiet():
    script = "from zray.object_ref import ObjectRef; import builtins\nbuiltins.r = [ObjectRef(b'x' * 20)]; r.append(r)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=30)
    assert ended.stderr == b""
