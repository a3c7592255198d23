"""Exceptions and values that do not pickle where they are, or do not unpickle where they arrive: errors say which."""

import sys
import threading
import types

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


class NeedsTwo(Exception):
    def __init__(self, one, two):
        super().__init__(one)


@zray.remote
def identity(value):
    return value


@zray.remote
class Keeper:
    def keep(self, value):
        return value


def thing_of(name):
    """An instance of a class whose module no other process has."""
    module = types.ModuleType(name)
    exec("class Thing:\n    pass", module.__dict__)
    module.Thing.__module__ = name
    sys.modules[name] = module
    return module.Thing()


def error_of(ref):
    with pytest.raises(zray.exceptions.RayError) as caught:
        zray.get(ref, timeout=30)
    return caught.value


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_group_with_an_exception_that_does_not_pickle():
    @zray.remote
    def several():
        class Unsent(Exception):
            def held(self):
                return made

        made = threading.Lock()
        raise ExceptionGroup("several", [Unsent("stays"), KeyError("arrives")])  # noqa: F821

    error = error_of(several.remote())
    assert isinstance(error, ExceptionGroup)  # noqa: F821
    stand_in, key = error.exceptions
    assert type(stand_in) is zray.exceptions.ZrayError and key.args == ("arrives",)
    assert "isn't serializable" in str(stand_in) and "Unsent: stays" in str(stand_in)


def test_exception_that_does_not_pickle_has_a_cause_that_says_so():
    @zray.remote
    def raise_unsent():
        class Unsent(Exception):
            def held(self):
                return made

        made = threading.Lock()
        raise Unsent("stays there")

    error = error_of(raise_unsent.remote())
    assert type(error.cause) is zray.exceptions.ZrayError and "Unsent: stays there" in str(error)
    assert "isn't serializable" in str(error.cause) and "Unsent: stays there" in str(error.cause)


def test_exception_as_a_value_that_does_not_unpickle_is_named():
    name = f"{__name__}.NeedsTwo"
    node = zray.nodes()[0]["NodeID"][:8]
    for ref in (zray.put(NeedsTwo(1, 2)), identity.remote(NeedsTwo(1, 2)), Keeper.remote().keep.remote(NeedsTwo(1, 2))):
        error = error_of(ref)
        assert isinstance(error, zray.exceptions.DeserializationError)
        assert f"on node {node}" in str(error) and name in str(error) and "super().__init__()" in str(error)


def test_argument_whose_module_is_missing_in_the_worker_is_named():
    node = zray.nodes()[0]["NodeID"][:8]
    thing = thing_of("module_of_the_program")
    for ref in (identity.remote(thing), identity.remote(zray.put([thing])), Keeper.remote().keep.remote(thing)):
        text = str(error_of(ref))
        assert "It needs module_of_the_program.Thing." in text
        assert f"Module 'module_of_the_program' is missing on node {node}." in text and "py_modules" in text


def test_result_whose_module_is_missing_in_the_program_is_named():
    @zray.remote
    def make():
        return thing_of("module_of_the_worker")

    @zray.remote
    def raise_with():
        error = ValueError("with a thing")
        error.thing = thing_of("module_of_the_worker")
        raise error

    text = str(error_of(make.remote()))
    assert "It needs module_of_the_worker.Thing." in text and "in this program" in text and sys.executable in text
    error = error_of(raise_with.remote())
    assert "with a thing" in str(error) and "It needs module_of_the_worker.Thing." in str(error.cause)
