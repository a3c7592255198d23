"""Pickles with a limit of bytes and of time, for values that may be of any size: the state of an actor that failed.

The value is pickled as any other (values.py), and the pickle ends when the limit is reached.  Memory never holds much
more than the limit: large buffers are counted before they are copied.
"""

from __future__ import annotations

import io
import time
from pickle import PickleBuffer
from typing import Any

from ..object_ref import collect_refs
from . import layout, libraries
from .values import careful_pickler


class OverLimit(Exception):
    """The value has too many bytes, or its pickle takes too long."""


class Budget:
    """Bytes and seconds that pickles may take together."""

    def __init__(self, size: int, seconds: float) -> None:
        self.size_max, self.seconds = size, seconds
        self.left = size  # bytes
        self.deadline = time.perf_counter() + seconds

    def take(self, size: int = 0) -> None:
        """Count bytes, and look at the clock.

        Raises:
            OverLimit: nothing is left.
        """
        self.left -= size
        if self.left < 0:
            raise OverLimit(f"it has more than {self.size_max:,} bytes")
        if time.perf_counter() > self.deadline:
            raise OverLimit(f"its pickle takes more than {self.seconds:g} s")


class _File(io.BytesIO):
    """A file in memory that counts what is written."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self.budget = budget

    def write(self, data: Any) -> int:
        self.budget.take(memoryview(data).nbytes)
        return super().write(data)


def pickled_within(value: Any, budget: Budget) -> layout.Serialized:
    """Return a value's pickle with its buffers and the ids of the refs inside.  Bytes of a failure are not counted.

    Raises:
        OverLimit: the budget does not suffice.
        any error of the code of the value's classes.
    """
    libraries.look_around()
    left, buffers = budget.left, list[Any]()

    def take_buffer(buffer: PickleBuffer) -> None:
        view = buffer.raw()
        budget.take(view.nbytes)
        buffers.append(view)

    class Pickler(careful_pickler()):  # type: ignore[misc]  # known when cloudpickle is imported
        def reducer_override(self, part: Any) -> Any:
            budget.take()
            return super().reducer_override(part)

    try:
        with collect_refs() as ids:
            file = _File(budget)
            Pickler(file, 5, take_buffer).dump(value)
    except BaseException:
        budget.left = left
        raise
    return layout.pickle_with_buffers(file.getvalue(), buffers, tuple(ids))
