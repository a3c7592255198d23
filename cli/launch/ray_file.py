"""Ray's cluster YAML with `provider: {type: local}`, as a file of hosts."""

from __future__ import annotations

import shlex
from typing import Any

from . import marked, start_options
from .marked import Entry, Marked, Mistake

KNOWN = (
    "cluster_name",
    "provider",
    "auth",
    "file_mounts",
    "rsync_exclude",
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)
# Keys that say nothing about given hosts, or that zray does by itself.
IGNORED = (
    "min_workers",
    "max_workers",
    "upscaling_speed",
    "idle_timeout_minutes",
    "cluster_synced_files",
    "file_mounts_sync_continuously",
    "rsync_filter",
    "available_node_types",
    "head_node_type",
)
OF_PROVIDER = ("type", "head_ip", "worker_ips", "external_head_ip", "cache_stopped_nodes", "coordinator_address")
OF_AUTH = ("ssh_user", "ssh_private_key", "ssh_proxy_command")
# Options of `ray start` that `zray start` has under the same name.
START_WORDS = ("ray start", "zray start")


def as_hosts_file(content: Marked) -> tuple[Marked, list[str]]:
    """Return the same hosts as a file of zray's own, and notes on what was left out.

    Raises:
        Mistake: a key is unknown or has a wrong type; the hosts are not given ones.
    """
    entries, notes = marked.table_of(content, "the file"), []
    for key, entry in entries.items():
        if key == "docker" and not marked.table_of(entry.value, "`docker:`"):
            continue
        if key in IGNORED:
            notes.append(f"line {entry.line}: `{key}:` has no effect: the hosts are those of `provider:`")
        elif key == "docker":
            raise Mistake(entry.line, "`docker:` is not there: remove the key, and run `zray start` in containers.")
        elif key not in KNOWN:
            raise marked.unknown(entry.line, key, (*KNOWN, *IGNORED))
    made = _hosts(entries, content.line)
    _rename(entries, made)
    for key, role in (("head_start_ray_commands", "head"), ("worker_start_ray_commands", "nodes")):
        if key in entries:
            notes += _start(entries[key], made, role)
    return Marked(content.line, table=made), notes


def _hosts(entries: dict[str, Entry], line: int) -> dict[str, Entry]:
    if "provider" not in entries:
        raise Mistake(line, "no host is named: add `provider: {type: local, head_ip: ..., worker_ips: [...]}`.")
    provider = marked.table_of(entries["provider"].value, "`provider:`")
    _check_known(provider, OF_PROVIDER, "`provider:`")
    where = entries["provider"].line
    kind = provider.get("type")
    if kind is None or kind.value.plain != "local":
        shown = "nothing" if kind is None else repr(kind.value.data())
        raise Mistake(kind.line if kind else where, f"`type:` must be `local`, hosts that are there, not {shown}.")
    if "coordinator_address" in provider:
        raise Mistake(provider["coordinator_address"].line, "a coordinator is not there: name hosts by `head_ip:`.")
    if "head_ip" not in provider:
        raise Mistake(where, "no host is the head: add `head_ip:` to `provider:`.")
    head = provider["head_ip"]
    if "external_head_ip" in provider:
        outside = provider["external_head_ip"]
        table = {"host": outside, "address": head}
        head = Entry(head.line, Marked(head.line, table=table))
    made = {"head": head}
    if "worker_ips" in provider:
        made["nodes"] = provider["worker_ips"]
    return made


def _rename(entries: dict[str, Entry], made: dict[str, Entry]) -> None:
    for theirs, ours in (("cluster_name", "name"), ("file_mounts", "files"), ("rsync_exclude", "exclude")):
        if theirs in entries and not _is_bare(entries[theirs].value):
            made[ours] = entries[theirs]
    for theirs, ours in (
        ("initialization_commands", "setup"),
        ("setup_commands", "setup"),
        ("head_setup_commands", "head_setup"),
        ("worker_setup_commands", "nodes_setup"),
    ):
        if theirs in entries:
            entry = entries[theirs]
            items = marked.list_of(entry.value, f"`{theirs}:`")
            before = made[ours].value.items or [] if ours in made else []
            made[ours] = Entry(entry.line, Marked(entry.line, items=before + items))
    if "auth" in entries:
        auth = marked.table_of(entries["auth"].value, "`auth:`")
        _check_known(auth, OF_AUTH, "`auth:`")
        for theirs, ours in (("ssh_user", "user"), ("ssh_private_key", "key")):
            if theirs in auth:
                made[ours] = auth[theirs]
        if "ssh_proxy_command" in auth:
            entry = auth["ssh_proxy_command"]
            text = f"ProxyCommand={marked.plain_of(entry.value, str, '`ssh_proxy_command:`')}"
            made["ssh"] = Entry(
                entry.line, Marked(entry.line, items=[Marked(entry.line, "-o"), Marked(entry.line, text)])
            )


def _is_bare(value: Marked) -> bool:
    return value.table == {} or value.items == []


def _check_known(entries: dict[str, Entry], known: tuple[str, ...], where: str) -> None:
    for key, entry in entries.items():
        if key not in known:
            raise marked.unknown(entry.line, key, known, f" in {where}")


def _start(entry: Entry, made: dict[str, Entry], role: str) -> list[str]:
    """Take the options of `ray start` over; return notes on all else that the commands do."""
    notes = []
    for item in marked.list_of(entry.value, "commands that start Ray"):
        text = marked.plain_of(item, str, "a command")
        for command in text.replace("&&", ";").split(";"):
            command = command.strip()
            if any(words in command for words in START_WORDS):
                options, left_out = _options_of(command, item.line)
                _give(made, role, options, item.line)
                notes += [f"line {item.line}: `{word}` of `ray start` is left out" for word in left_out]
            elif command and not command.startswith(("ray stop", "ulimit", "export RAY_")):
                notes.append(f"line {item.line}: `{command}` is not run: `setup_commands:` are")
    return notes


def _options_of(command: str, line: int) -> tuple[dict[str, Entry], list[str]]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Mistake(line, f"the command cannot be split into words: {error}.") from None
    known, found, left_out = start_options.parameters(), {}, []
    words = [word for word in words if word not in ("ray", "zray", "start", "--head")]
    while words:
        name, equals, text = words.pop(0).partition("=")
        if not equals and words and not words[0].startswith("--"):
            text = words.pop(0)
        key = name.lstrip("-").replace("-", "_")
        if key == "address":
            continue
        if key in known and (value := _plain(text)) is not None:
            found[key] = Entry(line, _marked(value, line))
        else:
            left_out.append(name)
    return found, left_out


def _plain(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _marked(value: Any, line: int) -> Marked:
    if isinstance(value, dict):
        return Marked(line, table={str(key): Entry(line, _marked(item, line)) for key, item in value.items()})
    return Marked(line, value)


def _give(made: dict[str, Entry], role: str, options: dict[str, Entry], line: int) -> None:
    """Give options to the head, or to each other host."""
    if not options or role not in made:
        return
    table = Marked(line, table=options)
    if role == "head":
        made["head"] = Entry(made["head"].line, _with_options(made["head"].value, table))
    else:
        nodes = made["nodes"]
        items = [_with_options(item, table) for item in marked.list_of(nodes.value, "`worker_ips:`")]
        made["nodes"] = Entry(nodes.line, Marked(nodes.value.line, items=items))


def _with_options(host: Marked, options: Marked) -> Marked:
    table = dict(host.table) if host.table is not None else {"host": Entry(host.line, host)}
    return Marked(host.line, table={**table, "options": Entry(options.line, options)})
