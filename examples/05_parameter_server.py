"""A parameter server: an actor that holds the parameters, and four long tasks that read and change them.

The workers do not wait for each other.  Each adds whole numbers, so that the sum is the same in any order.

Prints:

    key1: [25. 26. 27.]
    key2: [1000. 1000. 1000.]
"""

import numpy as np

import zray as ray

WORKERS = 4
ROUNDS = 25


@ray.remote
class ParameterServer:
    def __init__(self, keys, values):
        # What arrives may lie in shared memory and is read-only; these will be changed, so copy.
        self.parameters = dict(zip(keys, [value.copy() for value in values], strict=True))

    def get(self, keys):
        return [self.parameters[key] for key in keys]

    def update(self, keys, values):
        for key, value in zip(keys, values, strict=True):
            self.parameters[key] += value


@ray.remote
def worker(server, number):
    keys = ["key1", "key2"]
    for _ in range(ROUNDS):
        first, second = ray.get(server.get.remote(keys))
        # Only worker 0 moves key1; all of them move key2.
        updates = [np.full_like(first, number == 0), np.full_like(second, 10)]
        ray.get(server.update.remote(keys, updates))


with ray.init(num_cpus=2):
    server = ParameterServer.remote(["key1", "key2"], [np.arange(3.0), np.zeros(3)])
    ray.get([worker.remote(server, number) for number in range(WORKERS)])
    for key, value in zip(["key1", "key2"], ray.get(server.get.remote(["key1", "key2"])), strict=True):
        print(f"{key}: {value}")
