"""The page of the dashboard: one HTML with its style and scripts inside, assembled from the files of a folder."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "page"
# In this order: later ones use what earlier ones define.
SCRIPTS = ("base.js", "link.js", "table.js", "chart.js", "stream.js", "views.js", "details.js", "main.js")


class Page(NamedTuple):
    """The page, also compressed, and the policy that names its style and its script by their hashes."""

    html: bytes
    compressed: bytes
    policy: str


def assembled() -> Page:
    """Read the files, and put them together."""
    style = (FOLDER / "style.css").read_text()
    script = "\n".join(['"use strict";', *((FOLDER / name).read_text() for name in SCRIPTS)])
    html = (FOLDER / "page.html").read_text().replace("/*style*/", style).replace("/*script*/", script).encode()
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )
    return Page(html, gzip.compress(html, mtime=0), policy)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
