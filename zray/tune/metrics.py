"""Metrics as they are recorded: a result is made of values that the journal and result.json can hold.

The trial's own process looks at each result, so that an error names the metric, and concerns its trial alone.

    numbers of numpy, torch, jax, decimal, fractions     numbers of Python
    texts with bytes that are no UTF-8                   texts with these as escapes, as \\udcff
    names that are no texts                              their texts
"""

from __future__ import annotations

import contextlib
import copy
import math
import numbers
from collections.abc import Mapping
from typing import Any

import msgspec

from .numbers import is_beyond_float, shown
from .result import DEFAULT_METRIC

__all__ = ["as_metrics", "as_number", "clean_texts", "encode_other", "recordable", "text_of"]

# Dicts and lists in one another: JSON of Python reads and writes a thousand.
DEPTH_MAX = 100
INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 64) - 1
# Elements of an array that is recorded as a list; of a larger one there is a text.
ELEMENTS_MAX = 1000
# Characters of a value in an error.
SHOWN_MAX = 60
# Between a metric and the keys below it, while a value is looked at: in no name that a program writes.
_BELOW = "\0"

_PLAIN = frozenset((float, bool, type(None)))
_LISTS = frozenset((list, tuple, set, frozenset))
_KEYS = frozenset((str, int, float, bool, type(None)))


def as_metrics(value: Any) -> dict[str, Any] | None:
    """Return a result as a dict of metrics: a number of any kind is the metric `_metric`; None: it is no result."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "_asdict"):  # TrainingResult of 2018
        return {key: field for key, field in value._asdict().items() if field is not None}
    number = as_number(value)
    return None if number is None else {DEFAULT_METRIC: number}


def recordable(metrics: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the metrics of a result in recorded form.

    Arrays of several numbers and other objects are copied: the trial may change them before the result leaves it.

    Raises:
        ValueError: a value cannot be recorded; the error names its metric.
    """
    found: dict[str, Any] = {}
    for key, value in metrics.items():
        kind = type(value)
        name = key if type(key) is str and key.isascii() else _name(key)
        # The usual kinds first: reports of fast functions cost microseconds.
        if kind in _PLAIN or (kind is int and INTEGER_MIN <= value <= INTEGER_MAX):
            found[name] = value
        else:
            found[name] = _recordable(value, name, 0)
    return found


def _recordable(value: Any, name: str, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, str):
        return value if value.isascii() else _clean(value)
    if kind is int:
        return value if INTEGER_MIN <= value <= INTEGER_MAX else _whole(value, name)
    if depth > DEPTH_MAX:
        raise ValueError(
            f"The metric {_metric_of(name)!r} has more than {DEPTH_MAX} dicts and lists in one another: report it as a "
            "text, or in parts."
        )
    if isinstance(value, dict):
        return {_key(key, name): _recordable(item, f"{name}{_BELOW}{key}", depth + 1) for key, item in value.items()}
    if kind in _LISTS:
        return kind(_recordable(item, name, depth + 1) for item in value)
    return _other(value, name)


def _other(value: Any, name: str) -> Any:
    """A value of a library: a number as Python's; others stay, if they have a text."""
    number = as_number(value)
    if number is not None:
        return number if type(number) is not int else _whole(number, name)
    if isinstance(value, numbers.Real) or _is_decimal(value):
        raise ValueError(_refusal(value, name, "is no number that a float can hold"))
    kind = getattr(value, "dtype", None)
    if kind is None or getattr(kind, "kind", "") == "O":  # other arrays have texts
        try:
            str(value)
            with contextlib.suppress(OverflowError):  # an integer beyond 64 bits, which the journal writes
                _encode(value)
        except Exception as error:
            why = f"cannot be written: {type(error).__name__}: {text_of(error)}"
            raise ValueError(_refusal(value, name, why)) from error
        _check_pickles(value, name)
    return _own(value)


def _own(value: Any) -> Any:
    """A copy of a value, in which no later change is seen; the value itself, if it cannot be copied."""
    with contextlib.suppress(Exception):
        # A tensor with a gradient is no leaf: deepcopy refuses it.
        return value.detach().clone() if callable(getattr(value, "detach", None)) else copy.deepcopy(value)
    return value


def _check_pickles(value: Any, name: str) -> None:
    """A result goes to the program as a pickle, and an error that came later would name no metric.

    Raises:
        ValueError: the value has no pickle.
    """
    from ..exceptions import SerializationError
    from ..store.values import serialize

    try:
        serialize(value)
    except SerializationError:
        raise ValueError(_refusal(value, name, "cannot be pickled")) from None


