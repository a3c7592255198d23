"""`python -m zray.rllib.rollout`: the command `zray rllib evaluate`, as programs of former years call it."""

from __future__ import annotations

from importlib import import_module

from ..on_import import shadows

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command with the arguments of the process, or with others."""
    import_module("zray.cli.rllib").evaluate.main(arguments, prog_name="zray rllib evaluate")


if __name__ == "__main__":
    main()
else:
    shadows.name_absent(__name__)
