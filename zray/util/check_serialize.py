"""zray.util.inspect_serializability: which parts of a value or function cannot be sent to another process."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from ..store.inspect import failure_of, parts_of

__all__ = ["FailureTuple", "inspect_serializability"]

RULE = "=" * 80
# A search tries to pickle each part: so many at most, since one value may have millions.
TRIALS_MAX = 10_000


class FailureTuple:
    """A part that cannot be serialized.

    `obj`: the part; `name`: how to find the part; `parent`: the enclosing object.
    """

    def __init__(self, obj: Any, name: str, parent: Any) -> None:
        self.obj, self.name, self.parent = obj, name, parent

    def __repr__(self) -> str:
        return f"FailTuple({self.name} [obj={_short(self.obj)}, parent={_short(self.parent)}])"


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: TextIO | None = None
) -> tuple[bool, set[FailureTuple]]:
    """Find the parts of a value or function that cannot be serialized, and print how they are found.

        is_sound, failures = zray.util.inspect_serializability(train)

    Args:
        base_obj: a value, function or class.
        name: its name in the text; default: its own.
        depth: how many levels of parts are searched.  Default: 3.
        print_file: a text stream for the result; default: standard output.

    Returns:
        Whether base_obj can be serialized, and the set of the deepest parts that cannot, as FailureTuple.
    """
    search = _Search(print_file or sys.stdout)
    said = name or getattr(base_obj, "__qualname__", None) or type(base_obj).__name__
    search.say(f"{RULE}\nChecking Serializability of {_short(base_obj)}\n{RULE}", 0)
    error = failure_of(base_obj)
    if error is not None:
        search.look(base_obj, said, None, error, depth, 0)
        search.say(RULE, 0)
        for failure in search.failures:
            search.say(f"{failure!r} cannot be serialized.", 0)
        search.say(
            "Create it inside of the function or class that uses it, pass what it is made from, or register a "
            f"serializer (zray.util.register_serializer).\n{RULE}",
            0,
        )
    return error is None, set(search.failures)


class _Search:
    """A search."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.failures: list[FailureTuple] = []
        self.seen: set[int] = set()
        self.trials = TRIALS_MAX

    def say(self, text: str, level: int) -> None:
        """Print a line."""
        print("    " * level + text, file=self.file)

    def look(self, value: Any, name: str, parent: Any, error: BaseException, depth: int, level: int) -> None:
        """Search a value that fails."""
        self.seen.add(id(value))
        self.say(f"!!! FAIL serialization of {name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}", level)
        before = len(self.failures)
        if depth > 0:
            for said, part in parts_of(value):
                if self.trials <= 0:
                    self.say(f"The search ends here, after {TRIALS_MAX:,} parts.", level)
                    break
                if id(part) in self.seen:
                    continue
                self.trials -= 1
                cause = failure_of(part)
                if cause is not None:
                    self.say(f"Serializing {said} {_short(part)}...", level + 1)
                    self.look(part, said, value, cause, depth - 1, level + 1)
        if len(self.failures) == before:
            self.failures.append(FailureTuple(value, name, parent))


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # It is the user's code.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 200 else text[:197] + "..."
