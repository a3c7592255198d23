"""Generators that other nodes run, and items that are lost with a node."""

import itertools
import os
import select
from pathlib import Path

import numpy as np
import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cluster(nothing_left):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=2, resources={"far": 2})
    cluster.wait_for_nodes()
    with zray.init(address=cluster.address):
        yield cluster
    cluster.shutdown()


@zray.remote(resources={"far": 1})
def far(count, size=0):
    for number in range(count):
        yield np.full(size, number) if size else number


@zray.remote(num_cpus=0, resources={"far": 1})
class Far:
    def items(self, count, size=0):
        for number in range(count):
            yield np.full(size, number) if size else number


def first_of(refs):
    return [int(zray.get(ref)[0]) for ref in refs]


def test_items_of_another_nodes_task_come_in_order(cluster):
    assert [zray.get(ref) for ref in far.remote(2000)] == list(range(2000))
    assert first_of(far.remote(4, 100_000)) == [0, 1, 2, 3]


def test_items_of_another_nodes_actor_come_in_order(cluster):
    actor = Far.remote()
    assert [zray.get(ref) for ref in actor.items.remote(2000)] == list(range(2000))
    assert first_of(actor.items.remote(4, 100_000)) == [0, 1, 2, 3]


def test_items_with_refs_inside_come_from_another_node(cluster):
    @zray.remote(resources={"far": 1})
    def nested(count):
        for number in range(count):
            yield [zray.put(number)] if number % 2 else number

    values = [zray.get(ref) for ref in nested.remote(6)]
    assert [zray.get(value[0]) if isinstance(value, list) else value for value in values] == list(range(6))


def test_task_of_another_node_draws(cluster):
    @zray.remote(resources={"far": 1})
    def total(count):
        return sum(zray.get(ref) for ref in far.remote(count))

    assert zray.get(total.remote(100)) == 4950


def test_generator_of_another_node_ends_when_nobody_draws(cluster, tmp_path):
    @zray.remote(resources={"far": 1})
    def endless(path):
        try:
            number = 0
            while True:
                yield number
                number += 1
                select.select([], [], [], 0.0005)
        finally:
            open(path, "w").close()

    generator = endless.remote(str(tmp_path / "ended"))
    assert zray.get(next(generator)) == 0
    del generator
    until(lambda: (tmp_path / "ended").exists())


def test_items_that_are_lost_with_their_node_are_made_again(cluster):
    node = cluster.add_node(num_cpus=1, resources={"other": 1})
    refs = list(far.options(resources={"other": 1}).remote(4, 100_000))
    zray.wait(refs, num_returns=4, fetch_local=False)
    cluster.remove_node(node)
    cluster.add_node(num_cpus=1, resources={"other": 1})
    assert first_of(refs) == [0, 1, 2, 3]


@pytest.mark.parametrize("max_buffered", [None, 2])
def test_results_of_freed_items_are_computed_again_by_one_more_run_of_the_generator(cluster, tmp_path, max_buffered):
    lost = cluster.add_node(num_cpus=1, resources={"lost": 1})

    @zray.remote(resources={"far": 1}, max_retries=1)
    def items(path, count):
        with open(path, "a") as file:
            file.write("run\n")
        for number in range(count):
            yield np.full(100_000, number)

    @zray.remote(resources={"lost": 1}, max_retries=1)
    def square(item, path=None):
        if path is not None:
            open(path, "w").close()
        return item**2

    path = tmp_path / "runs"
    squares = []
    for ref in items.options(max_buffered=max_buffered).remote(str(path), 8):
        squares.append(square.remote(ref, str(tmp_path / f"square-{len(squares)}")))
    del ref
    until(lambda: len(list(tmp_path.glob("square-*"))) == 8)
    zray.get(square.remote(0))  # the others on the node with one CPU have ended, and nobody has fetched them
    cluster.remove_node(lost, allow_graceful=False)
    another = cluster.add_node(num_cpus=1, resources={"lost": 1})
    assert [int(zray.get(ref, timeout=60)[0]) for ref in squares] == [number**2 for number in range(8)]
    assert path.read_text().split() == ["run", "run"]
    cluster.remove_node(another)
    cluster.wait_for_nodes()  # a task that the next test sends to it would use a retry up


@zray.remote(num_cpus=0, resources={"far": 1})
class Plain:
    def items(self, path):
        yield from endless_items(path)


def endless_items(path):
    with Path(path).open("a") as file:
        file.write("run\n")
    for number in itertools.count():
        yield np.full(100_000, number)


@zray.remote(resources={"far": 1}, max_retries=1)
def endless(path):
    yield from endless_items(path)


def squares_of(generator, count, path):
    """Take items, have them squared on the node that is lost, and let go of them."""

    @zray.remote(resources={"lost": 1})
    def square(item, path):
        Path(path).touch()
        return item**2

    squares = [square.remote(next(generator), f"{path}-{number}") for number in range(count)]
    until(lambda: all(os.path.exists(f"{path}-{number}") for number in range(count)))
    return squares


def make_stream(kind, path):
    """Return a generator without end, and what keeps it."""
    if kind == "task":
        return endless.options(max_buffered=2).remote(path), None
    actor = Plain.remote()
    return actor.items.options(max_buffered=2, max_task_retries=1).remote(path), actor


@pytest.mark.parametrize("kind", ["task", "actor"])
def test_a_generator_that_is_held_back_makes_lost_items_again(cluster, tmp_path, kind):
    lost = cluster.add_node(num_cpus=1, resources={"lost": 1})
    path = str(tmp_path / "runs")
    generator, actor = make_stream(kind, path)
    squares = squares_of(generator, 3, tmp_path / "square")
    cluster.remove_node(lost, allow_graceful=False)
    another = cluster.add_node(num_cpus=1, resources={"lost": 1})
    assert first_of(squares) == [0, 1, 4]
    assert first_of(itertools.islice(generator, 4)) == [3, 4, 5, 6]
    assert Path(path).read_text().split() == ["run", "run"]
    del generator, actor
    cluster.remove_node(another)


def test_a_consumer_on_another_node_waits_for_a_lost_result_of_a_freed_item(cluster, tmp_path):
    lost = cluster.add_node(num_cpus=1, resources={"lost": 1})

    @zray.remote(num_cpus=0)
    def consume(path):
        generator, _ = make_stream("task", f"{path}/runs")
        squares = squares_of(generator, 3, f"{path}/square")
        until(lambda: os.path.exists(f"{path}/is-lost"))
        return first_of(squares) + first_of(itertools.islice(generator, 2))

    consumed = consume.options(resources={"far": 1}).remote(str(tmp_path))
    until(lambda: (tmp_path / "square-2").exists())
    zray.get(far.options(resources={"lost": 1}).remote(0).completed())  # the squares have ended
    cluster.remove_node(lost, allow_graceful=False)
    another = cluster.add_node(num_cpus=1, resources={"lost": 1})
    (tmp_path / "is-lost").touch()
    assert zray.get(consumed, timeout=60) == [0, 1, 4, 3, 4]
    cluster.remove_node(another)
