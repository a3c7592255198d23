"""`python -m zray.rllib.train`: the command `zray rllib train`, as programs of former years call it."""

from __future__ import annotations

from importlib import import_module

from ..on_import import shadows

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command with the arguments of the process, or with others."""
    import_module("zray.cli.rllib").train.main(arguments, prog_name="zray rllib train")


if __name__ == "__main__":
    main()
else:
    shadows.name_absent(__name__)
