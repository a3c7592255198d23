"""Functions that Ray's programs find under `ray.internal`."""

from .api.freeing import free
from .on_import import shadows

__all__ = ["free"]

shadows.name_absent(__name__)