def _metric_of(name: str) -> str:
    """The metric, without the keys below it."""
    return name.partition(_BELOW)[0]


def _whole(value: int, name: str) -> int:
    """An integer, which a scheduler or a searcher may need as a float."""
    try:
        float(value)
    except OverflowError:
        raise ValueError(_refusal(value, name, "is no number that a float can hold")) from None
    return value


def _refusal(value: Any, name: str, why: str) -> str:
    text = text_of(value)
    text = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
    metric, *keys = name.split(_BELOW)
    where = f" at {'/'.join(keys)[:SHOWN_MAX]!r}" if keys else ""
    return (
        f"The metric {metric!r} cannot be recorded: its value{where} {text} ({type(value).__name__}) {why}.  Report "
        "another."
    )


def as_number(value: Any) -> int | float | bool | None:
    """Return a number of any library, or an array or tensor of one element, as Python's number; None: no number.

    A masked number is NaN.
    """
    kind = type(value)
    if kind is float or kind is int or kind is bool:
        return value  # type: ignore[no-any-return]
    with contextlib.suppress(Exception):
        if kind is str:
            return None
        if hasattr(value, "dtype"):
            if _count(value) != 1:
                return None
            if _is_masked(value):
                return math.nan  # item() gives the number behind the mask
            item = value.item() if hasattr(value, "item") else value.numpy().item()
            if isinstance(item, (bool, int, float)):
                return item
            # numpy.longdouble has no kind of Python's; a date, a text and a complex number are none.
            return float(item) if getattr(item, "dtype", None) is not None and item.dtype.kind == "f" else None
        if callable(getattr(value, "item", None)):  # a tensor of a library without dtypes
            item = value.item()
            return item if isinstance(item, (bool, int, float)) else None
        if isinstance(value, int):  # a subclass, as an enumeration's
            return int(value)
        if hasattr(kind, "__float__"):  # also a decimal, a fraction, a number of the user's
            return float(value)
    return None


def _is_masked(value: Any) -> bool:
    """Whether a number of numpy.ma is behind a mask; `mask` is a method in other libraries."""
    mask = getattr(value, "mask", None)
    return getattr(mask, "dtype", None) is not None and bool(mask)  # type: ignore[arg-type]


def _is_decimal(value: Any) -> bool:
    return type(value).__module__ in ("decimal", "_decimal", "_pydecimal") and isinstance(value, numbers.Number)


def _name(key: Any) -> str:
    """A metric's name: a text.

    Raises:
        ValueError: the key has no text.
    """
    try:
        return _clean(key if isinstance(key, str) else key.decode() if isinstance(key, bytes) else str(key))
    except Exception as error:
        raise ValueError(
            f"A metric has a name without a text, of type {type(key).__name__}: {type(error).__name__}.  Names of "
            "metrics are texts."
        ) from error


def _key(key: Any, name: str) -> Any:
    """A key of a dict below a metric: numbers stay."""
    if type(key) is str:
        return key if key.isascii() else _clean(key)
    if type(key) in _KEYS:
        return key if type(key) is not int or INTEGER_MIN <= key <= INTEGER_MAX else str(key)
    number = as_number(key)
    if number is not None:
        return number
    try:
        return _name(key)
    except ValueError as error:
        raise ValueError(
            f"The metric {_metric_of(name)!r} cannot be recorded: a key of it has no text.  {error}"
        ) from error


def _clean(text: str) -> str:
    """The text in UTF-8: parts of names of files that are none are shown as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def clean_texts(value: Any) -> Any:
    """Dicts, lists and texts of one value with all texts in UTF-8."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {clean_texts(key): clean_texts(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_texts(each) for each in value]
    return value


def text_of(value: Any) -> str:
    """A value as text, whatever its methods do; of an integer that no float can hold, its size."""
    if is_beyond_float(value):
        return shown(value)
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} without a text: {type(error).__name__}>"


def encode_other(value: Any) -> Any:
    """Convert a value unknown to msgpack: numbers as such, small arrays as lists, others as text."""
    number = as_number(value)
    if number is not None:
        return number
    with contextlib.suppress(Exception):
        if _count(value) <= ELEMENTS_MAX:
            return value.tolist()
    return _clean(text_of(value))


def _count(array: Any) -> int:
    """The number of elements of an array or tensor."""
    count = value() if callable(value := getattr(array, "numel", None)) else array.size
    if not isinstance(count, int):
        raise TypeError(type(array).__name__)
    return count


_encode = msgspec.msgpack.Encoder(enc_hook=encode_other).encode
