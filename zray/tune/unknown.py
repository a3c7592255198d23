"""Names unknown to a front door: errors with the nearest known name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

__all__ = ["UnknownArgumentError", "checks_names", "nearest", "not_built", "shown", "unknown_name"]

Class = TypeVar("Class", bound=type)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the most similar known name, in whatever case; empty: none is similar."""
    folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), folded, 1, 0.6)
    return f"  Did you mean {folded[close[0]]!r}?" if close else ""


def shown(value: Any) -> str:
    """A value in a message: the name of a class, or of the type of anything else."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def unknown_name(place: str, kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for a name unknown to a front door.

    Args:
        place: the front door, as "tune.run".
        kind: what the name is, as "argument".
        name: the name.
        known: the names that there are.
    """
    names = [each for each in known if not each.startswith("_")]
    return f"{place} has no {kind} {name!r}.{nearest(str(name), names)}  It has: {', '.join(names)}."


def not_built(full: str, kind: str, name: str) -> str:
    """Return the message for a part that Ray has and zray has not, with the advice for it; empty: no such part.

    Args:
        full: the name under which Ray's names have it, as "zray.tune.search.bayesopt".
        kind: what the part is, as "searcher".
        name: the name that the program gives.
    """
    from ..ray_names import absent

    return str(absent.not_built(absent.NAMES, full, f"the {kind} {name!r}")) if full in absent.NAMES else ""


class UnknownArgumentError(TypeError):
    """A constructor does not have an argument."""


def checks_names(
    place: str, hints: Mapping[str, str] | None = None, also: Iterable[str] = ()
) -> Callable[[Class], Class]:
    """Let a class name the nearest argument where a program passes one that its constructor does not have.

    Args:
        place: the class, as "tune.Tuner".
        hints: for names of other front doors, what to write instead.
        also: arguments that its signature does not show.
    """
    taken = frozenset(also)

    def decorate(cls: Class) -> Class:
        init = cls.__init__  # type: ignore[misc]
        known = list(inspect.signature(init).parameters)[1:]

        @functools.wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            for name in kwargs:
                if name not in known and name not in taken:
                    hint = f"  Write {hints[name]}." if hints and name in hints else ""
                    raise UnknownArgumentError(unknown_name(place, "argument", name, known) + hint)
            init(self, *args, **kwargs)

        cls.__init__ = checked  # type: ignore[misc]
        return cls

    return decorate
