"""Two programs in one session: a flood of one of them does not shut the other out (real processes)."""

import pytest

import zray
from tests.gates import Gate
from tests.scripts import ROOT, start_script
from zray.cluster_utils import Cluster

# It has always more to do than there is room for, until it is told to stop.
FLOOD = """
    import sys
    sys.path.insert(0, {root!r})
    from collections import deque
    import zray
    from tests.gates import Gate
    zray.init(address={address!r})

    @zray.remote
    def nothing():
        pass

    portions = deque()
    while not Gate({end!r}).is_open():
        while len(portions) < 5:
            portions.append([nothing.remote() for _ in range(20_000)])
        zray.get(portions.popleft())
        print("a portion", flush=True)
"""


@pytest.fixture
def beside_a_flood(nothing_left, tmp_path):
    """Yields a function that waits for the flood's next portion."""
    end = Gate(tmp_path / "end")
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 2}) as cluster:
        zray.init(address=cluster.address)
        code = FLOOD.format(root=str(ROOT), address=cluster.address, end=end.path)
        with start_script(tmp_path, code) as driver:
            try:
                assert driver.stdout.readline(), driver.stderr.read()
                yield driver.stdout.readline
            finally:
                end.open()
                driver.communicate(timeout=30)
        zray.shutdown()
    assert driver.returncode == 0


@zray.remote(num_cpus=1)
class Counter:
    """Takes a CPU for as long as it lives."""

    def add(self, number):
        return number + 1


def test_an_actor_is_made_while_anothers_tasks_have_no_end(beside_a_flood):
    for number in range(3):
        actor = Counter.remote()
        assert zray.get(actor.add.remote(number), timeout=30) == number + 1
        assert beside_a_flood()
        zray.kill(actor)
