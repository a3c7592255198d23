"""A file of hosts, checked.

    name: lab                       # of the cluster; the file's name by default
    head: node1
    nodes:
      - node2
      - {host: node3, user: anna, port: 2222, num_cpus: 8, resources: {disk: 1}, labels: {zone: a}}
    user: anna                      # for all hosts, as key: and ssh:, arguments of ssh
    venv: ~/project/.venv           # or python: /opt/python/bin/python3
    files: {project/data: data}     # a place there: a file or folder beside this file; or a list of these
    setup: [pip install -r project/requirements.txt]
    options: {object_store_memory: 2.0e+9, head_wait: 120}

A host may have `address:`, where other nodes reach it, and `options:` of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import marked, start_options
from .marked import Entry, Marked, Mistake

SETUPS = ("setup", "head_setup", "nodes_setup")
TOP = ("name", "head", "nodes", "user", "port", "key", "ssh", "python", "venv", "files", "exclude", *SETUPS, "options")
# Resources of a host stand beside its name; all other options stand in `options:`.
RESOURCES = ("num_cpus", "num_gpus", "memory", "resources", "labels")
OF_HOST = ("host", "user", "port", "key", "address", "python", "venv", *RESOURCES, "options")
# Keys of Ray's cluster launcher.
RAY = ("cluster_name", "provider", "auth", "file_mounts", "setup_commands", "available_node_types")
# A name for ssh: no option, no user, no white space.
HOST_NAME = re.compile(r"[A-Za-z0-9_.:%\[\]][-A-Za-z0-9_.:%\[\]]*")
USER_NAME = re.compile(r"[A-Za-z0-9_.][-A-Za-z0-9_.@\\+]*\$?")
CLUSTER_NAME = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,63}")
HEAD_PORT = 6379


@dataclass
class Host:
    """A host of the file."""

    name: str
    user: str = ""
    port: int = 0
    key: str = ""
    address: str = ""
    python: str = "python3"
    options: dict[str, Any] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)
    is_head: bool = False
    line: int = 0

    @property
    def label(self) -> str:
        """The name in messages and files: with the port of ssh, where one is given."""
        return f"{self.name}:{self.port}" if self.port else self.name

    def is_same(self, other: Host) -> bool:
        """Whether both name the same machine."""
        return (self.name, self.port) == (other.name, other.port)


@dataclass
class Cluster:
    """A file of hosts."""

    path: str
    name: str
    head: Host
    nodes: list[Host]
    ssh: list[str]
    files: list[tuple[str, str]]  # (place on the hosts, file or folder on this machine)
    exclude: list[str]
    notes: list[str] = field(default_factory=list)  # what a reader of Ray's YAML left out

    @property
    def hosts(self) -> list[Host]:
        return [self.head, *self.nodes]

    @property
    def folder(self) -> str:
        """Paths in the file are relative to its folder."""
        return os.path.dirname(os.path.abspath(self.path))


def load(path: str) -> Cluster:
    """Read and check a file of hosts.

    Raises:
        Mistake: the text names the file and the line.
        OSError: the file cannot be read.
        ImportError: PyYAML is not installed.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise Mistake(1, f"{path}, line 1: the file is no text in UTF-8.") from None
    try:
        return parse(text, path)
    except Mistake as mistake:
        raise Mistake(mistake.line, f"{path}, line {mistake.line}: {mistake}") from None


def parse(text: str, path: str) -> Cluster:
    """Return the content of a file of hosts.

    Raises:
        Mistake: something in it is wrong.
    """
    content = marked.read(text)
    if content.is_empty:
        raise Mistake(1, "the file is empty: it needs `head:` with the name of a host.")
    entries = marked.table_of(content, "the file")
    if "head" not in entries and any(key in entries for key in RAY):
        from .ray_file import as_hosts_file

        content, notes = as_hosts_file(content)
        entries = marked.table_of(content, "the file")
    else:
        notes = []
    cluster = _cluster(entries, content.line, path)
    cluster.notes = notes
    return cluster


def _cluster(entries: dict[str, Entry], line: int, path: str) -> Cluster:
    for key, entry in entries.items():
        if key not in TOP:
            raise marked.unknown(entry.line, key, TOP)
    if "head" not in entries:
        raise Mistake(line, "no host is the head: add `head: NAME`.")
    stem = re.sub(r"[^-A-Za-z0-9_.]", "-", os.path.splitext(os.path.basename(path))[0])
    name = _text(entries, "name", stem.lstrip("-.") or "hosts")
    if not CLUSTER_NAME.fullmatch(name):
        raise Mistake(
            entries["name"].line, f"`name:` must be a word of letters, digits, `-`, `_` and `.`, not {name!r}."
        )
    common = _options(entries, "options") if "options" in entries else {}
    setup = _texts(entries, "setup")
    head = _host(entries["head"].value, entries, common, is_head=True)
    head.setup = setup + _texts(entries, "head_setup")
    nodes = []
    if "nodes" in entries:
        for item in marked.list_of(entries["nodes"].value, "`nodes:`"):
            nodes.append(_host(item, entries, common, is_head=False))
            nodes[-1].setup = setup + _texts(entries, "nodes_setup")
    _check_once([head, *nodes])
    files = list(_files(entries, os.path.dirname(os.path.abspath(path))))
    return Cluster(path, name, head, nodes, _words(entries, "ssh"), files, _texts(entries, "exclude"))


