"""Parameters that an expression gives: `{"eval": "2 ** spec.config.depth"}`, in files and in programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import TuneError

__all__ = ["Evaluated", "Unresolved", "is_expression"]

# Names that expressions have.
NAMES = ("random", "np", "tune", "spec")


class Unresolved(Exception):
    """A function asked for a parameter that has no value yet."""


def is_expression(value: Any) -> bool:
    """Whether a value of a configuration is an expression."""
    return isinstance(value, Mapping) and len(value) == 1 and isinstance(value.get("eval"), str)


class Evaluated:
    """A parameter that is computed from an expression, with the names random, np, tune and spec.

    Args:
        text: the expression, or a lambda of the spec.
        place: where it stands, for errors.

    Raises:
        TuneError: the text is no expression.
    """

    def __init__(self, text: str, place: str = "") -> None:
        self.text, self.place = text.strip(), place
        self.is_lambda = self.text.startswith("lambda")
        try:
            compile(self.text, f"<{self.text}>", "eval")
        except SyntaxError as error:
            raise TuneError(f"{self._said()} is no Python expression: {self.text!r}: {error.msg}.") from error

    def __call__(self, spec: Any = None) -> Any:
        import random

        import numpy as np

        from zray import tune

        try:
            value = eval(self.text, {"random": random, "np": np, "tune": tune, "spec": spec})
            return value(spec) if self.is_lambda else value
        except Unresolved:
            raise
        except Exception as error:
            raise TuneError(
                f"{self._said()} cannot be evaluated: {self.text!r}: {type(error).__name__}: {error}.  The names are "
                f"{', '.join(NAMES[:-1])} and {NAMES[-1]}: other parameters are spec.config.NAME."
            ) from error

    def distribution(self) -> Any:
        """The distribution, or the grid, that the expression is, as `tune.uniform(0, 1)`.

        Returns:
            None: the value is computed, or drawn, for each trial.
        """
        from .spaces import Domain, Function

        names = compile(self.text, f"<{self.text}>", "eval").co_names
        if self.is_lambda or "tune" not in names or "spec" in names or "random" in names:
            return None
        found = self()
        is_grid = isinstance(found, Mapping) and set(found) == {"grid_search"}
        return found if is_grid or isinstance(found, Domain) and not isinstance(found, Function) else None

    def _said(self) -> str:
        return self.place or "An `eval`"
