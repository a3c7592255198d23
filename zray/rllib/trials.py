"""The actor of a trial of an algorithm: later ones of the session have torch from the fork on.

Each trial has a process of its own, which would need 2 s of CPU to import torch and what its optimizers need.
"""

from __future__ import annotations

from zray.tune import worker

__all__ = ["TrialActor"]

# Not a module of these lines: a program that runs an experiment does not need the optimizers.
IS_PRELOADED = "zray.rllib.algorithms.imported"


class TrialActor(worker.TrialActor):
    """Runs trials of an algorithm."""
