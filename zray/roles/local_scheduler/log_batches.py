"""An actor's recovery data, in messages of bounded size (dialog of wards)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ...wire.wards import LoggedCall, NestedAnswer

T = TypeVar("T")
# The limits of a message with calls.
BATCH_BYTES_MAX = 1 << 20
BATCH_COUNT_MAX = 1000


def in_batches(items: Iterable[T], size_of: Callable[[T], int]) -> Iterable[list[T]]:
    batch: list[T] = []
    size = 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if size > BATCH_BYTES_MAX or len(batch) == BATCH_COUNT_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def size_of_call(call: LoggedCall) -> int:
    values = call.answer.values if call.answer is not None else []
    return len(call.spec.args) + sum(len(value) for value in values if type(value) is bytes)


def size_of_nested(answer: NestedAnswer) -> int:
    return sum(len(value) for value in answer.values if type(value) is bytes)
