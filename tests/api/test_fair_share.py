"""Two programs in one session: the flood of one leaves the other its share of the CPUs (docs/security.md, B20)."""

import time

import numpy as np
import pytest

import zray
from tests.gates import Gate
from tests.scripts import ROOT, start_script
from zray.cluster_utils import Cluster

pytestmark = pytest.mark.slow

CPUS = 2
WARM_UP = 2_000
# What one program alone has run in a burst of that length; both together, with all that is sent to and fro, take four
# times as long.
SECONDS, TASKS_MIN, TASKS_MAX = 1.5, 4_000, 1_000_000
SHARE = 0.3

# The flood holds all CPUs until all of its tasks have left: it is there first, and nothing of it has run.
FLOOD = """
    import sys
    sys.path.insert(0, {root!r})
    import numpy as np
    import zray
    from tests.api.test_fair_share import hold, nothing
    from tests.gates import Gate, until
    zray.init(address={address!r})
    begun = [Gate(path) for path in {begun!r}]
    held = [hold.remote(gate, Gate({end!r})) for gate in begun]
    until(lambda: all(gate.is_open() for gate in begun))
    refs = [nothing.remote() for _ in range({tasks})]
    zray.wait(refs, timeout=0)  # what had gathered leaves
    print("all of it has left", flush=True)
    np.save({ends!r}, zray.get(refs))
"""


@zray.remote
def nothing():
    """Returns when it ended, by the clock that all processes of a machine share."""
    return time.monotonic()


@zray.remote
def hold(begun, end):
    """Takes a CPU until the end."""
    begun.open()
    end.wait(60)


def tasks_of_each():
    """More on a faster machine."""
    zray.get([nothing.remote() for _ in range(WARM_UP)], timeout=20)  # the workers are there
    ends = zray.get([nothing.remote() for _ in range(WARM_UP)], timeout=20)
    return max(TASKS_MIN, min(TASKS_MAX, int(WARM_UP / (max(ends) - min(ends)) * SECONDS)))


def test_a_flood_of_one_driver_leaves_another_its_share(nothing_left, tmp_path):
    end = Gate(tmp_path / "end")
    with Cluster(initialize_head=True, head_node_args={"num_cpus": CPUS}) as cluster:
        zray.init(address=cluster.address)
        names = {"root": str(ROOT), "address": cluster.address, "end": end.path, "ends": str(tmp_path / "ends.npy")}
        begun = [str(tmp_path / f"begun-{cpu}") for cpu in range(CPUS)]
        tasks = tasks_of_each()
        with start_script(tmp_path, FLOOD.format(**names, begun=begun, tasks=tasks)) as flood:
            try:
                assert flood.stdout.readline(), flood.stderr.read()
                refs = [nothing.remote() for _ in range(tasks)]
                zray.wait(refs, timeout=0)
                end.open()
                others = np.array(zray.get(refs, timeout=50))
                assert not flood.wait(50), flood.stderr.read()
            finally:
                end.open()
                flood.kill()
        zray.shutdown()
    ends = np.load(tmp_path / "ends.npy")
    assert len(others) == len(ends) == tasks
    # Until the first of them was done, both had more than was run.
    until_then = min(others.max(), ends.max())
    of_other, of_flood = int((others <= until_then).sum()), int((ends <= until_then).sum())
    assert of_other >= SHARE * (of_other + of_flood), f"{of_other:,} of the other one's, {of_flood:,} of the flood's"
