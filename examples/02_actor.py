"""An actor: a process that keeps state between calls; here a simulated pendulum.

Prints:

    step 1: angle 3.104 rad
    step 2: angle 3.030 rad
    step 3: angle 2.924 rad
    step 4: angle 2.787 rad
"""

import math

import zray as ray

STEP_S = 0.05


class Pendulum:
    """A rod that hangs from a joint; the action is the torque on it.  Angle 0 points up."""

    def reset(self):
        self.angle, self.speed = math.pi, 0.0

    def step(self, torque):
        self.speed += (15.0 * math.sin(self.angle) + 3.0 * torque) * STEP_S
        self.angle += self.speed * STEP_S
        return self.angle


@ray.remote
class Simulator:
    def __init__(self):
        self.environment = Pendulum()
        self.environment.reset()

    def step(self, torque):
        return self.environment.step(torque)


with ray.init(num_cpus=2):
    simulator = Simulator.remote()
    # Four calls under way at once: the actor takes them in this order, each upon the state the last one left.
    angles = [simulator.step.remote(-5.0) for _ in range(4)]
    for number, angle in enumerate(ray.get(angles), start=1):
        print(f"step {number}: angle {angle:.3f} rad")
