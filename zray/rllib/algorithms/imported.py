"""Imports of each process that trains an algorithm: the fork server imports this module, and nothing else does."""

import torch
import torch._dynamo  # the first optimizer of a process would import it

from . import ppo

__all__ = ["ppo", "torch"]
