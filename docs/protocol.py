"""Writes docs/protocol.md from zray/wire: `scripts/protocol`.  tests/wire/test_document.py compares.

A field's comment stands behind the field, or in the lines above.  All other text comes from docstrings.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from zray import ids
from zray.wire import (
    actors,
    chain,
    counts,
    drains,
    environment,
    events,
    gcs,
    groups,
    handles,
    homes,
    hosting,
    hosts,
    limits,
    link,
    listing,
    message,
    objects,
    orders,
    output,
    reasons,
    relay,
    scheduling,
    session,
    shards,
    task_spec,
    tasks,
    wards,
)
from zray.wire.allowed import ALLOWED
from zray.wire.codec import MESSAGE_TYPES, Envelope

DIALOGS = (
    session,
    tasks,
    objects,
    actors,
    homes,
    handles,
    wards,
    reasons,
    listing,
    events,
    scheduling,
    groups,
    gcs,
    chain,
    hosts,
    orders,
    output,
    drains,
    relay,
    hosting,
    counts,
    shards,
)

# Names in routes -> words.  The last five are no kinds of addresses: these parties of a connection have none yet.
PARTIES = {
    "driver": "driver",
    "worker": "worker",
    "command": "command line",
    "host": "host",
    "local": "local scheduler",
    "objects": "object manager",
    "global": "global scheduler",
    "gcs": "GCS shard",
    "shard": "stand-in of a replicated shard",
    "chains": "chain master",
    "monitor": "monitor",
    "services": "register of services",
    "hosting": "hosting",
    "counts": "scheduler count",
    "replicas": "replica keeper",
    "tunnels": "tunnels of a host",
    "relay": "relay",
    "node": "node",
    "head": "head",
    "joiner": "newcomer",
    "reader": "reader",
    "neighbour": "neighbouring host",
}

# Thousands of message names would cover the guides in the search.
HEAD = """\
---
search:
  exclude: true
---

# The protocol

Generated from `zray/wire/` by `scripts/protocol`; a test compares the two.

{message}

## Frames

{link}

{envelope}

A process connects its DEALER to the node's ROUTER, an `ipc://` socket in a folder that only its user may enter.
The first frame holds a `Hello`. The protocol version is {version}. Another version is refused in words that name both.
One ZeroMQ message is one frame: one msgpack array `[epoch, sequence, acknowledged, messages]`.

A frame is refused as a whole if it, or a message in the frame, has another form. Examples are an unknown tag, a field
too many or too few, and an id of a wrong length. Such a frame is counted, logged with its sender, and costs no other
process anything.

## Limits

{limits}

| type | | at most |
|---|---|---|
{lengths}

## Parties

An address ends in its kind and a number: `9f.../gcs-0`. The tables below use words for the kinds.

| kind | words |
|---|---|
{parties}

## All messages

| tag | message | route |
|---:|---|---|
{index}

## Permissions

The permission to send a message follows from its route (`zray/wire/allowed.py`). A message without permission reaches
no role. A node sends to its own processes without permission. Within a host, roles need no permission either.

| sender | receiver | messages |
|---|---|---|
{permissions}
"""


def prose(docstring: str | None) -> str:
    """A docstring as Markdown, with indented text as a code block."""
    lines: list[str] = []
    is_code = False
    for line in inspect.cleandoc(docstring or "").splitlines():
        wants_code = line.startswith("    ") or (is_code and not line)
        if wants_code != is_code:
            lines.append("```text" if wants_code else "```\n")
            is_code = wants_code
        lines.append(line[4:] if is_code else line)
    while lines and not lines[-1]:
        lines.pop()
    if is_code:
        lines.append("```")
    return "\n".join(lines).replace("\n\n```\n", "\n```\n")


def dialog_prose(module: ModuleType) -> tuple[str, str]:
    """A dialog's title, and the text of its docstring; the second paragraph is the table of senders and messages."""
    title, _, rest = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    table, _, further = textwrap.dedent(rest).partition("\n\n")
    text = f"```text\n{table}\n```"
    return title.removeprefix("Dialog: ").rstrip("."), text + ("\n\n" + further if further else "")


