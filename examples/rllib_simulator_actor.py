"""The simulator actor of the blog post of 2018 that announced Ray: an environment with state, in a process of its own.

The post plays Pong of gym.  CartPole of gymnasium stands here, which needs no game files.

Prints:

    4 observations of 4 numbers
    the cart moves left: True
    two simulators, 20 steps each, the same states: True
"""

import gymnasium

import zray as ray


@ray.remote
class Simulator:
    def __init__(self):
        self.env = gymnasium.make("CartPole-v1")
        self.env.reset(seed=0)

    def step(self, action):
        return self.env.step(action)

    def play(self, actions):
        self.env.reset(seed=0)
        return [self.step(action)[0].tolist() for action in actions]


with ray.init(num_cpus=2):
    # A remote process, which runs all methods of this actor.
    simulator = Simulator.remote()

    # Action 0 in the simulator; the calls return at once, and the actor runs them in this order.
    observations = [simulator.step.remote(0) for _ in range(4)]
    states = [observation for observation, reward, terminated, truncated, info in ray.get(observations)]
    print(f"{len(states)} observations of {len(states[0])} numbers")
    print(f"the cart moves left: {bool(states[-1][0] < states[0][0])}")

    actions = [0, 1] * 10
    other = Simulator.remote()
    first, second = ray.get([simulator.play.remote(actions), other.play.remote(actions)])
    print(f"two simulators, 20 steps each, the same states: {first == second}")
