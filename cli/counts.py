"""Counts of processes on the command line: those that may change, and those that may not."""

from __future__ import annotations

from typing import Any

import click

COUNT_MAX = 64


class CountRange(click.ParamType):
    """A count that may change: a number, MIN:MAX, or auto."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value as it is given."""
        from zray.options.count_ranges import count_range

        try:
            count_range("the number", value, COUNT_MAX)
        except (TypeError, ValueError) as error:
            self.fail(str(error), param, ctx)
        return value


class FixedCount(click.IntRange):
    """A count that never changes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        from zray.options.count_ranges import refuse_range

        try:
            refuse_range("the number of shards", value)
        except NotImplementedError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)
