"""Patterns of files that stay behind, as git reads them in `.gitignore`.

A later pattern overrules an earlier one, `!` takes back, a slash in front or within binds a pattern to its folder, a
slash behind means folders only, and `**` stands for any number of folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

# A file of patterns is one that people write.
GITIGNORE_BYTES_MAX = 1 << 20


class Ignored:
    """The patterns of one folder."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.rules = [rule for rule in map(_rule, patterns) if rule is not None]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether a path below the folder stays behind; None: no pattern fits."""
        for expression, is_negated, folders_only in reversed(self.rules):
            if (is_folder or not folders_only) and expression.fullmatch(path):
                return not is_negated
        return None


def ignored_by_git(folder: str) -> Ignored | None:
    """The patterns of a folder's own `.gitignore`; None where there are none."""
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            return Ignored(file.read(GITIGNORE_BYTES_MAX).splitlines())
    except OSError:
        return None


def _rule(pattern: str) -> tuple[re.Pattern[str], bool, bool] | None:
    """(expression, whether it takes back, whether it means folders only)."""
    text = pattern.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    is_negated = text.startswith("!")
    text = text[is_negated:]
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    is_anchored = "/" in text
    text = text.removeprefix("./").lstrip("/")
    if not text:
        return None
    expression = _expression(text)
    try:
        return re.compile(expression if is_anchored else f"(?:.*/)?{expression}", re.DOTALL), is_negated, folders_only
    except re.error:
        return None  # as git: a bad range fits nothing


def _expression(text: str) -> str:
    found, place = [], 0
    while place < len(text):
        rest = text[place:]
        if rest.startswith("**/") and (place == 0 or text[place - 1] == "/"):
            found.append("(?:.*/)?")
            place += 3
        elif rest == "**" and (place == 0 or text[place - 1] == "/"):
            found.append(".+")
            place += 2
        elif rest[0] == "*":
            found.append("[^/]*")
            place += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            found.append("[^/]")
            place += 1
        elif (part := re.match(r"\[[!^]?\]?[^\]]*\]", rest)) is not None:
            inside = part[0][1:-1].replace("\\", "\\\\")
            negation = "^/" if inside[:1] in ("!", "^") else ""
            found.append(f"[{negation}{inside[bool(negation) :].replace('[', chr(92) + '[')}]")
            place += len(part[0])
        elif rest[0] == "\\" and len(rest) > 1:
            found.append(re.escape(rest[1]))
            place += 2
        else:
            found.append(re.escape(rest[0]))
            place += 1
    return "".join(found)
