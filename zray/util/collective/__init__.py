"""Collective calls between actors or tasks: sums, copies and barriers, without a process in the middle.

    from zray.util import collective

    collective.init_collective_group(world_size=2, rank=rank)  # in each member
    collective.allreduce(gradient)  # in place

`collective.py` has the functions, `members.py` the groups of this process, and `group.py` one member's end of a group.
Members of one node meet by `meeting.py`, are linked by `mesh.py`, share `memory.py` and calculate in `exchange.py`.
"""

from . import types
from .collective import (
    allgather,
    allgather_multigpu,
    allreduce,
    allreduce_multigpu,
    barrier,
    broadcast,
    broadcast_multigpu,
    create_collective_group,
    declare_collective_group,
    destroy_collective_group,
    get_collective_group_size,
    get_group_handle,
    get_rank,
    gloo_available,
    init_collective_group,
    is_backend_available,
    is_group_initialized,
    nccl_available,
    recv,
    recv_multigpu,
    reduce,
    reduce_multigpu,
    reducescatter,
    reducescatter_multigpu,
    send,
    send_multigpu,
    synchronize,
)
from .errors import CollectiveGroupError, CollectiveMismatchError
from .group import Group
from .handles import Handle
from .types import Backend, ReduceOp

__all__ = [
    "Backend",
    "CollectiveGroupError",
    "CollectiveMismatchError",
    "Group",
    "Handle",
    "ReduceOp",
    "allgather",
    "allgather_multigpu",
    "allreduce",
    "allreduce_multigpu",
    "barrier",
    "broadcast",
    "broadcast_multigpu",
    "create_collective_group",
    "declare_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_group_handle",
    "get_rank",
    "gloo_available",
    "init_collective_group",
    "is_backend_available",
    "is_group_initialized",
    "nccl_available",
    "recv",
    "recv_multigpu",
    "reduce",
    "reduce_multigpu",
    "reducescatter",
    "reducescatter_multigpu",
    "send",
    "send_multigpu",
    "synchronize",
    "types",
]
