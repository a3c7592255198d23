"""The parts of a runtime that has left its session."""

from __future__ import annotations

from typing import Any

from .connection import Connection


class Gone:
    """Stands for a part of a runtime that has left its session: whoever uses it hears that."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        raise self._connection.lost()
