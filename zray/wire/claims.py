"""Checks of the claims in a message: no sender may speak for another role, or as another kind.

Permissions by type stand in allowed.py.  The key of a connection is proven, and so is the name of the role behind the
key.  This module compares that name with the fields in which a sender names itself; and code with its name, the hash.
"""

from collections.abc import Callable
from typing import Any

from ..ids import function_id
from . import actors, chain, drains, gcs, groups, homes, scheduling, tasks
from .allowed import ROLES_OF_KEY, Types, allowed_between, kind_of
from .message import Message
from .where import host_of

# Field that names the sending role.
OWN_NAME: dict[type[Message], str] = {
    **dict.fromkeys((gcs.RegisterNode, gcs.Heartbeat, scheduling.LoadReport, drains.DrainReport), "node"),
    **dict.fromkeys(
        (gcs.RecordTasks, gcs.AddLocations, gcs.RemoveLocations, gcs.OfferCopies, gcs.CannotRebuild), "node"
    ),
    **dict.fromkeys(
        (gcs.HoldAtNode, gcs.ReleaseAtNode, gcs.SubscribeObject, gcs.FetchFunction, gcs.ReleaseFunctions), "node"
    ),
    **dict.fromkeys((homes.ActorForgotten, homes.LocateActor, gcs.FindUnheld), "node"),
    **dict.fromkeys((groups.AttendShard, groups.RegisterGroup, groups.BundlesPrepared, groups.LocateGroup), "node"),
    **dict.fromkeys((scheduling.SpillTask, actors.SpillActor), "origin"),
}


def _own_name(message: Any, source: str, kind: str, public: bytes) -> str:
    said = getattr(message, OWN_NAME[type(message)])
    if said == source:
        return ""
    return f"{source} may not send {type(message).__name__} in the name of {said[:80]!r}"


def _registration(message: gcs.RegisterNode, source: str, kind: str, public: bytes) -> str:
    if message.kind != kind or message.public_key != public:
        what = "with another key" if message.kind == kind else f"as a {message.kind[:40]!r}"
        return f"{source} has joined as a {kind!r}, and may not register {what}"
    return _own_name(message, source, kind, public)


def _placement(message: scheduling.PlaceTask | actors.PlaceActor, source: str, kind: str, public: bytes) -> str:
    """A placement is in the name of its origin.

    A global scheduler may name any origin.  A node places only the work of groups that it knows itself, in its own
    name.
    """
    if kind_of(source) != "local" or message.origin == source:
        return ""
    return f"{source} may not send {type(message).__name__} in the name of {message.origin[:80]!r}"


def _write(message: chain.ChainWrite, source: str, kind: str, public: bytes) -> str:
    """Requests of all roles of one host."""
    return _requests(message.requests, source, kind)


def _read(message: chain.ChainRead, source: str, kind: str, public: bytes) -> str:
    return _requests([(message.source, message.request)], source, kind)


def _requests(requests: list[tuple[str, Any]], source: str, kind: str) -> str:
    may_say: dict[str, Types] = {}  # by role; few roles exist
    for role, request in requests:
        if role not in may_say:
            if host_of(role) != host_of(source) or kind_of(role) not in ROLES_OF_KEY.get(kind, ()):
                return f"{source} may not speak for {role[:80]!r}"
            may_say[role] = allowed_between(role, "gcs")
        if type(request) not in may_say[role]:
            return f"{role[:80]} may not send {type(request).__name__} to a shard"
        claim = CLAIMS.get(type(request))
        if claim is not None and (reason := claim(request, role, kind, b"")):
            return reason
    return ""


def _of_its_shard(
    message: chain.ChainOffer | chain.ChainJoined | chain.ChainStalled, source: str, kind: str, public: bytes
) -> str:
    """A replica may speak only of the shard in its name; the chain master, of all shards."""
    if kind_of(source) != "gcs" or source.rpartition("/")[2] == message.shard:
        return ""
    return f"{source} may not send {type(message).__name__} of {message.shard[:80]!r}"


def _own_member(message: chain.ChainMemberLost, source: str, kind: str, public: bytes) -> str:
    """A replica may report only its own end; the head's roles, the end of others."""
    if kind_of(source) != "gcs" or source == message.member:
        return ""
    return f"{source} may not send ChainMemberLost in the name of {message.member[:80]!r}"


def _judgement(message: gcs.GiveUpNode, source: str, kind: str, public: bytes) -> str:
    """A program outside of the cluster has no say in who is a member."""
    return f"{source} has joined as a 'driver', and may not declare a host dead" if kind == "driver" else ""


def _function(message: tasks.PublishFunction, source: str, kind: str, public: bytes) -> str:
    """Code is named by its hash, so that nobody can replace code that is published under a name."""
    if function_id(message.function.code) == message.function.function_id:
        return ""
    return f"{source} may not publish code under a name that is not its hash"


# Message -> (message, sending role, kind of its host's key, that key) -> why the claim is false; "": true.
CLAIMS: dict[type[Message], Callable[[Any, str, str, bytes], str]] = {
    **dict.fromkeys(OWN_NAME, _own_name),
    gcs.RegisterNode: _registration,
    **dict.fromkeys((scheduling.PlaceTask, actors.PlaceActor), _placement),
    chain.ChainWrite: _write,
    chain.ChainRead: _read,
    **dict.fromkeys((chain.ChainOffer, chain.ChainJoined, chain.ChainStalled), _of_its_shard),
    chain.ChainMemberLost: _own_member,
    gcs.GiveUpNode: _judgement,
    tasks.PublishFunction: _function,
}
