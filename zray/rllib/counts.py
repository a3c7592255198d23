"""Counts and times of an iteration, under the keys of results of all years."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Counts", "counters", "usage"]

# Seconds for which the use of the machine stays in results: a fast iteration does not look.
USAGE_SECONDS = 1.0
_usage: tuple[float, dict[str, float]] = (-USAGE_SECONDS, {})
# Keys that `sampler_results` repeats; the histories alone are in one place.
SAMPLED = (
    *(f"episode_{what}_{how}" for what in ("reward", "len") for how in ("mean", "min", "max")),
    *(f"policy_reward_{how}" for how in ("mean", "min", "max")),
    *("episodes_this_iter", "num_faulty_episodes", "custom_metrics"),
)


def usage() -> dict[str, float]:
    """The use of the machine's processors and memory, in percent, at most a second old."""
    global _usage
    now = time.monotonic()
    if now - _usage[0] >= USAGE_SECONDS:
        import psutil

        found = {"cpu_util_percent": psutil.cpu_percent(), "ram_util_percent": psutil.virtual_memory().percent}
        _usage = (now, found)
    return dict(_usage[1])


def counters(algorithm: Any) -> dict[str, int]:
    """The steps so far, by Ray's names."""
    sampled = algorithm.steps_sampled
    return {
        "num_env_steps_sampled": sampled,
        "num_agent_steps_sampled": algorithm.agent_steps_sampled or sampled,
        "num_env_steps_trained": algorithm.steps_trained,
        "num_agent_steps_trained": algorithm.agent_steps_trained,
    }


class Counts:
    """The part of an algorithm that counts steps, and looks at the clock."""

    sample_s = 0.0  # seconds of rollouts in this iteration

    @property
    def steps_trained(self: Any) -> int:
        """The steps in the batches of updates so far: here each sampled step is in one batch."""
        return int(self.steps_sampled)

    @property
    def agent_steps_trained(self: Any) -> int:
        """The same, of agents."""
        return int(self.agent_steps_sampled or self.steps_trained)

    def _add_counts(self: Any, result: dict[str, Any], before: dict[str, int], seconds: float) -> None:
        """Add counts of steps and episodes, and times, in the spellings of all years.

        Args:
            before: the counters at the begin of the iteration.
            seconds: of the iteration, without an evaluation.
        """
        after, episodes = counters(self), result["episodes_this_iter"]
        trained = after["num_env_steps_trained"] - before["num_env_steps_trained"]
        sampled = after["num_env_steps_sampled"]
        result.update(after, counters=after, num_env_steps_sampled_lifetime=sampled)
        result.update(num_env_steps_trained_this_iter=trained, num_steps_trained_this_iter=trained)
        result.update({f"policy_reward_{how}": {} for how in ("mean", "min", "max")})  # of one agent, as in Ray
        result["num_env_steps_sampled_this_iter"] = result["timesteps_this_iter"]
        result["num_healthy_workers"] = len(getattr(self.rollouts, "actors", None) or ())  # a lost one is replaced
        result["info"].update(after)
        result["env_runners"].update(
            num_env_steps_sampled=result["timesteps_this_iter"],
            num_env_steps_sampled_lifetime=sampled,
            num_agent_steps_sampled_lifetime=after["num_agent_steps_sampled"],
            num_episodes=episodes,
            num_faulty_episodes=self.num_failed,
            num_episodes_lifetime=(self._episodes_total or 0) + episodes,
        )
        times = {"training_iteration": seconds}
        if self.sample_s:  # A3C and ES sample and learn at the same time
            times.update(sample=self.sample_s, learn=seconds - self.sample_s)
        result["timers"] = {f"{name}_time_ms": 1000.0 * each for name, each in times.items()}
        result["perf"] = usage()
