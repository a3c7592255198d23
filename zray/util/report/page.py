"""Page of a report: one HTML file with its style, script and content, which needs no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

__all__: list[str] = []  # for `zray report`


def page_of(content: dict[str, Any]) -> str:
    """Return the page that shows the content of a report."""
    folder = files(__package__ or "")
    style, *scripts = [
        (folder / name).read_text("utf-8") for name in ("report.css", "tables.js", "timeline.js", "report.html")
    ]
    text, script = scripts.pop(), "".join(scripts)
    parts = {
        "TITLE": html.escape(f"{content['program'] or 'zray'}: report of a run"),
        # The browser runs this script and nothing else, and asks nobody for anything.
        "POLICY": f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'",
        "STYLE": style,
        "SCRIPT": script,
        # `<` ends no script where it is escaped; the names of a program's functions may have anything.
        "DATA": json.dumps(content, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return re.sub("@([A-Z]+)@", lambda found: parts[found[1]], text)  # in one pass: parts are no places for others


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
