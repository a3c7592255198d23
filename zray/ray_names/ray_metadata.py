"""`importlib.metadata.version("ray")` in programs with zray as `ray`: libraries ask for Ray's version."""

from __future__ import annotations

import os
from importlib.metadata import Distribution
from typing import NoReturn

from ..version import __ray_version__


class RayDistribution(Distribution):
    """Distribution `ray` with a version and no files."""

    def read_text(self, filename: str) -> str | None:
        """The metadata; None for any other file."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: ray\nVersion: {__ray_version__}\nSummary: zray under the name of Ray\n"

    def locate_file(self, path: os.PathLike[str] | str) -> NoReturn:
        """There are no files.

        Raises:
            FileNotFoundError: always.
        """
        raise FileNotFoundError(f"{path}: `ray` is zray in this program, and has no files of its own.")
