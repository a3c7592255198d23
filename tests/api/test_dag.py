"""Lazy graphs: bind() adds nodes, execute() submits them."""

import asyncio

import pytest

import zray
from zray.dag import InputNode, MultiOutputNode

pytestmark = pytest.mark.usefixtures("session")


@zray.remote
def add(a, b=0):
    return a + b


@zray.remote
def total(values, more=None):
    return sum(zray.get(list(values))) + (zray.get(more["x"]) if more else 0)


@zray.remote
class Adder:
    def __init__(self, start=0):
        self.sum = start

    def inc(self, amount):
        self.sum += amount
        return self.sum

    def get(self):
        return self.sum

    @zray.method(num_returns=2)
    def pair(self):
        return self.sum, -self.sum


@zray.remote
def random_bytes():
    import os

    return os.urandom(8)


@zray.remote
def both(a, b):
    return a, b


def test_functions():
    graph = add.bind(add.bind(1, b=2), add.options(name="other").bind(3))
    assert zray.get(graph.execute()) == 6 and zray.get(graph.execute()) == 6
    assert repr(graph) == "FunctionNode(RemoteFunction(add))"
    (first, second), options = graph.get_args(), graph.get_kwargs()
    assert first.get_kwargs() == {"b": 2} and second.get_args() == (3,) and options == {}


def test_node_that_several_take_runs_once_per_execution():
    node = random_bytes.bind()
    graph = both.bind(node, node)
    first, second = zray.get(graph.execute()), zray.get(graph.execute())
    assert first[0] == first[1] and second[0] == second[1] and first != second


def test_nodes_in_collections_are_refs():
    """Refs are treated as in arguments of tasks."""
    graph = total.bind([add.bind(1), add.bind(2)], more={"x": add.bind(3)})
    assert zray.get(graph.execute()) == 6
    assert zray.get(total.bind((add.bind(1), add.bind(2))).execute()) == 3


def test_input():
    with InputNode() as number:
        graph = add.bind(add.bind(number, 1), number)
    assert zray.get([graph.execute(1), graph.execute(zray.put(10))]) == [3, 21]
    assert number.execute(5) == 5


def test_parts_of_the_input():
    with InputNode() as given:
        graph = add.bind(given[0], given.x)
        keys = add.bind(given["a"], given["b"])
    assert zray.get(graph.execute(1, x=2)) == 3
    assert zray.get(keys.execute({"a": 1, "b": 2})) == 3
    assert zray.get(keys.execute(a=1, b=2)) == 3

    class Point:
        x, y = 3, 4

    with InputNode() as point:
        assert zray.get(add.bind(point.x, point.y).execute(Point())) == 7


def test_input_that_does_not_fit():
    with InputNode() as given:
        whole = add.bind(given, 1)
    for use, said in (
        (lambda: whole.execute(), "has an InputNode"),
        (lambda: whole.execute(1, 2), "as a whole"),
        (lambda: add.bind(1).execute(1), "has no InputNode"),
        (lambda: given[1.5], "indexed by int or str"),
        (lambda: list(given), "not iterable"),
    ):
        with pytest.raises(TypeError, match=said):
            use()


def test_several_outputs():
    with InputNode() as given:
        graph = MultiOutputNode([add.bind(given, 1), add.bind(given, 2), given])
    first, second, third = graph.execute(1)
    assert zray.get([first, second]) == [2, 3] and third == 1
    for wrong in (1, [1], None):
        with pytest.raises(ValueError, match="list of nodes"):
            MultiOutputNode(wrong)


def test_actors_of_a_graph_run_all_calls_in_the_order_of_their_bind():
    one = Adder.bind(10)
    assert zray.get(one.get.bind().execute()) == 10
    other = Adder.bind(start=10)
    one.inc.bind(2)
    one.inc.bind(4)
    other.inc.bind(6)
    graph = add.bind(one.get.bind(), other.get.bind())
    assert zray.get(graph.execute()) == 32
    assert zray.get(graph.execute()) == 32  # by other actors
    assert repr(one.get.bind()) == "ClassMethodNode(get)"
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = one.nope


def test_actor_of_a_graph_takes_results_and_options():
    actor = Adder.options(num_cpus=0.1).bind(add.bind(1, 2))
    assert zray.get(actor.pair.bind().execute()) == [3, -3]
    assert zray.get(actor.pair.options(num_returns=1).bind().execute()) == (3, -3)
    assert zray.get(actor.execute().get.remote()) == 3


def test_calls_of_an_actor_that_is_there():
    actor = Adder.remote()
    with InputNode() as amount:
        graph = actor.inc.bind(actor.inc.bind(amount))
    assert zray.get(graph.execute(1)) == 2
    assert zray.get(graph.execute(1)) == 6
    assert zray.get(actor.get.remote()) == 6


def test_compiled_graph_runs_as_the_graph_itself():
    actor = Adder.remote()
    with InputNode() as amount:
        graph = MultiOutputNode([actor.inc.bind(amount), add.bind(amount, 1)]).experimental_compile()
    assert zray.get(graph.execute(1)) == [1, 2] and zray.get(graph.execute(2)) == [3, 3]

    async def run():
        return await asyncio.gather(*await graph.execute_async(3))

    assert asyncio.run(run()) == [6, 4]
    graph.teardown()
    with pytest.raises(RuntimeError, match="teardown"):
        graph.execute(1)


def test_long_chain():
    graph = add.bind(0, 1)
    for _ in range(2_000):
        graph = add.bind(graph, 1)
    assert zray.get(graph.execute(), timeout=40) == 2_001


def test_graph_inside_of_a_task():
    @zray.remote
    def inside():
        with InputNode() as number:
            graph = add.bind(add.bind(number, 1), 1)
        return zray.get(graph.execute(1))

    assert zray.get(inside.remote()) == 3


def test_error_of_a_node_is_that_of_what_takes_it():
    with pytest.raises(TypeError):
        zray.get(add.bind(add.bind("a", 1), 1).execute())
    with pytest.raises(TypeError, match="missing a required argument"):
        add.bind().execute()
