"""A training loop as a task: it makes k simulators, rolls a policy out in each, improves it, and repeats.

Two such loops run in parallel.  The policy is one number, the brake that should bring a cart to rest; the
improvement is a step of evolution: keep the best of the candidates that the simulators tried.  It asks for a
GPU; `init` declares one, so that the two loops take turns at it, on a machine that has none as well.

Prints:

    2 simulators: brake 0.82, cost 1.84
    4 simulators: brake 1.31, cost 1.00
"""

import numpy as np

import zray as ray


@ray.remote
class Simulator:
    """A cart with speed 1 that drifts; `rollout` says what a brake costs.  It keeps its own random source."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def rollout(self, policy, steps):
        brake = policy + self.random.normal(scale=0.1)
        position, speed, cost = 1.0, 1.0, 0.0
        for _ in range(steps):
            speed -= brake * (speed + 0.5 * position)
            position += 0.5 * speed
            cost += position**2 + 0.1 * (brake * speed) ** 2
        return cost, brake


@ray.remote(num_gpus=1)
def update_policy(policy, *rollouts):
    return min(rollouts)[1]


@ray.remote
def train_policy(simulator_count, rounds=20):
    policy = ray.put(0.1)
    simulators = [Simulator.remote(seed) for seed in range(simulator_count)]
    for _ in range(rounds):
        # Nothing is fetched here: rollouts and policies pass from task to task as references.
        rollouts = [simulator.rollout.remote(policy, 30) for simulator in simulators]
        policy = update_policy.remote(policy, *rollouts)
    return simulator_count, *min(ray.get(rollouts))


with ray.init(num_cpus=2, num_gpus=1):
    for count, cost, brake in ray.get([train_policy.remote(2), train_policy.remote(4)]):
        print(f"{count} simulators: brake {brake:.2f}, cost {cost:.2f}")
