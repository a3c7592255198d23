"""The base of the algorithms, where programs written for Ray import it."""

from ..algorithm import Algorithm
from ..config import AlgorithmConfig

__all__ = ["Algorithm", "AlgorithmConfig"]
