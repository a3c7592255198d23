"""The context of an environment, where programs written for Ray import it."""

from ..doors import names_of
from ..environments import EnvContext

__all__ = ["EnvContext"]

__getattr__ = names_of(__name__)
