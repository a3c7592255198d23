"""Evolution strategies over three nodes: each has the table of noise once, and the parameters are those of one process.

The nodes are processes of this machine.  On machines of their own, give `ray.init` the address of the head.

Prints:

    3 nodes; processes on 3 of them
    4 iterations, mean return ...
    the same parameters as in one process: True
"""

import zray as ray
from zray.cluster_utils import Cluster
from zray.rllib.algorithms.es import ESConfig

ITERATIONS = 4


def config(processes):
    made = ESConfig().environment("CartPole-v1").env_runners(num_env_runners=processes)
    made.training(episodes_per_batch=24, noise_stdev=0.05, stepsize=0.02, l2_coeff=0.0, noise_size=1_000_000)
    return made.training(model={"fcnet_hiddens": [32]}, aggregation="tree", fan_in=2)


def train(processes):
    algo = config(processes).build_algo()
    for _ in range(ITERATIONS):
        result = algo.train()
    return algo, result


with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    with ray.init(address=cluster.address):
        algo, result = train(3)
        where = [
            actor.__ray_call__.remote(lambda self: ray.get_runtime_context().get_node_id())
            for actor in algo.rollouts.actors
        ]
        print(f"{len(ray.nodes())} nodes; processes on {len(set(ray.get(where)))} of them")
        print(f"{algo.iteration} iterations, mean return {result['episode_reward_mean']:.1f}")
        alone, _ = train(0)
        same = (alone.get_policy().get_weights()["theta"] == algo.get_policy().get_weights()["theta"]).all()
        print(f"the same parameters as in one process: {same}")
        algo.stop()
        alone.stop()
