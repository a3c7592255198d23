"""Counter, Gauge and Histogram: numbers that a program counts, in all processes of a session.

A metric has the `value` of its process.  `zray metrics` exports the numbers of all processes to Prometheus, as
`ray_` and the name (docs/metrics.md).
"""

from __future__ import annotations

import re
import sys
import threading
import time
from bisect import bisect_left
from typing import Any

from ..api.metrics import Facts, MetricPage, metric_page

__all__ = ["Counter", "Gauge", "Histogram", "Metric"]

# Different sets of tags of one metric: more would be ids of some kind, and grow without end.
TAGS_MAX = 10_000
# Of names and tags, as Prometheus has them.
_NAME, _TAG = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*"), re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
NAME_CHARACTERS_MAX, DESCRIPTION_CHARACTERS_MAX = 200, 300
# Names of metrics that are not exported in full, and were named in a line.
_named: set[str] = set()
NAMED_MAX = 1_000
BOUNDARIES_MAX = 100


class Metric:
    """Base of Counter, Gauge and Histogram.

    Args:
        name: name of the metric.
        description: what the metric counts.
        tag_keys: names of tags, which each record may give values.

    Raises:
        ValueError: the name or a tag is none for Prometheus: letters, digits and "_", with no digit first.
        TypeError: the name is no str, or tag_keys is no tuple of str.
    """

    KIND = ""

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"The name of a metric must be a str, not {type(name).__name__}.")
        if not _NAME.fullmatch(name) or len(name) > NAME_CHARACTERS_MAX:
            raise ValueError(
                f'A metric has a name of at most {NAME_CHARACTERS_MAX} letters, digits, "_" and ":", with no digit '
                f"first, not {name!r}."
            )
        if tag_keys is not None and not (
            isinstance(tag_keys, (tuple, list)) and all(isinstance(key, str) for key in tag_keys)
        ):
            raise TypeError(f"tag_keys must be a tuple of str, not {tag_keys!r}.")
        for key in tag_keys or ():
            if not _TAG.fullmatch(key) or (key == "le" and self.KIND == "histogram"):
                raise ValueError(
                    f'{key!r} is no tag for the metric {name!r}: a tag has letters, digits and "_", with no digit and '
                    'no "__" first; "le" is the bucket of a Histogram.'
                )
        self._name = name
        self._description = description
        self._tag_keys = tuple(tag_keys or ())
        self._default_tags: dict[str, str] = {}
        self._values: dict[tuple[tuple[str, str], ...], Any] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return the metric without its records: each process has its own."""
        return {**vars(self), "_values": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tag_keys and default_tags of the metric."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    def set_default_tags(self, default_tags: dict[str, str]) -> Metric:
        """Set tags for all later records without tags of their own.

        Args:
            default_tags: values by name; the names are among tag_keys.

        Returns:
            This metric.
        """
        self._checked(default_tags)
        self._default_tags = dict(default_tags)
        return self

    def value(self, tags: dict[str, str] | None = None) -> Any:
        """Return what was recorded in this process.

        Args:
            tags: values by name, as in the records.

        Returns:
            A number, 0.0 without records.  A Histogram returns a dict of count, sum and buckets.
        """
        key = self._key(tags)
        with self._lock:
            return self._shown(self._values.get(key))

    def _shown(self, found: Any) -> Any:
        return 0.0 if found is None else found

    def _checked(self, tags: dict[str, str]) -> None:
        for name, value in tags.items():
            if name not in self._tag_keys:
                raise ValueError(f"{name!r} is no tag of the metric {self._name!r}.  It has: {list(self._tag_keys)}.")
            if not isinstance(value, str):
                raise TypeError(f"The tag {name!r} must be a str, not {type(value).__name__}.")

    def _key(self, tags: dict[str, str] | None) -> tuple[tuple[str, str], ...]:
        self._checked(tags or {})
        return tuple(sorted({**self._default_tags, **(tags or {})}.items()))

    def _record(self, number: float, tags: dict[str, str] | None) -> None:
        key = self._key(tags)
        number = float(number)
        with self._lock:
            if key not in self._values and len(self._values) >= TAGS_MAX:
                raise ValueError(f"The metric {self._name!r} has {TAGS_MAX:,} sets of tags already; use fewer values.")
            self._values[key] = self._combined(self._values.get(key), number)
        page = metric_page()
        if page is not None:
            self._export(page, key, number)

    def _export(self, page: MetricPage, key: tuple[tuple[str, str], ...], number: float) -> None:
        name, text = f"ray_{self._name}", self._description[:DESCRIPTION_CHARACTERS_MAX]
        if not self._write(page, Facts(self.KIND, name, text, key, self._boundaries()), number):
            if self._name not in _named and len(_named) < NAMED_MAX:
                _named.add(self._name)
                print(
                    f"zray: the metric {self._name!r} has more sets of tags, or longer ones, than are exported from a "
                    "process: `value()` has all, Prometheus does not.  Use tags with fewer values.",
                    file=sys.stderr,
                )

    def _boundaries(self) -> tuple[float, ...]:
        return ()

    def _write(self, page: MetricPage, facts: Facts, number: float) -> bool:
        return page.add(facts, (0, number))

    def _combined(self, before: Any, number: float) -> Any:
        raise NotImplementedError("Metric is a base class: use Counter, Gauge or Histogram.")


class Counter(Metric):
    """Sum that only grows: `Counter("images").inc()`.

    Args:
        name, description, tag_keys: as for `Metric`.
    """

    KIND = "counter"

    def inc(self, value: float = 1.0, tags: dict[str, str] | None = None) -> None:
        """Add to the sum.

        Args:
            value: what is added; more than 0.  Default: 1.
            tags: values by name.

        Raises:
            ValueError: the value is not above 0, or a tag is unknown.
        """
        if value <= 0:
            raise ValueError(f"A Counter grows by more than 0, not by {value}.")
        self._record(value, tags)

    def _combined(self, before: Any, number: float) -> Any:
        return (before or 0.0) + number


class Gauge(Metric):
    """Number that goes up and down: `Gauge("queue_length").set(3)`.

    Of several processes that set it with the same tags, the last one is exported.

    Args:
        name, description, tag_keys: as for `Metric`.
    """

    KIND = "gauge"

    def set(self, value: float, tags: dict[str, str] | None = None) -> None:
        """Set the number.

        Args:
            value: the number.
            tags: values by name.

        Raises:
            TypeError: the value is no number.
            ValueError: a tag is unknown.
        """
        if not isinstance(value, (int, float)):
            raise TypeError(f"A Gauge is set to a number, not to {type(value).__name__}.")
        self._record(value, tags)

    def _combined(self, before: Any, number: float) -> Any:
        return number

    def _write(self, page: MetricPage, facts: Facts, number: float) -> bool:
        return page.set(facts, number, time.time())


class Histogram(Metric):
    """Counts of numbers by size: `Histogram("seconds", boundaries=[0.1, 1, 10]).observe(0.3)`.

    Args:
        name: name of the metric.
        description: what the metric counts.
        boundaries: upper ends of the buckets, ascending and above 0; a last bucket takes larger numbers.
        tag_keys: names of tags.

    Raises:
        ValueError: the boundaries are missing, more than 100, not ascending, or not above 0.
    """

    KIND = "histogram"

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(name, description, tag_keys)
        if not boundaries or boundaries[0] <= 0 or list(boundaries) != sorted(set(boundaries)):
            raise ValueError(f"boundaries must be ascending numbers above 0, as [0.1, 1, 10], not {boundaries!r}.")
        if len(boundaries) > BOUNDARIES_MAX:
            raise ValueError(f"A Histogram has at most {BOUNDARIES_MAX} boundaries, not {len(boundaries)}.")
        self.boundaries = list(boundaries)

    @property
    def info(self) -> dict[str, Any]:
        """Facts as for Metric, with the boundaries."""
        return {**super().info, "boundaries": self.boundaries}

    def observe(self, value: float, tags: dict[str, str] | None = None) -> None:
        """Count a number.

        Args:
            value: the number.
            tags: values by name.
        """
        self._record(value, tags)

    def _combined(self, before: Any, number: float) -> Any:
        count, total, buckets = before or (0, 0.0, (0,) * (len(self.boundaries) + 1))
        index = bisect_left(self.boundaries, number)
        return count + 1, total + number, (*buckets[:index], buckets[index] + 1, *buckets[index + 1 :])

    def _shown(self, found: Any) -> Any:
        count, total, buckets = found or (0, 0.0, (0,) * (len(self.boundaries) + 1))
        return {"count": count, "sum": total, "buckets": list(buckets)}

    def _boundaries(self) -> tuple[float, ...]:
        return tuple(map(float, self.boundaries))

    def _write(self, page: MetricPage, facts: Facts, number: float) -> bool:
        return page.add(facts, (bisect_left(self.boundaries, number), 1.0), (len(self.boundaries) + 1, number))
