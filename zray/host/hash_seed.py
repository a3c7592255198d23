"""The seed of hash() in tasks: one number per cluster, so that equal strings have equal hashes on all nodes.

The head chooses it, and a node that joins is told (JoinClusterReply).  The fork server is started with it in its
environment, so its workers have it, and so does a fork server that replaces another one.
"""

from __future__ import annotations

import os

VARIABLE = "PYTHONHASHSEED"
SEED_MAX = 4_294_967_295


def is_hash_seed(text: str) -> bool:
    """Whether Python takes it: a number, in which 0 means that nothing is random."""
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= SEED_MAX


def chosen_hash_seed() -> str:
    """The seed that this process's environment names, else a random one.

    A running interpreter cannot tell the seed that it has drawn itself.
    """
    named = os.environ.get(VARIABLE, "")
    return named if is_hash_seed(named) else str(int.from_bytes(os.urandom(4), "big") or 1)


def checked_hash_seed(told: str) -> str:
    """The seed that a head has told, or one of our own: with another text in its environment no Python starts."""
    return told if is_hash_seed(told) else chosen_hash_seed()
