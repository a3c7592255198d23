"""Versions of zray, and of the Ray whose API zray follows."""

__version__ = "0.1.0"
__ray_version__ = "2.60.0"
