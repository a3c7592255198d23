"""Functions for collective groups, with Ray's names, arguments and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ...api import objects
from . import members, types
from .group import Group
from .handles import Handle
from .members import TIMEOUT_MS
from .tensors import check_tensor, check_tensor_list
from .types import Backend, ReduceOp

DEFAULT = "default"


def gloo_available() -> bool:
    """Whether groups of CPU tensors can be made: always."""
    return True


def nccl_available() -> bool:
    """Whether groups of GPU tensors can be made: never."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether groups of a backend can be made.

    Args:
        backend: "gloo", "nccl"...
    """
    return backend.lower() in (Backend.GLOO, Backend.TORCH_GLOO)


def is_group_initialized(group_name: str) -> bool:
    """Whether this actor or task is a member of a group that goes on.

    Args:
        group_name: the group's name.
    """
    return members.is_member(group_name)


def init_collective_group(
    world_size: int,
    rank: int,
    backend: str = Backend.GLOO,
    group_name: str = DEFAULT,
    gloo_timeout: int = TIMEOUT_MS,
) -> None:
    """Become a member of a collective group, in an actor or a task, and wait for all other members.

        init_collective_group(2, rank, group_name="pair")
        allreduce(gradient, group_name="pair")

    Args:
        world_size: number of members.
        rank: number of this member, from 0.
        backend: "gloo".
        group_name: the group's name.  Default: "default".
        gloo_timeout: milliseconds to wait for the others.

    Raises:
        RuntimeError: the member has a group of that name, another one has its rank, or the backend is not available.
        CollectiveGroupError: not all members came in time.
        ValueError: the name or the backend is none.
        AssertionError: the rank is not less than world_size, or one of them is negative.
    """
    members.member_id()
    types.require(backend)
    _check_name(group_name)
    assert world_size > 0, f"world_size must be greater than zero, not {world_size}."
    assert 0 <= rank < world_size, f"rank must be less than world_size {world_size} and not negative, not {rank}."
    members.init(group_name, world_size, rank, gloo_timeout)


def create_collective_group(
    actors: Sequence[Any],
    world_size: int,
    ranks: Sequence[int],
    backend: str = Backend.GLOO,
    group_name: str = DEFAULT,
    gloo_timeout: int = TIMEOUT_MS,
) -> None:
    """Declare actors as members of a collective group, in the program.  They meet at their first collective call.

        create_collective_group(workers, 2, [0, 1])
        ray.get([worker.train.remote() for worker in workers])

    The actors are asked in turn with their other calls.

    Args:
        actors: handles.
        world_size: number of members.
        ranks: of the actors, in their order.
        backend: "gloo".
        group_name: the group's name.  Default: "default".
        gloo_timeout: milliseconds that members wait for the others.

    Raises:
        RuntimeError: an actor has a group of that name, the ranks are not those of the group, or the backend is not
            available.
    """
    types.require(backend)
    _check_name(group_name)
    if len(ranks) != len(actors):
        raise RuntimeError(
            f"Each actor should correspond to one rank.  Got '{len(ranks)}' ranks but '{len(actors)}' actors."
        )
    if set(ranks) != set(range(len(ranks))):
        raise RuntimeError(f"Ranks must be a permutation from 0 to '{len(ranks) - 1}'.  Got '{list(ranks)}'.")
    if world_size <= 0:
        raise RuntimeError(f"World size must be greater than zero.  Got '{world_size}'.")
    if world_size != len(ranks):
        raise RuntimeError(f"World size must be the number of ranks, '{len(ranks)}'.  Got '{world_size}'.")
    objects.get(
        [
            actor.__ray_call__.remote(_declare, group_name, world_size, rank, gloo_timeout)
            for actor, rank in zip(actors, ranks, strict=True)
        ]
    )


# Ray's former name.
declare_collective_group = create_collective_group


def _declare(instance: Any, group_name: str, world_size: int, rank: int, timeout_ms: int) -> None:
    """Note the group.  Runs in the actor."""
    members.declare(group_name, world_size, rank, timeout_ms)


def destroy_collective_group(group_name: str = DEFAULT) -> None:
    """Leave a group.  The others raise `CollectiveGroupError` when they next wait for this member.

    Args:
        group_name: the group's name.  Default: "default".
    """
    members.destroy(group_name)


def get_rank(group_name: str = DEFAULT) -> int:
    """Return the rank of this member; -1 if it has no group of that name.

    Args:
        group_name: the group's name.  Default: "default".
    """
    group = members.known(group_name)
    return group.rank if group is not None else -1


def get_collective_group_size(group_name: str = DEFAULT) -> int:
    """Return the number of members; -1 if this actor or task has no group of that name.

    Args:
        group_name: the group's name.  Default: "default".
    """
    group = members.known(group_name)
    return group.world_size if group is not None else -1


def get_group_handle(group_name: str = DEFAULT) -> Group:
    """Return the group of this member.  A group that was declared is made here.

    Args:
        group_name: the group's name.  Default: "default".

    Raises:
        RuntimeError: there is no group of that name.
    """
    return members.found(group_name)


def allreduce(
    tensor: Any, group_name: str = DEFAULT, op: ReduceOp = ReduceOp.SUM, async_op: bool = False
) -> Handle | None:
    """Replace each element of a tensor by the sum, or another result, of all ranks.

    Args:
        tensor: an array of numpy, or a tensor of torch on the CPU, of equal shape and dtype on all ranks.
        group_name: the group's name.  Default: "default".
        op: the operation.  Default: SUM.
        async_op: return a handle at once.  Default: False.

    Returns:
        The handle with async_op; otherwise None.

    Raises:
        CollectiveMismatchError: the ranks called different things.
        CollectiveGroupError: a member has ended or left.
    """
    check_tensor(tensor)
    return get_group_handle(group_name).allreduce(tensor, op, async_op)


def barrier(group_name: str = DEFAULT, async_op: bool = False) -> Handle | None:
    """Wait until all ranks have called.

    Args:
        group_name: the group's name.  Default: "default".
        async_op: return a handle at once.  Default: False.
    """
    return get_group_handle(group_name).barrier(async_op)


def reduce(
    tensor: Any, dst_rank: int = 0, group_name: str = DEFAULT, op: ReduceOp = ReduceOp.SUM, async_op: bool = False
) -> Handle | None:
    """Replace each element of one rank's tensor by the sum, or another result, of all ranks.

    Args:
        tensor: as for allreduce; only that of dst_rank is changed.
        dst_rank: the rank that gets the result.  Default: 0.
        group_name, op, async_op: as for allreduce.

    Raises:
        ValueError: dst_rank is no rank.
        and as allreduce.
    """
    check_tensor(tensor)
    return get_group_handle(group_name).reduce(tensor, dst_rank, op, async_op)


def broadcast(tensor: Any, src_rank: int = 0, group_name: str = DEFAULT, async_op: bool = False) -> Handle | None:
    """Copy one rank's tensor into those of all others.

    Args:
        tensor: as for allreduce.
        src_rank: the rank whose tensor is copied.  Default: 0.
        group_name, async_op: as for allreduce.

    Raises:
        ValueError: src_rank is no rank.
        and as allreduce.
    """
    check_tensor(tensor)
    return get_group_handle(group_name).broadcast(tensor, src_rank, async_op)


def allgather(tensor_list: list[Any], tensor: Any, group_name: str = DEFAULT, async_op: bool = False) -> Handle | None:
    """Copy the tensors of all ranks into a list of tensors.

    Args:
        tensor_list: a tensor for each rank, of the shape and dtype of `tensor`.
        tensor: the tensor of this rank.
        group_name, async_op: as for allreduce.

    Raises:
        RuntimeError: the list does not fit.
        and as allreduce.
    """
    check_tensor(tensor)
    check_tensor_list(tensor_list)
    return get_group_handle(group_name).allgather(tensor_list, tensor, async_op)


def reducescatter(
    tensor: Any,
    tensor_list: list[Any],
    group_name: str = DEFAULT,
    op: ReduceOp = ReduceOp.SUM,
    async_op: bool = False,
) -> Handle | None:
    """Write the sum, or another result, of all ranks for one tensor of a list: rank i gets that of tensor i.

    Args:
        tensor: where the result goes.
        tensor_list: a tensor for each rank, of the shape and dtype of `tensor`.
        group_name, op, async_op: as for allreduce.

    Raises:
        RuntimeError: the list does not fit.
        and as allreduce.
    """
    check_tensor(tensor)
    check_tensor_list(tensor_list)
    return get_group_handle(group_name).reducescatter(tensor, tensor_list, op, async_op)


def send(tensor: Any, dst_rank: int, group_name: str = DEFAULT, async_op: bool = False) -> Handle | None:
    """Send a tensor to one rank, which calls recv, and wait until it is there.

    Args:
        tensor: as for allreduce.
        dst_rank: the other rank.
        group_name, async_op: as for allreduce.

    Raises:
        ValueError: dst_rank is no rank.
        RuntimeError: dst_rank is this rank.
        and as allreduce.
    """
    check_tensor(tensor)
    return get_group_handle(group_name).send(tensor, dst_rank, async_op)


def recv(tensor: Any, src_rank: int, group_name: str = DEFAULT, async_op: bool = False) -> Handle | None:
    """Wait for a tensor that one rank sends.

    Args:
        tensor: where it goes, of the same shape and dtype.
        src_rank: the other rank.
        group_name, async_op: as for allreduce.

    Raises:
        ValueError: src_rank is no rank.
        RuntimeError: src_rank is this rank.
        and as allreduce.
    """
    check_tensor(tensor)
    return get_group_handle(group_name).recv(tensor, src_rank, async_op)


def _check_name(group_name: str) -> None:
    """Refuse what is no name of a group.

    Raises:
        ValueError: the name is no text, or is empty.
    """
    if not isinstance(group_name, str) or not group_name:
        raise ValueError(f"group_name '{group_name}' needs to be a string.")


# --- GPUs ---


def _refuse_gpus(function: str) -> NoReturn:
    raise RuntimeError(
        f"Multigpu calls requires NCCL and Cupy: {function}_multigpu has no meaning for tensors of CPUs.  Call "
        f"{function}, with one tensor of a CPU per rank."
    )


def allreduce_multigpu(tensor_list: list[Any], group_name: str = DEFAULT, op: ReduceOp = ReduceOp.SUM) -> NoReturn:
    """Refusal: groups have no GPUs.

    Args:
        tensor_list, group_name, op: not looked at.

    Raises:
        RuntimeError: always.
    """
    _refuse_gpus("allreduce")


def reduce_multigpu(
    tensor_list: list[Any],
    dst_rank: int = 0,
    dst_tensor: int = 0,
    group_name: str = DEFAULT,
    op: ReduceOp = ReduceOp.SUM,
) -> NoReturn:
    """Refusal: groups have no GPUs.

    Args:
        tensor_list, dst_rank, dst_tensor, group_name, op: not looked at.

    Raises:
        RuntimeError: always.
    """
    _refuse_gpus("reduce")


def broadcast_multigpu(
    tensor_list: list[Any], src_rank: int = 0, src_tensor: int = 0, group_name: str = DEFAULT
) -> NoReturn:
    """Refusal: groups have no GPUs.

    Args:
        tensor_list, src_rank, src_tensor, group_name: not looked at.

    Raises:
        RuntimeError: always.
    """
    _refuse_gpus("broadcast")


def allgather_multigpu(
    output_tensor_lists: list[Any], input_tensor_list: list[Any], group_name: str = DEFAULT
) -> NoReturn:
    """Refusal: groups have no GPUs.

    Args:
        output_tensor_lists, input_tensor_list, group_name: not looked at.

    Raises:
        RuntimeError: always.
    """
    _refuse_gpus("allgather")


def reducescatter_multigpu(
    output_tensor_list: list[Any],
    input_tensor_lists: list[Any],
    group_name: str = DEFAULT,
    op: ReduceOp = ReduceOp.SUM,
) -> NoReturn:
    """Refusal: groups have no GPUs.

    Args:
        output_tensor_list, input_tensor_lists, group_name, op: not looked at.

    Raises:
        RuntimeError: always.
    """
    _refuse_gpus("reducescatter")


def send_multigpu(
    tensor: Any, dst_rank: int, dst_gpu_index: int, group_name: str = DEFAULT, n_elements: int = 0
) -> NoReturn:
    """Refusal: groups have no GPUs.

    Args:
        tensor, dst_rank, dst_gpu_index, group_name, n_elements: not looked at.

    Raises:
        RuntimeError: always.
    """
    _refuse_gpus("send")


def recv_multigpu(
    tensor: Any, src_rank: int, src_gpu_index: int, group_name: str = DEFAULT, n_elements: int = 0
) -> NoReturn:
    """Refusal: groups have no GPUs.

    Args:
        tensor, src_rank, src_gpu_index, group_name, n_elements: not looked at.

    Raises:
        RuntimeError: always.
    """
    _refuse_gpus("recv")


def synchronize(gpu_id: int) -> NoReturn:
    """Refusal: groups have no GPUs.

    Args:
        gpu_id: not looked at.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("synchronize call requires CUDA and NCCL, which collective groups of zray do not use.")
