"""The sentence for a missing package of RLlib: torch or gymnasium, wherever a module of RLlib imports it."""

from __future__ import annotations

import sys

__all__ = ["MissingExtras", "install"]

PACKAGES = ("gymnasium", "torch")


class MissingExtras:
    """Finder behind all others in sys.meta_path: names the extra for a missing package."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Return None: another program imports the package, or asks for its presence.

        Raises:
            ModuleNotFoundError: a module of RLlib imports it.
        """
        if name not in PACKAGES:
            return
        frame = sys._getframe(1)
        while frame is not None and "importlib" in str(frame.f_globals.get("__name__")):
            if frame.f_globals.get("__name__") == "importlib.util":
                return
            frame = frame.f_back  # type: ignore[assignment]
        importer = str(frame.f_globals.get("__name__")) if frame is not None else ""
        if importer.startswith("zray.rllib.") and importer != "zray.rllib.utils.framework":
            raise ModuleNotFoundError(
                f"zray.rllib needs {name}: install zray[rllib], or `pip install torch gymnasium`.", name=name
            )


def install() -> None:
    """Let imports find the sentence.  A second call does nothing."""
    if MissingExtras not in sys.meta_path:
        sys.meta_path.append(MissingExtras)  # type: ignore[arg-type]
