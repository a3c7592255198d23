"""Names of Ray's RLlib that zray does not have: for each, a sentence that says what to do instead.

A row of a module stands for all below it.  docs/names_of_rllib.py lists the names that are looked for.
"""

from __future__ import annotations

__all__ = ["NAMES"]

NAMES = {
    "zray.rllib.algorithms.impala": "Use `PPOConfig` with several `num_env_runners`.",
}
