"""Actor classes in the program and in the actor's own code: attributes of the class, and what is no attribute."""

import copy
import functools
import inspect
from unittest import mock

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


class Base:
    inherited = "from the base"


@zray.remote
class Limits(Base):
    """Knows its limits."""

    TOP = 10
    options_of = {"a": 1}
    _name = "a name of its own"
    __version__ = "1.2"

    class Kind:
        """A class inside."""

    def __init__(self):
        self.count = 0

    def top(self):
        return Limits.TOP

    def others(self):
        """All kinds of attributes, by the name of the class."""
        return Limits.helper(2), Limits.made().count, Limits._name, Limits.Kind.__name__, Limits.inherited

    def by_hand(self):
        return Limits.top(self)

    def raise_top(self):
        """The new value, by the name of the class and by the instance."""
        Limits.TOP += 1
        return Limits.TOP, self.TOP

    def make(self):
        return zray.get(Limits.options(num_cpus=0).remote().top.remote())

    @staticmethod
    def helper(value):
        return value * Limits.TOP

    @classmethod
    def made(cls):
        return cls()

    @functools.lru_cache  # noqa: B019
    def cached(self):
        return self.count


def test_attributes_of_the_class_in_the_program():
    assert Limits.TOP == 10
    assert Limits.inherited == "from the base"
    assert Limits._name == "a name of its own"
    assert Limits.__version__ == "1.2"
    assert Limits.options_of is Limits.options(num_cpus=0).options_of
    assert Limits.Kind().__doc__ == "A class inside."
    with pytest.raises(AttributeError, match="'Limits' has no attribute 'none_such'"):
        _ = Limits.none_such
    assert not hasattr(Limits, "__wrapped__") and not hasattr(Limits, "__len__")


def test_static_and_class_methods_in_the_program():
    assert Limits.helper(3) == 30
    made = Limits.made()
    assert made.count == 0 and made.top() == 10


def test_attributes_of_the_class_in_its_own_methods():
    limits = Limits.remote()
    assert zray.get(limits.top.remote()) == 10
    assert zray.get(limits.others.remote()) == (20, 0, "a name of its own", "Kind", "from the base")
    assert zray.get(limits.by_hand.remote()) == 10
    assert zray.get(limits.raise_top.remote()) == (11, 11)
    assert zray.get(limits.make.remote()) == 11


def test_instance_methods_say_how_an_actor_is_made():
    for call in (Limits.top, Limits.top.remote, Limits.cached, lambda: Limits.top(5)):
        with pytest.raises(TypeError, match=r"is a method of actors: Limits\.remote\(\.\.\.\) creates an actor"):
            call()
    assert Limits.others.__doc__.startswith("All kinds")
    assert list(inspect.signature(Limits.raise_top).parameters) == ["self"]
    with pytest.raises(TypeError, match=r"Actors cannot be made directly: use Limits\.remote"):
        Limits()


def test_attributes_are_set_on_the_class():
    @zray.remote
    class Settings:
        rate = 1

        def read(self):
            return self.rate, Settings.rate

    Settings.rate = 5
    assert Settings.rate == 5
    with mock.patch.object(Settings, "rate", 7):
        assert Settings.rate == 7
    assert Settings.rate == 5
    assert zray.get(Settings.remote().read.remote()) == (5, 5)
    Settings.more = "set later"
    assert Settings.more == "set later"
    del Settings.more
    assert not hasattr(Settings, "more")


def test_names_that_zray_has_too():
    """Only remote, options and bind are those of the actor class."""

    @zray.remote
    class Busy:
        methods = ["a", "b"]
        _options, _cls, _code, _methods = "options", "cls", "code", "methods"

        def read(self):
            return Busy.methods, Busy._options, Busy._cls, Busy._code, Busy._methods

    assert Busy.methods == ["a", "b"]
    assert zray.get(Busy.remote().read.remote()) == (["a", "b"], "options", "cls", "code", "methods")


def test_copies_of_an_actor_class_and_its_names():
    for other in (copy.copy(Limits), copy.deepcopy(Limits), zray.get(zray.put(Limits))):
        assert other.helper(1) == 10
        assert zray.get(other.remote().top.remote()) == 10
    assert {"remote", "options", "TOP", "helper", "top", "inherited"} <= set(dir(Limits))
    assert (Limits.__name__, Limits.__qualname__, Limits.__doc__) == ("Limits", "Limits", "Knows its limits.")
    assert repr(Limits) == "ActorClass(Limits)"


@pytest.mark.parametrize("base", [Limits, Limits.options(num_cpus=1)])
def test_subclass_of_an_actor_class_is_refused(base):
    with pytest.raises(zray.exceptions.ActorClassInheritanceException, match="inherit from a plain class"):

        class Further(base):
            pass

    assert issubclass(zray.exceptions.ActorClassInheritanceException, TypeError)
    assert zray.actor.ActorClassInheritanceException is zray.exceptions.ActorClassInheritanceException
