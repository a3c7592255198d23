"""Actors: state, order, handles, names, options, and how they end."""

import copy
import os

import numpy as np
import pytest

import zray
from tests.gates import Tally, until

pytestmark = pytest.mark.usefixtures("session")

ActorDiedError = zray.exceptions.ActorDiedError


@zray.remote
class Counter:
    """Counts."""

    def __init__(self, start=0):
        self.count = start

    def add(self, amount=1):
        self.count += amount
        return self.count

    def value(self):
        return self.count

    def pid(self):
        return os.getpid()

    def fail(self, kind=ValueError):
        raise kind("on purpose")

    def wait_at(self, gate):
        gate.wait()
        return self.count

    @zray.method(num_returns=2)
    def pair(self):
        return self.count, -self.count


@zray.remote
def identity(value):
    return value


def test_an_actor_keeps_its_state():
    counter = Counter.remote(5)
    assert zray.get([counter.add.remote(), counter.add.remote(amount=2)]) == [6, 8]
    assert zray.get(counter.value.remote()) == 8


def test_methods_with_names_of_pythons_own():
    @zray.remote
    class Shelf:
        def __init__(self):
            self.things = ["a"]

        def __len__(self):
            return len(self.things)

        def __getitem__(self, index):
            return self.things[index]

        def __deepcopy__(self, memo):
            raise AssertionError("a handle is copied, not the actor")

        async def __aenter__(self):
            return self

    shelf = Shelf.remote()
    assert zray.get([shelf.__len__.remote(), shelf.__getitem__.remote(0)]) == [1, "a"]
    assert copy.deepcopy(shelf) == shelf
    with pytest.raises(AttributeError, match="no method '__contains__'"):
        _ = shelf.__contains__


def test_two_actors_are_strangers():
    one, two = Counter.remote(), Counter.remote(100)
    assert zray.get([one.add.remote(), two.add.remote()]) == [1, 101]
    assert zray.get(one.pid.remote()) != zray.get(two.pid.remote())


def test_references_pass_between_actors_and_tasks():
    counter = Counter.remote()
    total = counter.add.remote(identity.remote(3))
    assert zray.get(identity.remote(total)) == 3
    assert zray.get(counter.add.remote(counter.add.remote(1))) == 8


def test_large_arrays_into_and_out_of_an_actor():
    @zray.remote
    class Holder:
        def hold(self, array):
            self.array = array
            return array.nbytes

        def half(self):
            return self.array[: len(self.array) // 2]

    holder = Holder.remote()
    array = np.arange(1_000_000.0)
    assert zray.get(holder.hold.remote(array)) == array.nbytes
    assert np.array_equal(zray.get(holder.half.remote()), array[:500_000])


def test_handles_pass_to_tasks_to_actors_and_through_objects():
    @zray.remote
    def add_through(handle):
        return zray.get(handle.add.remote())

    @zray.remote
    class Relay:
        def __init__(self, handles):
            self.handle = handles["counter"]

        def add(self):
            return zray.get(self.handle.add.remote())

    counter = Counter.remote()
    assert zray.get(add_through.remote(counter)) == 1
    assert zray.get(Relay.remote({"counter": counter}).add.remote()) == 2
    (copy,) = zray.get(zray.put([counter]))
    assert zray.get(copy.add.remote()) == 3


def test_an_actor_made_by_a_task_lives_while_its_handle_does():
    @zray.remote
    def make(start):
        return Counter.remote(start)

    counter = zray.get(make.remote(7))
    assert zray.get(counter.add.remote()) == 8


def test_an_actor_knows_its_own_handle():
    @zray.remote
    class Selfish:
        def me(self):
            return zray.get_runtime_context().current_actor

        def value(self):
            return 5

    selfish = Selfish.remote()
    assert zray.get(zray.get(selfish.me.remote()).value.remote()) == 5


def test_method_without_options_is_the_method_itself():
    class Counter:
        @zray.method
        def add(self, number):
            return number + 1

    assert Counter().add(1) == 2
    assert zray.get(zray.remote(Counter).remote().add.remote(1)) == 2
    with pytest.raises(ValueError, match="takes a method, or options"):
        zray.method(2)


def test_several_returns_by_method_and_by_options():
    counter = Counter.remote(3)
    assert zray.get(counter.pair.remote()) == [3, -3]
    assert zray.get(counter.pair.options(num_returns=1).remote()) == (3, -3)


def test_direct_use_is_refused_with_the_right_spelling():
    with pytest.raises(TypeError, match=r"\.remote\("):
        Counter(1)
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"\.remote\("):
        counter.add(1)


def test_an_unknown_method_is_refused_here():
    with pytest.raises(AttributeError):
        Counter.remote().subtract.remote()


def test_wrong_arguments_are_refused_at_the_call():
    with pytest.raises(TypeError, match=r"^Counter\.remote\(\): "):
        Counter.remote(1, 2)
    with pytest.raises(TypeError, match=r"^Counter\.add\.remote\(\): "):
        Counter.remote().add.remote(1, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"no_such_option": 1},
        {"num_cpus": -1},
        {"max_restarts": -2},
        {"max_task_retries": -2},
        {"max_concurrency": 0},
        {"name": ""},
    ],
    ids=str,
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ValueError):
        Counter.options(**options).remote()


def test_an_error_leaves_the_actor_alive():
    counter = Counter.remote()
    failed, added = counter.fail.remote(KeyError), counter.add.remote()
    with pytest.raises(KeyError):
        zray.get(failed)
    assert zray.get(added) == 1


