"""Tasks and actors of the tests that run in a session and in local mode."""

import sys

import zray

SECONDS = 20.0


@zray.remote
def add(a, b=1):
    return a + b


@zray.remote
def fail(kind=ValueError):
    secret = 7
    raise kind(f"no {secret}")


@zray.remote(num_cpus=0)
class Counter:
    def __init__(self, start=0):
        self.count = start
        self.was_restarted = zray.get_runtime_context().was_current_actor_reconstructed

    def add(self, amount=1):
        self.count += amount
        return self.count

    def restarted(self):
        return self.was_restarted

    def fail(self):
        self.count += 1
        raise KeyError(self.count)

    @zray.method(num_returns=2)
    def two(self):
        return self.count, -self.count

    def call(self, handle):
        return zray.get(handle.add.remote())

    def leave(self):
        zray.exit_actor()

    def crash(self):
        sys.exit(3)
