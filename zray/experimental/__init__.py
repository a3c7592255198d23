"""Names that Ray's programs find under `ray.experimental`."""

from typing import Any

from . import tqdm_ray

__all__ = ["tqdm_ray"]


def __getattr__(name: str) -> Any:
    from ..ray_names import absent

    raise absent.attribute_error(__name__, name)
