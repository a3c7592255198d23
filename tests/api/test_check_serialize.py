"""zray.util.inspect_serializability: which part of a value cannot be sent."""

import io
import threading

import pytest

import zray
from zray.util import check_serialize, inspect_serializability


class Model:
    def __init__(self, lock):
        self.name = "model"
        self.parts = {"deep": [lock]}


def inspected(value, **arguments):
    file = io.StringIO()
    is_sound, failures = inspect_serializability(value, print_file=file, **arguments)
    return is_sound, failures, file.getvalue()


@pytest.mark.parametrize("value", [1, [zray.ObjectRef], lambda: 3, Model(None)])
def test_sound_value(value):
    is_sound, failures, text = inspected(value)
    assert (is_sound, failures) == (True, set())
    assert "Checking Serializability" in text and "FAIL" not in text


def test_lock_in_a_closure_is_found():
    lock = threading.Lock()

    def train():
        return lock

    is_sound, failures, text = inspected(train)
    assert not is_sound
    (failure,) = failures
    assert failure.obj is lock and failure.parent is train and failure.name == "closure 'lock'"
    assert "FAIL serialization of" in text and "closure 'lock'" in text and "cannot be serialized" in text


def test_two_parts_are_found_as_deep_as_asked_for():
    one, other = threading.Lock(), threading.Lock()
    value = {"model": Model(one), "other": other}
    _, failures, _ = inspected(value, depth=5)
    assert {id(failure.obj) for failure in failures} == {id(one), id(other)}
    _, failures, _ = inspected(value, depth=1)
    assert {id(failure.obj) for failure in failures} == {id(value["model"]), id(other)}


def test_result_is_printed_on_standard_output(capsys):
    assert check_serialize.inspect_serializability(threading.Lock(), name="my lock")[0] is False
    assert "FAIL serialization of my lock" in capsys.readouterr().out


def test_value_that_contains_itself():
    value = [threading.Lock()]
    value.append(value)
    assert inspected(value)[0] is False
