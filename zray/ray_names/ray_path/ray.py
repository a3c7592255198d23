"""`import ray` in a program started by `zray run --as-ray`, and in child processes: the module is zray."""

from zray.ray_names.ray_imports import install

install()
