"""`import ray` in a program that `zray run --as-ray` has started, and in its child processes: this module is zray."""

from zray.ray_names.ray_imports import install

install()
