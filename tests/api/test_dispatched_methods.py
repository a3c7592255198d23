"""functools.singledispatchmethod as a method of an actor."""

import functools
import inspect

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


class Describes:
    def __init__(self, mark="!"):
        self.mark = mark

    @functools.singledispatchmethod
    def describe(self, value, more=""):
        return f"something{more}{self.mark}"

    @describe.register
    def _(self, value: int, more=""):
        return f"int{more}{self.mark}"

    @describe.register(list)
    def _of_list(self, value, more=""):
        return f"list{more}{self.mark}"

    described_int = functools.partialmethod(_of_list, [])


class AsyncDescribes(Describes):
    @functools.singledispatchmethod
    async def later(self, value):
        return f"something{self.mark}"

    @later.register
    async def _(self, value: int):
        return f"int{self.mark}"


class Derived(Describes):
    """Inherits a method that the class itself does not have."""


@pytest.mark.parametrize("cls", [Describes, Derived, AsyncDescribes])
def test_call_goes_to_the_implementation_for_the_type_of_its_argument(cls):
    actor = zray.remote(cls).remote()
    for _ in range(2):
        refs = [actor.describe.remote(value) for value in (1.5, 1, [1])]
        assert zray.get(refs, timeout=30) == ["something!", "int!", "list!"]
        assert zray.get(actor.describe.remote(zray.put(3), more="?"), timeout=30) == "int?!"
    assert zray.get(actor.described_int.remote(more="-"), timeout=30) == "list-!"


def test_async_implementations_are_awaited():
    actor = zray.remote(AsyncDescribes).remote("*")
    refs = [actor.later.remote(value) for value in (1.5, 1)]
    assert zray.get(refs, timeout=30) == ["something*", "int*"]


def test_wrong_call_is_refused_where_it_is_made():
    actor = zray.remote(Describes).remote()
    with pytest.raises(TypeError, match="describe"):
        actor.describe.remote()
    with pytest.raises(TypeError, match="describe"):
        actor.describe.remote(1, other=2)


def test_dispatched_method_can_be_called_from_another_process():
    @zray.remote
    def use(actor):
        return zray.get(actor.describe.remote([2]))

    assert zray.get(use.remote(zray.remote(Describes).remote()), timeout=30) == "list!"


class Optioned:
    @zray.method(num_returns=2)
    @functools.singledispatchmethod
    def outside(self, value):
        return "other", value

    @outside.register
    def _(self, value: int):
        return "int", value

    @functools.singledispatchmethod
    @zray.method(num_returns=2)
    def inside(self, value):
        return "other", value


def test_options_of_a_dispatched_method_hold():
    actor = zray.remote(Optioned).remote()
    first, second = actor.outside.remote(3)
    assert zray.get([first, second], timeout=30) == ["int", 3]
    first, second = actor.inside.remote("a")
    assert zray.get([first, second], timeout=30) == ["other", "a"]


def test_class_of_main_with_a_dispatched_method_travels():
    class Here:
        @functools.singledispatchmethod
        def name(self, value):
            return "other"

        @name.register
        def _(self, value: str):
            return "str"

    actor = zray.remote(Here).remote()
    assert zray.get([actor.name.remote(1), actor.name.remote("a")], timeout=30) == ["other", "str"]


class Uneven:
    @functools.singledispatchmethod
    def take(self, value):
        return value

    @take.register
    def _(self, value: int, factor):
        return value * factor

    @functools.singledispatchmethod
    @classmethod
    def of_class(cls, value):
        return cls.__name__, value

    @of_class.register
    @classmethod
    def _(cls, value: int):
        return cls.__name__, value + 1


def test_implementations_may_take_different_arguments():
    actor = zray.remote(Uneven).remote()
    assert zray.get([actor.take.remote(2, factor=3), actor.take.remote("a")], timeout=30) == [6, "a"]
    assert zray.get([actor.of_class.remote(1), actor.of_class.remote("a")], timeout=30) == [
        ("Uneven", 2),
        ("Uneven", "a"),
    ]
    with pytest.raises(TypeError, match="factor"):
        zray.get(actor.take.remote(2), timeout=30)


def test_signature_of_a_dispatched_method_is_that_of_its_implementations():
    actor = zray.remote(Describes).remote()
    assert list(inspect.signature(actor.describe.remote).parameters) == ["value", "more"]


def test_dispatching_function_of_a_program_travels():
    @functools.singledispatch
    def depth(value):
        return 0

    @depth.register
    def _(value: list):
        return 1 + max(map(depth, value), default=0)

    depth.note = "of the user"

    @zray.remote
    def measure(value):
        return depth(value), depth.note, depth.__name__

    assert zray.get(measure.remote([[], [[]]]), timeout=30) == (3, "of the user", "depth")
