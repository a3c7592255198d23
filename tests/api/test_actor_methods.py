"""Methods of actors: found on the class, whatever the instance has under their names."""

import functools

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


class Callable:
    def __call__(self, value):
        return "callable", value


def counted(function):
    """A decorator that keeps the function's own name and signature."""

    @functools.wraps(function)
    def inner(*args):
        return "counted", function(*args)

    return inner


class Base:
    def inherited(self):
        return "inherited", self.balance


class Account(Base):
    def __init__(self):
        self.balance = 100.0
        for name in ("inherited", "of_class", "static", "decorated", "callable"):
            setattr(self, name, "shadow")
        self.only_here = lambda: "instance"

    def balance(self):
        return "balance", self.balance

    @classmethod
    def of_class(cls, value):
        return "class", cls.__name__, value

    @staticmethod
    def static(value):
        return "static", value

    @counted
    def decorated(self):
        return self.balance

    def with_argument(self, value, more=1):
        return self.balance, value, more

    callable = Callable()

    def __call__(self):
        return "called"


class Async(Account):
    async def balance(self):
        return "balance", self.balance

    @classmethod
    async def of_class(cls, value):
        return "class", cls.__name__, value

    @staticmethod
    async def static(value):
        return "static", value


def account_of(kind):
    options = {"max_concurrency": 4} if kind == "threaded" else {}
    return zray.remote(num_cpus=0, **options)(Async if kind == "async" else Account).remote()


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_attribute_of_an_instance_does_not_hide_a_method(kind):
    account = account_of(kind)
    name = "Async" if kind == "async" else "Account"
    for _ in range(2):  # found, and found again
        refs = [
            account.balance.remote(), account.inherited.remote(), account.of_class.remote(1), account.static.remote(2),
            account.decorated.remote(), account.with_argument.remote(7), account.callable.remote(3),
            account.__call__.remote(),
        ]  # fmt: skip
        assert zray.get(refs, timeout=30) == [
            ("balance", 100.0), ("inherited", 100.0), ("class", name, 1), ("static", 2),
            ("counted", 100.0), (100.0, 7, 1), ("callable", 3), "called",
        ]  # fmt: skip


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_state_of_an_instance_is_what_its_methods_see(kind):
    account = account_of(kind)

    def withdraw(self):
        self.balance -= 25.0

    zray.get(account.__ray_call__.remote(withdraw), timeout=30)
    assert zray.get(account.balance.remote(), timeout=30) == ("balance", 75.0)


def test_constructor_that_makes_an_instance_of_another_class_serves_the_methods_of_that():
    class Real:
        def name(self):
            return "real"

    class Factory:
        def __new__(cls):
            return Real()

        def name(self):
            return "factory"

    assert zray.get(zray.remote(Factory).remote().name.remote(), timeout=30) == "real"


def test_proxy_that_passes_calls_on_serves_the_methods_it_does_not_have():
    class Target:
        def name(self):
            return "target"

    class Proxy:
        def __init__(self):
            self.target = Target()

        def __getattr__(self, name):
            return getattr(self.target, name)

    class Facade:
        def __new__(cls):
            return Proxy()

        def name(self):
            return "facade"

    assert zray.get(zray.remote(Facade).remote().name.remote(), timeout=30) == "target"


@zray.remote
class Partial:
    def add(self, one, other):
        return one + other

    add_five = functools.partialmethod(add, 5)

    @functools.lru_cache  # noqa: B019  the instance lives as long as the process
    def double(self, value):
        return 2 * value


def test_cached_and_partial_methods_are_called_with_their_own_arguments():
    actor = Partial.remote()
    assert zray.get([actor.add_five.remote(1), actor.double.remote(2), actor.double.remote(value=3)]) == [6, 4, 6]
    with pytest.raises(TypeError, match="double"):
        actor.double.remote()
