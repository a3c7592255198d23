"""Policies, in Ray's spellings."""

from ..doors import names_of
from .policy import Policy, PolicySpec

__all__ = ["Policy", "PolicySpec"]

__getattr__ = names_of(__name__)
