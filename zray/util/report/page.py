"""Page of a report: one HTML file with its style, script and content, which needs no network."""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from typing import Any

__all__: list[str] = []  # for `zray report`


def page_of(content: dict[str, Any]) -> str:
    """Return the page that shows the content of a report."""
    folder = files(__package__ or "")
    # `<` ends no script where it is escaped; the names of a program's functions may have anything.
    data = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(f"{content['program'] or 'zray'}: report of a run"),
        "STYLE": (folder / "report.css").read_text("utf-8"),
        "SCRIPT": (folder / "report.js").read_text("utf-8"),
        "DATA": data,
    }
    text = (folder / "report.html").read_text("utf-8")
    return re.sub("@([A-Z]+)@", lambda found: parts[found[1]], text)  # in one pass: parts are no places for others
