"""Result of init(): facts on the session."""

from __future__ import annotations

from typing import Any


class Context(dict[str, Any]):
    """Result of init(): a dict of facts on the session.  `with zray.init():` calls shutdown() at the end."""

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *error: object) -> None:
        _shut_down()

    @property
    def address_info(self) -> dict[str, Any]:
        """Facts on the session, under Ray's older name."""
        return self

    @property
    def address(self) -> str:
        """Address with which other programs join: init(address=...)."""
        return str(self["address"])

    @property
    def dashboard_url(self) -> str:
        """Address of the dashboard: always "", since zray has none."""
        return ""

    def _repr_html_(self) -> str:
        """The facts as a table, for a notebook."""
        from html import escape

        rows = (f"<tr><td>{escape(key)}</td><td>{escape(str(value))}</td></tr>" for key, value in self.items())
        return f"<table>{''.join(rows)}</table>"

    def disconnect(self) -> None:
        """Leave the session, as shutdown() does."""
        _shut_down()


def _shut_down() -> None:
    from .api import shutdown  # which imports this module

    shutdown()