def _check_once(hosts: list[Host]) -> None:
    for host in hosts:
        first = next(other for other in hosts if other.is_same(host))
        if first is not host:
            where = f"{'as the head, ' if first.is_head else ''}in line {first.line}"
            raise Mistake(host.line, f"{host.label} is there twice, first {where}: remove one.")


def _host(value: Marked, top: dict[str, Entry], common: dict[str, Any], *, is_head: bool) -> Host:
    what = "`head:`" if is_head else "an item of `nodes:`"
    if value.table is None:
        if value.is_empty or value.items is not None:
            raise Mistake(value.line, f"{what} must be the name of a host, or a table with `host:`.")
        entries = {"host": Entry(value.line, value)}
    else:
        entries = marked.table_of(value, what)
    for key, entry in entries.items():
        if key not in OF_HOST:
            raise marked.unknown(entry.line, key, OF_HOST, f" in {what}")
    if "host" not in entries:
        raise Mistake(value.line, f"{what} has no `host:`, the name of the machine.")
    host = Host(**_named(entries["host"].value, what), is_head=is_head, line=value.line)
    both = {**top, **entries}
    host.user = _user(both, host.user) if "user" in entries or not host.user else host.user
    host.port = host.port or _port(both)
    host.key = _text(both, "key", "")
    host.address = _text(entries, "address", "")
    # The Python of a host comes before that of all.
    own = entries if "python" in entries or "venv" in entries else top
    host.python = _python(own)
    host.options = {name: option for name, option in common.items() if name != "port" or is_head}
    host.options |= start_options.checked({key: entry for key, entry in entries.items() if key in RESOURCES})
    if "options" in entries:
        host.options |= _options(entries, "options")
    if is_head:
        host.options.setdefault("port", HEAD_PORT)
    return host


def _named(value: Marked, what: str) -> dict[str, Any]:
    """The parts of NAME, USER@NAME."""
    text = marked.plain_of(value, str, f"the name of a host in {what}").strip()
    user, at, name = text.rpartition("@")
    if not HOST_NAME.fullmatch(name) or (at and not USER_NAME.fullmatch(user)):
        raise Mistake(value.line, f"{text!r} is no name of a host: write NAME or USER@NAME, with `port:` beside it.")
    if re.fullmatch(r"[^:]+:\d+", name):
        name, _, port = name.partition(":")
        raise Mistake(value.line, f"{text!r} has a port: write `{{host: {name}, port: {port}}}`.")
    return {"name": name, "user": user}


def _user(entries: dict[str, Entry], default: str) -> str:
    user = _text(entries, "user", default)
    if user and not USER_NAME.fullmatch(user):
        raise Mistake(entries["user"].line, f"{user!r} is no name of a user.")
    return user


def _port(entries: dict[str, Entry]) -> int:
    if "port" not in entries:
        return 0
    port = marked.plain_of(entries["port"].value, int, "`port:`")
    if not 0 < port < 65536:
        raise Mistake(entries["port"].line, f"`port:` is the port of ssh, from 1 to 65535, not {port}.")
    return port


def _python(entries: dict[str, Entry]) -> str:
    if "python" in entries and "venv" in entries:
        raise Mistake(entries["venv"].line, "give `python:` or `venv:`, not both.")
    if "venv" in entries:
        return os.path.join(_text(entries, "venv", ""), "bin", "python")
    return _text(entries, "python", "python3")


def _options(entries: dict[str, Entry], key: str) -> dict[str, Any]:
    return start_options.checked(marked.table_of(entries[key].value, f"`{key}:`"))


def _text(entries: dict[str, Entry], key: str, default: str) -> str:
    return marked.plain_of(entries[key].value, str, f"`{key}:`").strip() if key in entries else default


def _texts(entries: dict[str, Entry], key: str) -> list[str]:
    return marked.texts_of(entries[key].value, f"`{key}:`") if key in entries else []


def _words(entries: dict[str, Entry], key: str) -> list[str]:
    """Return arguments: the items of a list, or the words of a text."""
    import shlex

    if key not in entries:
        return []
    value = entries[key].value
    try:
        return _texts(entries, key) if value.items is not None else shlex.split(_text(entries, key, ""))
    except ValueError as error:
        raise Mistake(value.line, f"`{key}:` cannot be split into words: {error}.") from None


def _files(entries: dict[str, Entry], folder: str) -> Iterator[tuple[str, str]]:
    """Yield (place on the hosts, file or folder on this machine)."""
    if "files" not in entries:
        return
    value = entries["files"].value
    if value.table is not None:
        pairs = [
            (key, marked.plain_of(entry.value, str, f"the file for `{key}:`"), entry.line)
            for key, entry in marked.table_of(value, "`files:`").items()
        ]
    else:
        pairs = [
            (text, text, item.line)
            for item in marked.list_of(value, "`files:`, a table or a list,")
            for text in [marked.plain_of(item, str, "an item of `files:`")]
        ]
    for place, name, line in pairs:
        path = os.path.normpath(os.path.join(folder, os.path.expanduser(name)))
        if not os.path.exists(path):
            raise Mistake(line, f"the file {name!r} of `files:` does not exist on this machine, at {path}.")
        if value.table is None and (os.path.isabs(place) or os.path.normpath(place).startswith("..")):
            raise Mistake(line, f"{name!r} lies outside of the file's folder: write `PLACE THERE: {name}`.")
        yield place, path