def test_an_error_of_the_constructor_is_in_every_call():
    @zray.remote
    class Broken:
        def __init__(self):
            raise KeyError("no such part")

        def use(self):
            return 1

    broken = Broken.remote()
    for _ in range(2):
        with pytest.raises(ActorDiedError, match="no such part"):
            zray.get(broken.use.remote())


def test_inheritance_from_plain_classes_static_and_class_methods():
    class Base:
        def __init__(self):
            self.base = "base"

        def inherited(self):
            return self.base, self.overridden()

        def overridden(self):
            return 1

    @zray.remote
    class Derived(Base):
        def overridden(self):
            return 2

        @staticmethod
        def static(x):
            return x

        @classmethod
        def of_class(cls, x):
            return cls.__name__, x

    derived = Derived.remote()
    assert zray.get(derived.inherited.remote()) == ("base", 2)
    assert zray.get(derived.static.remote(3)) == 3
    assert zray.get(derived.of_class.remote(4)) == ("Derived", 4)


def test_an_actor_class_cannot_be_inherited_from():
    with pytest.raises(TypeError):

        class Derived(Counter):
            pass


def test_a_class_with_options_and_options_of_an_instance():
    small = zray.remote(num_cpus=0.5)(type("Small", (), {"value": lambda self: 1}))
    assert zray.get(small.remote().value.remote()) == 1
    assert zray.get(Counter.options(num_cpus=0).remote(3).value.remote()) == 3


def test_more_actors_than_cpus():
    """An actor needs a CPU to be placed and none to run, unless it asks for some."""
    counters = [Counter.remote(i) for i in range(8)]
    assert zray.get([counter.add.remote() for counter in counters]) == list(range(1, 9))


def test_what_an_actor_asks_for_it_holds_for_life():
    until(lambda: zray.available_resources().get("CPU") == 2.0)
    counter = Counter.options(num_cpus=1.5).remote()
    zray.get(counter.value.remote())
    assert zray.available_resources()["CPU"] == 0.5
    zray.kill(counter)
    until(lambda: zray.available_resources().get("CPU") == 2.0)


def test_several_calls_at_once_in_threads(gate, tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(max_concurrency=3)
    class Threaded:
        def enter(self):
            tally.visit()
            gate.wait()

        def open(self):
            gate.open()

    threaded = Threaded.remote()
    refs = [threaded.enter.remote() for _ in range(3)]
    until(lambda: tally.count() == 3)
    refs.append(threaded.enter.remote())
    assert zray.wait(refs, timeout=0.1)[0] == []
    assert tally.count() == 3
    gate.open()
    zray.get(refs)


def test_a_function_is_applied_to_the_instance_and_readiness_is_asked_for():
    counter = Counter.remote(5)
    zray.get(counter.__ray_ready__.remote())
    assert zray.get(counter.__ray_call__.remote(lambda self, x: self.count * x, 3)) == 15


def test_the_runtime_context_of_an_actor():
    @zray.remote
    class Observer:
        def observe(self):
            context = zray.get_runtime_context()
            return context.get_actor_id(), context.get_actor_name(), context.get_task_id()

    observer = Observer.options(name="observer").remote()
    actor_id, name, task_id = zray.get(observer.observe.remote())
    assert actor_id and name == "observer"
    assert task_id != zray.get(observer.observe.remote())[2]


def test_a_failed_call_consumes_its_number():
    """The order goes on after a call whose argument failed."""

    @zray.remote
    def fail():
        raise KeyError("argument")

    counter = Counter.remote()
    refs = [counter.add.remote(), counter.add.remote(fail.remote()), counter.add.remote()]
    assert zray.get(refs[0]) == 1
    with pytest.raises(KeyError):
        zray.get(refs[1])
    assert zray.get(refs[2]) == 2


def test_handles_of_one_actor_are_equal():
    counter = Counter.remote()
    (copy,) = zray.get(zray.put([counter]))
    assert counter == copy and len({counter, copy}) == 1


def test_an_actor_that_calls_itself():
    """Sent on, it runs later; waited for by the only thread, it would wait for ever: a timeout, no crash."""

    @zray.remote
    class Selfish:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

        def send(self, me):
            return [me.add.remote()]

        def wait(self, me):
            try:
                return zray.get(me.add.remote(), timeout=0.1)
            except zray.exceptions.GetTimeoutError:
                return "timeout"

    selfish = Selfish.remote()
    (later,) = zray.get(selfish.send.remote(selfish))
    assert zray.get(later) == 1
    assert zray.get(selfish.wait.remote(selfish)) == "timeout"
    assert zray.get(selfish.add.remote()) == 3


def test_a_threaded_actor_may_wait_for_itself():
    @zray.remote(max_concurrency=2)
    class Selfish:
        def outer(self, me):
            return 1 + zray.get(me.inner.remote())

        def inner(self):
            return 1

    selfish = Selfish.remote()
    assert zray.get(selfish.outer.remote(selfish)) == 2


def test_children_of_a_constructor_and_of_threads_of_an_actor_have_different_ids():
    @zray.remote
    class Parent:
        def __init__(self):
            self.values = zray.get([identity.remote(i) for i in range(3)])

        def from_a_thread(self):
            import threading

            found = []
            thread = threading.Thread(target=lambda: found.extend(zray.get([identity.remote(i) for i in "abc"])))
            thread.start()
            thread.join()
            return self.values + found

    assert zray.get(Parent.remote().from_a_thread.remote()) == [0, 1, 2, "a", "b", "c"]


def test_arguments_by_name_are_checked_too():
    counter = Counter.remote()
    with pytest.raises(TypeError, match="amuont"):
        counter.add.remote(amuont=1)
    (copy,) = zray.get(zray.put([counter]))
    with pytest.raises(TypeError):
        copy.add.remote(1, amount=2)
