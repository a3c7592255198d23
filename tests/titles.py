"""Kinds of zray's processes by their command lines: the title that each gives itself, and its module before that."""

KINDS = {
    "node": (b"zray: node", b"zray.host.node.main"),
    "fork server": (b"zray: fork server", b"zray.host.process.fork_server"),
    "service": (b"zray: GCS shard ", b"zray: global scheduler", b"zray.host.cluster.service_main"),
}


def is_kind(command, kind):
    """Whether a command line, as bytes, is of a process of that kind."""
    return any(part in command for part in KINDS[kind])
