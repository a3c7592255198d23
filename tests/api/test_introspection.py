"""Signatures and docstrings as editors, notebooks and help() show them: the user's own."""

import functools
import inspect
import pydoc

import pytest

import zray
from zray.actor import ActorClass, ActorHandle, ActorMethod
from zray.object_ref import ObjectRef
from zray.remote_function import RemoteFunction


@zray.remote
def add(left: int, right: int = 2) -> int:
    """Add two numbers."""
    return left + right


@zray.remote
class Counter:
    """Count calls."""

    add = add

    def __init__(self, start: int = 0):
        self.count = start

    def step(self, by: int = 1, *, note: str = "") -> int:
        """Count on."""
        self.count += by
        return self.count

    @staticmethod
    def name(prefix):
        """Name of all counters."""
        return prefix

    @zray.method(num_returns=2)
    def pair(self):
        return self.count, self.count


@zray.remote
def echo(refs):
    return refs


@pytest.fixture(scope="module")
def counter(nothing_left):
    with zray.init(num_cpus=1):
        yield Counter.remote(3)


def shown(thing):
    return str(inspect.signature(thing))


REF, REFS, HANDLE = (f" -> {inspect.formatannotation(kind)}" for kind in (ObjectRef, list[ObjectRef], ActorHandle))


def test_signature_of_a_remote_function_is_that_of_the_function():
    assert shown(add) == "(left: int, right: int = 2) -> int"
    assert shown(add.remote) == "(left: int, right: int = 2)" + REF
    assert shown(add.options(num_returns=3).remote) == "(left: int, right: int = 2)" + REFS
    assert shown(add.options(num_returns=0).remote) == "(left: int, right: int = 2) -> None"
    assert inspect.getdoc(add) == "Add two numbers."


def test_signature_of_an_actor_class_is_that_of_its_constructor():
    assert shown(Counter) == shown(Counter.remote) == "(start: int = 0)" + HANDLE
    assert shown(zray.remote(type("Plain", (), {})).remote) == "()" + HANDLE
    assert inspect.getdoc(Counter) == "Count calls."


def test_signatures_of_actor_methods_are_those_of_the_class(counter):
    assert shown(counter.step) == "(by: int = 1, *, note: str = '') -> int"
    assert shown(counter.step.remote) == "(by: int = 1, *, note: str = '')" + REF
    assert shown(counter.name.remote) == "(prefix)" + REF
    assert shown(counter.pair.remote) == "()" + REFS
    assert shown(counter.pair.options(num_returns=1).remote) == "()" + REF
    assert inspect.getdoc(counter.step) == "Count on."
    assert inspect.getdoc(counter.name) == "Name of all counters."
    assert repr(counter.step) == "ActorMethod(Counter.step)"


def test_handle_that_was_passed_on_knows_the_parameters(counter):
    (other,) = zray.get(echo.remote([counter]))
    assert shown(other.step) == "(by=..., *, note=...)"
    assert shown(other.step.remote) == "(by=..., *, note=...)" + REF
    assert inspect.getdoc(other.step) is None
    assert zray.get(other.step.remote(0)) == zray.get(counter.step.remote(0))


def test_dir_of_a_handle_has_the_methods_of_the_actor(counter):
    assert dir(counter) == ["__ray_call__", "__ray_ready__", "__ray_terminate__", "add", "name", "pair", "step"]
    assert dir(add) == ["bind", "local", "options", "remote"]
    assert dir(counter.step) == ["bind", "options", "remote"]


def test_help_shows_signature_and_docstring(counter):
    for thing, first in (
        (add, "add(left: int, right: int = 2) -> int\n    Add two numbers."),
        (add.remote, f"remote(left: int, right: int = 2){REF} "),
        (Counter.remote, f"remote(start: int = 0){HANDLE} "),
        (counter.step, "step(by: int = 1, *, note: str = '') -> int\n    Count on."),
        (counter.step.remote, f"remote(by: int = 1, *, note: str = ''){REF} "),
    ):
        text = pydoc.render_doc(thing, renderer=pydoc.plaintext)
        assert first in text, text


def test_parameters_of_what_python_cannot_inspect_are_any(counter):
    function = zray.remote(getattr)
    assert shown(function.remote) == "(*args, **kwargs)" + REF
    assert shown(counter.__ray_ready__) == "(*args, **kwargs)"


def test_classes_themselves_have_docstrings_and_signatures():
    for cls in (RemoteFunction, ActorClass, ActorMethod):
        assert isinstance(cls.__doc__, str)
        assert "args" in shown(cls.remote)
        assert "self" in pydoc.render_doc(cls, renderer=pydoc.plaintext)
    assert list(inspect.signature(ActorMethod).parameters) == ["handle", "name", "options"]


def test_wrapper_of_remote_takes_any_arguments():
    @functools.wraps(add.remote)
    def submit(*args, **kwargs):
        return add.remote(*args, **kwargs)

    assert shown(submit) == "(*args, **kwargs)"


def test_remote_function_in_a_class_stays_a_remote_function(counter):
    assert Counter.add is add
    assert zray.get(Counter.add.remote(1)) == 3


def test_remote_is_a_plain_method():
    """A descriptor of Python's would cost more than the rest of some calls."""
    for cls in (RemoteFunction, ActorMethod, ActorClass):
        assert inspect.isfunction(vars(cls)["remote"])
    assert "remote" not in vars(add)
