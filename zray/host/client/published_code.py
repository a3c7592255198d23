"""Code that a process has published to its node."""

from __future__ import annotations

from ...wire.tasks import FUNCTIONS_BYTES_MAX, FUNCTIONS_COUNT_MAX, Function, why_too_many


class Published:
    """Functions and classes that this process has published, and their size."""

    def __init__(self) -> None:
        self.ids: set[bytes] = set()
        self.bytes = 0

    def add(self, function: Function) -> bool:
        """Record a function.  Returns whether it is new, and must be sent.

        Raises:
            ValueError: there are too many.
        """
        if function.function_id in self.ids:
            return False
        size = self.bytes + len(function.code)
        if len(self.ids) >= FUNCTIONS_COUNT_MAX or size > FUNCTIONS_BYTES_MAX:
            raise ValueError(f"{function.name} is not submitted: this process {why_too_many()}")
        self.ids.add(function.function_id)
        self.bytes = size
        return True
