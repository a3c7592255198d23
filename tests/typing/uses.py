"""Typical uses of the public API, with the types that checkers must find; `# error` marks lines that they must refuse.

Read by tests/typing/test_types.py through mypy and pyright, and never run.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from typing_extensions import assert_type

import zray
import zray as ray
from zray import ObjectRef, ObjectRefGenerator
from zray.actor import ActorClass, ActorHandle, ActorProxy
from zray.rllib.algorithms.ppo import PPOConfig


@ray.remote
def scale(x: int, by: float = 2.0) -> float:
    return x * by


@zray.remote(num_cpus=2, max_retries=0)
def count(x: int) -> int:
    return x


@ray.remote(num_returns=2)
def both(x: int) -> tuple[int, str]:
    return x, str(x)


@zray.remote
def items(x: int) -> Iterator[str]:
    yield str(x)


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    @ray.method
    def add(self, n: int) -> int:
        self.value += n
        return self.value

    @ray.method(num_returns=1, concurrency_group="io")
    def add_two(self, n: int, m: int = 0) -> int:
        return self.add(n) + self.add(m)

    @ray.method(num_returns=2)
    def both(self) -> tuple[int, int]:
        return self.value, self.value

    @ray.method
    async def later(self, n: int) -> str:
        return str(n)

    @ray.method
    def all(self) -> Iterator[int]:
        yield self.value

    @ray.method
    async def all_later(self) -> AsyncIterator[int]:
        yield self.value

    def plain(self) -> int:
        return self.value


# --- tasks ---
assert_type(scale.remote(1), ObjectRef[float])
assert_type(scale.remote(1, by=3.0), ObjectRef[float])
assert_type(scale.local(1), float)
assert_type(scale.options(num_cpus=1).remote(1), ObjectRef[float])
assert_type(count.remote(1), ObjectRef[int])
assert_type(both.remote(1), list[ObjectRef[Any]])
assert_type(items.remote(1), ObjectRefGenerator[str])
assert_type(next(items.remote(1)), ObjectRef[str])
assert_type(items.options(num_returns=2).remote(1), list[ObjectRef[Any]])
items.remote("one")  # error
scale.remote("one")  # error
scale.remote()  # error
scale.remote(1, 2.0, 3)  # error
scale.remote(1, at=2)  # error
scale.options(num_cpu=1)  # error
ray.remote(num_cpu=1)  # error

# --- refs stand for their values ---
ref = count.remote(1)
assert_type(scale.remote(ref), ObjectRef[float])
assert_type(scale.remote(x=ref, by=2.0), ObjectRef[float])
ref[0]  # error

# --- get, put, wait ---
assert_type(ray.get(ref), int)
assert_type(ray.get(ref, timeout=1.0), int)
assert_type(ray.get([ref, ref]), list[int])
assert_type(ray.get([scale.remote(i) for i in range(3)]), list[float])
assert_type(ray.put("text"), ObjectRef[str])
assert_type(ray.wait([ref], num_returns=1), tuple[list[ObjectRef[int]], list[ObjectRef[int]]])
ray.get(1)  # error
ray.wait([ref], num_return=1)  # error
for ready in ray.as_completed([ref]):
    assert_type(ready, ObjectRef[int])
for ready, value in ray.as_completed([ref], with_results=True):
    assert_type(ready, ObjectRef[int])
    assert_type(value, int)


async def waits() -> None:
    assert_type(await ref, int)


# --- actors ---
CounterActor = ray.remote(Counter)
assert_type(CounterActor, ActorClass[Counter])
counter = CounterActor.remote(3)
assert_type(counter, ActorProxy[Counter])
assert_type(counter.add.remote(1), ObjectRef[int])
assert_type(counter.add.remote(ref), ObjectRef[int])
assert_type(counter.add.options(name="n").remote(n=1), ObjectRef[int])
assert_type(ray.get(counter.add.remote(1)), int)
assert_type(counter.add_two.remote(1, m=2), ObjectRef[int])
assert_type(counter.both.remote(), list[ObjectRef[Any]])
assert_type(counter.later.remote(1), ObjectRef[str])
assert_type(counter.all.remote(), ObjectRefGenerator[int])
assert_type(counter.all_later.remote(), ObjectRefGenerator[int])
counter.add.remote("one")  # error
counter.add.remote()  # error
counter.add_two.remote(1, k=2)  # error
counter.subtract.remote(1)  # error
counter.plain.remote()  # error
assert_type(CounterActor.options(name="c", lifetime="detached").remote(), ActorProxy[Counter])


def uses(counter: ActorProxy[Counter], other: ActorHandle[Any]) -> int:
    assert_type(other.anything.remote(1), Any)
    return ray.get(counter.add.remote(1))


assert_type(ray.remote(num_cpus=1)(Counter), ActorClass[Counter])
CounterActor.options(max_restart=1)  # error
ray.kill(counter)
ray.kill(ref, no_restarts=True)  # error
assert_type(ray.get_actor("c"), ActorHandle[Any])

# --- configurations of RLlib ---
ppo = PPOConfig().environment("CartPole-v1", horizon=20).training(lr=1e-3, clip_param=0.1)
assert_type(ppo, PPOConfig)
assert_type(ppo.env_runners(num_env_runners=2).evaluation(evaluation_interval=1), PPOConfig)
ppo.rollouts(num_rollout_workers=2).training(sgd_minibatch_size=64)
ppo.training(clip_param="small")  # error
ppo.environment(horizon="long")  # error
ppo.evaluation(evaluation_duration="all")  # error
