"""Names of `ray.data` that libraries import and seldom use.  A call, and each further name, says what to do instead.

The module is found as `ray.data` alone, in programs where `ray` is zray.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..ray_names import absent

__all__ = ["Dataset", "from_pandas_refs"]


class Dataset:
    """Class of no object: zray has no datasets."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise _error("Dataset")


def from_pandas_refs(*args: Any, **options: Any) -> NoReturn:
    """Raises:
    NotImplementedError: always.
    """
    raise _error("from_pandas_refs")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # Python itself looks for some
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise AttributeError(f"module 'zray.data' has no attribute {name!r}: {_error(name)}")


def _error(name: str) -> NotImplementedError:
    return absent.not_built(absent.NAMES, "zray.data", f"zray.data.{name}")
