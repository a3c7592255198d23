"""Where tasks and actors of real programs go."""

import pytest

import zray
from zray.cluster_utils import Cluster


@zray.remote
def where():
    return zray.get_runtime_context().get_node_id()


@pytest.mark.parametrize("schedulers", [1, 2])
@pytest.mark.parametrize("policy", ["bottom_up", "central", "random", "no_locality"])
def test_the_policy_says_which_tasks_leave_their_node(policy, schedulers, nothing_left):
    """One task at a time: unless all go up, they stay where they are submitted."""
    head = {"num_cpus": 1, "policy": policy, "global_schedulers": schedulers}
    with Cluster(initialize_head=True, head_node_args=head) as cluster:
        large = cluster.add_node(num_cpus=4)
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address) as driver:
            places = {zray.get(where.remote(), timeout=20) for _ in range(12)}
            if policy == "central":
                assert large.node_id in places
            else:
                assert places == {driver["node_id"]}


def test_a_policy_that_is_none_is_refused(nothing_left):
    with pytest.raises(ValueError, match="bottom_up, central, random, no_locality"):
        Cluster(initialize_head=True, head_node_args={"policy": "chaos"})