def sentence(text: str) -> str:
    """A text for a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def in_words(route: str) -> str:
    """A route with words for its names."""
    return re.sub(r"\w+", lambda name: PARTIES[name[0]], route)


def permissions() -> str:
    """The table of permissions: a row for each pair of sender and receiver."""
    order = list(PARTIES)
    pairs = sorted(ALLOWED, key=lambda pair: (order.index(pair[0]), order.index(pair[1])))
    return "\n".join(
        f"| {PARTIES[sender]} | {PARTIES[receiver]} | {names_of(ALLOWED[sender, receiver])} |"
        for sender, receiver in pairs
    )


def names_of(messages: Iterable[type[message.Message]]) -> str:
    """Names of messages, in order."""
    return ", ".join(sorted(kind.__name__ for kind in messages))


def class_nodes(module: ModuleType) -> Iterator[tuple[type, ast.ClassDef, list[str]]]:
    """The structs of a module, with their source."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield getattr(module, node.name), node, lines


def type_text(annotation: ast.expr) -> str:
    """A type, followed by its bounds."""
    return sentence(re.sub(r"Annotated\[(\w+), Meta\((.*?)\)\]", r"\1: \2", unqualified(annotation)))


def unqualified(expression: ast.expr) -> str:
    """The text of an expression, its names without their modules: the page has all of them."""
    return re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", ast.unparse(expression))


def fields(node: ast.ClassDef, lines: list[str]) -> str:
    """A table of fields: name, type, default, comment."""
    rows = []
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            comment = lines[item.end_lineno - 1][item.end_col_offset :].strip().removeprefix("#")
            above = item.lineno - 2
            while lines[above].strip().startswith("#"):
                comment = lines[above].strip().removeprefix("#") + " " + comment
                above -= 1
            default = f"`{unqualified(item.value)}`" if item.value is not None else ""
            rows.append(f"| `{item.target.id}` | `{type_text(item.annotation)}` | {default} | {sentence(comment)} |")
    if not rows:
        return ""
    return "\n".join(["| field | type | default | |", "|---|---|---|---|", *rows]) + "\n"


def struct_section(struct: type[Any], node: ast.ClassDef, lines: list[str]) -> str:
    """The section of a message or a record."""
    tag = struct.__struct_config__.tag
    if tag is None:
        head = f"### {node.name} (a record)"
    else:
        head = f"### {tag} {node.name}\n\n*{in_words(message.ROUTES[tag])}*"
    return f"{head}\n\n{inspect.cleandoc(struct.__doc__ or '')}\n\n{fields(node, lines)}"


def dialog_section(module: ModuleType) -> str:
    """The section of a dialog: a module of messages."""
    title, text = dialog_prose(module)
    found = [item for item in class_nodes(module) if hasattr(item[0], "__struct_config__")]
    return f"## {title[0].upper()}{title[1:]}\n\n{text}\n\n" + "\n".join(struct_section(*item) for item in found)


def lengths() -> str:
    """A table of the types with a length, and their purposes: the comments above their numbers."""
    source = inspect.getsource(limits)
    lines = source.splitlines()
    said: dict[str, str] = {}
    rows = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, text = node.targets[0].id, unqualified(node.value)
        above = node.lineno - 2
        while lines[above].startswith("#"):
            said[name] = lines[above].removeprefix("# ") + " " + said.get(name, "")
            above -= 1
        if match := re.match(r"Annotated\[(.*), Meta\(max_length=(\w+)\)\]$", text):
            meaning = sentence(said.get(match[2], "").removeprefix("Of ").rstrip(" ."))
            rows.append(f"| `{name}` | `{match[1]}`: {meaning} | {getattr(limits, match[2]):,} |")
    return "\n".join(rows)


def document() -> str:
    """The whole page."""
    index = [f"| {tag} | {kind.__name__} | {in_words(message.ROUTES[tag])} |" for tag, kind in MESSAGE_TYPES.items()]
    head = HEAD.format(
        message=prose(message.__doc__),
        link=prose(link.__doc__),
        envelope=prose(Envelope.__doc__),
        version=message.PROTOCOL_VERSION,
        limits=prose(limits.__doc__),
        lengths=lengths(),
        parties="\n".join(f"| `{name}` | {words} |" for name, words in PARTIES.items()),
        index="\n".join(index),
        permissions=permissions(),
    )
    specs = [struct_section(*item) for item in class_nodes(task_spec)]
    title = "## Task specs\n\n" + prose(task_spec.__doc__) + "\n\n"
    specs += ["## Environments\n\n" + prose(environment.__doc__) + "\n"]
    specs += [struct_section(*item) for item in class_nodes(environment)]
    identifiers = "## Identifiers\n\n" + prose(ids.__doc__) + "\n"
    page = "\n".join([head, *map(dialog_section, DIALOGS), title + "\n".join(specs), identifiers])
    return re.sub(r"\n{3,}", "\n\n", page)


if __name__ == "__main__":
    print(document(), end="")
