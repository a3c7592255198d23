"""An actor: a process that keeps state between calls; here one of gymnasium's simulated environments.

Prints:

    step 1: angle 0.107 rad
    step 2: angle 0.129 rad
    step 3: angle 0.141 rad
    step 4: angle 0.143 rad
"""

import math

import gymnasium

import zray as ray


@ray.remote
class Simulator:
    def __init__(self):
        self.environment = gymnasium.make("Pendulum-v1")
        self.environment.reset(seed=1)

    def step(self, torque):
        observation, _reward, _terminated, _truncated, _info = self.environment.step([torque])
        return observation


with ray.init(num_cpus=2):
    simulator = Simulator.remote()
    # Four calls under way at once: the actor takes them in this order, each upon the state the last one left.
    observations = [simulator.step.remote(-2.0) for _ in range(4)]
    for number, (cosine, sine, _speed) in enumerate(ray.get(observations), start=1):
        print(f"step {number}: angle {math.atan2(sine, cosine):.3f} rad")
