"""zray.util.rng: random numbers that do not depend on where and how often a task runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..api import sessions

if TYPE_CHECKING:
    import numpy

    from ..host.client.runtime import Runtime

__all__ = ["rng"]


def rng() -> numpy.random.Generator:
    """Return the random generator of the task, actor method or program that calls.

        @zray.remote
        def sample(count):
            return zray.util.rng().normal(size=count)

    Its seed follows from the job's seed and from the place of the task among the submissions of the program.  Workers,
    nodes, retries and the order of execution do not matter.  With `zray.init(seed=7)` or ZRAY_SEED=7 each run of the
    program has the same numbers, as long as the program submits the same tasks in the same order.  Without a seed each
    run has other numbers, and a retry the same ones.

    Each call in one task returns the same generator, which goes on where it was.  A thread that outlives its task has
    a generator of its worker.

    Returns:
        A numpy.random.Generator.
    """
    from numpy.random import PCG64, Generator, SeedSequence

    runtime = sessions.require_runtime()
    submitter = runtime.submitter()
    generator = submitter.random
    if generator is None:
        generator = submitter.random = Generator(PCG64(SeedSequence(_entropy(runtime, submitter))))
    found: numpy.random.Generator = generator
    return found


def _entropy(runtime: Runtime, submitter: Any) -> list[int]:
    """The seed of a task's generator."""
    seed = runtime.facts.seed
    if seed is None:
        return [int.from_bytes(runtime.job_id, "big"), int.from_bytes(submitter.task_id, "big")]
    is_driver = not runtime.is_worker
    return [seed, int.from_bytes(submitter.path or (b"" if is_driver else submitter.task_id), "big")]
