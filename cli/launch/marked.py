"""YAML with the line of each key and value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Type = TypeVar("Type")
KINDS = {str: "text", int: "a whole number", bool: "true or false", float: "a number"}


class Mistake(Exception):
    """A mistake in a file, with its line; the text says what is right."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass
class Entry:
    """A key of a table, and its value."""

    line: int
    value: Marked


@dataclass
class Marked:
    """A value with its line: a table, a list, or a plain value."""

    line: int
    plain: Any = None
    items: list[Marked] | None = None
    table: dict[str, Entry] | None = field(default=None)

    @property
    def is_empty(self) -> bool:
        """Whether the value was left out."""
        return self.items is None and self.table is None and self.plain is None

    def kind(self) -> str:
        """The type in words."""
        if self.table is not None:
            return "a table"
        if self.items is not None:
            return "a list"
        return "nothing" if self.plain is None else f"{KINDS.get(type(self.plain), 'text')} ({self.plain!r})"

    def data(self) -> Any:
        """The value without lines."""
        if self.table is not None:
            return {key: entry.value.data() for key, entry in self.table.items()}
        if self.items is not None:
            return [item.data() for item in self.items]
        return self.plain


def read(text: str) -> Marked:
    """Return the content of a YAML file.

    Raises:
        Mistake: the text is no YAML, or has a key twice.
        ImportError: PyYAML is not installed.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return Marked(1) if node is None else _marked(yaml, yaml.constructor.SafeConstructor(), node, 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = (error.problem or error.context or "").replace("\t", "tab")
        raise Mistake(mark.line + 1 if mark else 1, f"the file is no YAML: {why}.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise Mistake(1, f"the file is no YAML: {' '.join(str(error).split())}.") from None


# Deeper tables, as of an anchor that contains itself, are a mistake.
DEPTH_MAX = 20


def _marked(yaml: Any, constructor: Any, node: Any, depth: int) -> Marked:
    line = node.start_mark.line + 1
    if depth > DEPTH_MAX:
        raise Mistake(line, f"tables lie more than {DEPTH_MAX} levels deep.")
    if isinstance(node, yaml.SequenceNode):
        return Marked(line, items=[_marked(yaml, constructor, item, depth + 1) for item in node.value])
    if isinstance(node, yaml.ScalarNode):
        plain = constructor.construct_object(node)
        # To YAML 1.1, `1:8` is a number of base 60.
        return Marked(line, node.value if type(plain) is int and ":" in node.value else plain)
    table: dict[str, Entry] = {}
    for key_node, value_node in node.value:
        key_line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise Mistake(key_line, "a key must be a word.")
        key = key_node.value
        if key in table:
            raise Mistake(key_line, f"`{key}:` is there twice, first in line {table[key].line}: remove one.")
        table[key] = Entry(key_line, _marked(yaml, constructor, value_node, depth + 1))
    return Marked(line, table=table)


def table_of(value: Marked, what: str) -> dict[str, Entry]:
    """Return the entries of a table; those without a value are left out.

    Raises:
        Mistake: the value is no table.
    """
    if value.table is None:
        raise Mistake(value.line, f"{what} must be a table, like `key: value`, not {value.kind()}.")
    return {key: entry for key, entry in value.table.items() if not entry.value.is_empty}


def list_of(value: Marked, what: str) -> list[Marked]:
    """Return the items of a list.

    Raises:
        Mistake: the value is no list.
    """
    if value.items is None:
        raise Mistake(value.line, f"{what} must be a list, with `- ` before each item, not {value.kind()}.")
    return value.items


def texts_of(value: Marked, what: str) -> list[str]:
    """Return a text, or the texts of a list."""
    if value.items is None:
        return [plain_of(value, str, what)]
    return [plain_of(item, str, f"an item of {what}") for item in value.items]


def plain_of(value: Marked, kind: type[Type], what: str) -> Type:
    """Return a plain value of a type; a whole number is a number too.

    Raises:
        Mistake: the value has another type, or is an empty text.
    """
    plain: Any = value.plain
    if kind is float and type(plain) is int:
        plain = float(plain)
    if type(plain) is not kind:
        raise Mistake(value.line, f"{what} must be {KINDS[kind]}, not {value.kind()}.")
    if kind is str and (not str(plain).strip() or "\0" in str(plain)):
        raise Mistake(value.line, f"{what} must be a text that is not empty.")
    found: Type = plain
    return found


def unknown(line: int, key: str, known: Iterable[str], where: str = "") -> Mistake:
    """Return the mistake of an unknown key, with the right spelling or all keys."""
    known = list(known)
    spelled = key.replace("-", "_").lower()
    close = difflib.get_close_matches(spelled, known, 1, 0.6)
    advice = f"Did you mean `{close[0]}:`?" if close else f"Known are {', '.join(sorted(known))}."
    return Mistake(line, f"`{key}:` is not known{where}.  {advice}")
