"""What cannot be unpickled: the error names the class or module that fails, and what helps."""

from __future__ import annotations

import os
import sys
import types

import pytest

from tests.store.peer import program
from zray.exceptions import DeserializationError
from zray.store import unpickling
from zray.store.functions import deserialize_function, serialize_function
from zray.store.values import deserialize, deserialize_writable, serialize, to_bytes


class NeedsTwo(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


class FailsToBeSet:
    def __setstate__(self, state):
        raise KeyError("no state")

    def __getstate__(self):
        return {"a": 1}


class FailsInPython(Exception):
    def __init__(self, *args):
        if not args:
            raise ValueError("needs more")
        super().__init__()


class ByFactory:
    def __reduce__(self):
        return factory, (5,)


class ByC:
    def __reduce__(self):
        return int, ("no number",)


def factory(number):
    raise OSError(f"no file {number}")


BY_VALUE = """
class Local(Exception):
    def __init__(self, one, two):
        super().__init__(one)
"""


@pytest.fixture
def module():
    """A module that is here when a value is pickled; `sys.modules` is without it afterwards."""
    name = "module_of_this_test"
    module = types.ModuleType(name)
    exec("class Thing:\n    pass\nclass Failure(Exception):\n    pass\ndef function(): return 1", module.__dict__)
    for value in vars(module).values():
        if hasattr(value, "__module__"):
            value.__module__ = name
    sys.modules[name] = module
    yield module
    sys.modules.pop(name, None)


@pytest.fixture
def on_node(monkeypatch):
    monkeypatch.setattr(unpickling, "node", "abcdef0123456789")
    monkeypatch.setattr(unpickling, "is_driver", False)


def error_of(data, read=deserialize):
    with pytest.raises(DeserializationError) as caught:
        read(data)
    assert f"process {os.getpid()}" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: NeedsTwo(1, 2), ("TypeError", "is test_unpickling.NeedsTwo.", "super().__init__()")),
        (lambda: [1, {"a": FailsToBeSet()}], ("KeyError", "test_unpickling.FailsToBeSet (in __setstate__)")),
        (lambda: FailsInPython(1), ("needs more", "test_unpickling.FailsInPython (in __init__)")),
        (ByFactory, ("no file 5", "test_unpickling.factory.")),
        (lambda: program(BY_VALUE)["Local"](1, 2), ("TypeError", "is __main__.Local.")),
        (lambda: [ByC(), NeedsTwo], ("no number", "It holds test_unpickling.NeedsTwo.")),
    ],
    ids=["init", "setstate", "init in Python", "factory", "by value", "unknown"],
)
def test_class_that_fails_is_named(make, words):
    for value in (make(), [b"x" * 100_000, make()]):
        text = error_of(to_bytes(serialize(value)))
        assert all(word in text for word in words), text


@pytest.mark.parametrize("make", [lambda m: m.Thing(), lambda m: m.Failure("x"), lambda m: [1, m.Thing], lambda m: m])
def test_module_that_is_missing_is_named_with_its_node_and_what_helps(module, on_node, make):
    value = make(module)
    data = to_bytes(serialize(value))
    del sys.modules[module.__name__]
    text = error_of(data)
    assert "Module 'module_of_this_test' is missing on node abcdef01." in text and "py_modules" in text
    if value is not module:
        assert "It needs module_of_this_test." in text


def test_module_that_is_missing_in_the_program_is_to_be_installed_there(module, on_node, monkeypatch):
    monkeypatch.setattr(unpickling, "is_driver", True)
    data = to_bytes(serialize(module.Thing()))
    del sys.modules[module.__name__]
    text = error_of(data)
    assert "in this program, on node abcdef01: install it for" in text and "py_modules" not in text


def test_module_without_the_name_is_another_version(module):
    data = to_bytes(serialize(module.Thing()))
    thing = module.Thing
    del module.Thing
    assert "It needs module_of_this_test.Thing" in error_of(data) and "version" in error_of(data)
    module.Thing = thing
    assert type(deserialize(data)) is thing


def test_function_whose_module_is_missing_is_told_in_the_same_way(module, on_node):
    code, _ = serialize_function(module.function)
    del sys.modules[module.__name__]
    text = error_of(code, deserialize_function)
    assert text.startswith("A function of") and "It needs module_of_this_test.function." in text
    assert "is missing on node abcdef01." in text


def test_module_that_fails_when_it_is_imported_is_named(module, tmp_path, monkeypatch):
    data = to_bytes(serialize(module.Thing()))
    del sys.modules[module.__name__]
    (tmp_path / f"{module.__name__}.py").write_text("import no_such_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    text = error_of(data)
    assert "It needs module_of_this_test.Thing." in text and "'no_such_dependency' is missing" in text


@pytest.mark.parametrize(
    "text, words",
    [
        ("def broken(:\n    pass\n", ("SyntaxError", ".py:1 is no Python for Python 3.")),
        (
            "import os\nraise ValueError('not here')\n",
            ("ValueError: not here", "fails while it is imported, at ", ".py:2."),
        ),
        ("from os import no_such_name\n", ("ImportError", "install the same versions everywhere")),
    ],
    ids=["syntax", "raises", "import of a name"],
)
def test_module_that_does_not_load_is_told_without_advice_for_classes(module, tmp_path, monkeypatch, text, words):
    data = to_bytes(serialize(module.Failure("x")))
    del sys.modules[module.__name__]
    (tmp_path / f"{module.__name__}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    said = error_of(data)
    assert all(word in said for word in words) and "__reduce__" not in said, said


@pytest.mark.parametrize("make", [ByFactory, FailsToBeSet])
def test_advice_for_constructors_is_given_for_these_only(make):
    text = error_of(to_bytes(serialize(make())))
    assert "super().__init__()" not in text, text


def test_value_with_arrays_says_the_same_when_it_is_read_as_writable():
    import numpy

    data = to_bytes(serialize([numpy.zeros(100_000), NeedsTwo(1, 2)]))
    assert error_of(data, deserialize_writable) == error_of(data)


def test_class_at_the_start_of_a_large_value_is_named():
    text = error_of(to_bytes(serialize([NeedsTwo(1, 2), [str(number) for number in range(400_000)]])))
    assert "is test_unpickling.NeedsTwo." in text


def test_bytes_that_are_no_pickle_say_so():
    for data in (b"\x80\x05", b"\x80\x05garbage", b"\x80\x05\x93."):
        assert "cannot be unpickled" in error_of(data)
