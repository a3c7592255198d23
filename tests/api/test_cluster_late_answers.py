"""Large answers of ordinary actors whose nodes die before anybody has fetched them: real processes, kill -9."""

import numpy as np
import pytest

import zray
from tests.clusters import two_with_disks
from zray.exceptions import ActorDiedError, ObjectReconstructionFailedError


@pytest.fixture
def cluster(nothing_left):
    with two_with_disks() as cluster:
        yield cluster


@zray.remote(resources={"disk": 1})
class Painter:
    """What it returns is large, and says how many pictures this process has made."""

    def __init__(self):
        self.count = 0

    def paint(self, colour, before=None):
        self.count += 1
        base = 0 if before is None else int(before[0])
        return np.full(250_000, 100 * base + 10 * colour + self.count, np.int64)

    @zray.method(num_returns=2)
    def paint_two(self, colour):
        return self.paint(colour), self.paint(colour)

    def where(self):
        return zray.get_runtime_context().get_node_id()


def painted(cluster, **options):
    """Pictures that lie only where the painter was, and nobody has fetched; its node is gone.  And the painter."""
    painter = Painter.options(**options).remote()
    home = zray.get(painter.where.remote(), timeout=20)
    first = painter.paint.remote(1)
    second = painter.paint.remote(2, first)
    pictures = [first, second, *painter.paint_two.remote(3)]
    zray.wait(pictures, num_returns=4, timeout=20, fetch_local=False)
    cluster.remove_node(next(node for node in cluster.worker_nodes if node.node_id == home))
    return pictures, painter


@zray.remote(num_cpus=1)
def colour_of(picture):
    return int(picture[-1]) // 10 % 10


def test_large_answers_that_went_with_a_node_are_made_again_where_calls_may_be_repeated(cluster):
    """By the actor as it is then: its counts are those of its new process."""
    pictures, painter = painted(cluster, max_restarts=-1, max_task_retries=-1)
    assert zray.get([colour_of.remote(picture) for picture in pictures], timeout=60) == [1, 2, 3, 3]
    first, second, *two = zray.get(pictures, timeout=60)
    assert 11 <= first[0] <= 19 and second[0] // 100 == first[0] and second.size == 250_000
    assert two[1][0] == two[0][0] + 1
    assert zray.get(painter.paint.remote(5), timeout=20)[0] > 50


def test_an_answer_is_lost_where_its_call_may_not_be_repeated(cluster):
    (first, *_), painter = painted(cluster, max_restarts=-1)
    with pytest.raises(ObjectReconstructionFailedError, match="an actor's answer"):
        zray.get(first, timeout=60)
    again = painter.paint.options(max_task_retries=-1)  # it waits for the actor's new home
    assert zray.get(again.remote(1), timeout=60)[0] == 11


def test_an_answer_of_an_actor_that_is_gone_for_good_says_so(cluster):
    (first, *_), painter = painted(cluster, max_task_retries=-1)
    with pytest.raises(ActorDiedError):
        zray.get(first, timeout=60)
