"""Environments, in Ray's spellings."""

from ..doors import names_of
from ..environments import EnvContext
from .multi_agent_env import MultiAgentEnv

__all__ = ["EnvContext", "MultiAgentEnv"]

__getattr__ = names_of(__name__)
