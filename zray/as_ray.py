"""Import of this module makes `import ray` mean zray; `pytest -p zray.as_ray` does so ahead of all tests.

`zray run --as-ray PROGRAM` and `zray.util.as_ray.install()` do the same.
"""

from .util.as_ray import install

install()
