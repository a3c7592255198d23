"""Collective calls between actors of one node: values, dtypes, sizes and shapes."""

import importlib.util

import numpy
import pytest

import zray
from tests.util.members import Member, all_do, digest, join, members_of, numbers, outcomes
from zray.util import collective
from zray.util.collective import ReduceOp

# Of one message, of one round, and of several.
COUNTS = [0, 1, 1_000, 20_000, 700_001]
DTYPES = ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "g", "F", "D", "G", ">f4", "m8[ns]"]
FUNCTIONS = {
    ReduceOp.SUM: numpy.add,
    ReduceOp.PRODUCT: numpy.multiply,
    ReduceOp.MIN: numpy.minimum,
    ReduceOp.MAX: numpy.maximum,
}


@pytest.fixture(scope="module")
def actors(session):
    """Three actors, in a group of all, and in one of two."""
    found = members_of(3)
    join(found[:2], "pair")
    yield found


def expected(op, size, count, dtype):
    """Result of a serial program, in the order of the ranks."""
    found = numbers(0, count, dtype)
    for rank in range(1, size):
        found = FUNCTIONS[op](found, numbers(rank, count, dtype)).astype(dtype)
    return found


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [2, 3])
def test_allreduce_has_the_same_bits_on_all_ranks_as_a_serial_sum(actors, size, count):
    def run(rank, name):
        array = numbers(rank, count, "f4")
        collective.allreduce(array, name)
        return digest(array)

    found = all_do(actors[:size], run, "pair" if size == 2 else "default")
    assert found == [digest(expected(ReduceOp.SUM, size, count, "f4"))] * size


@pytest.mark.parametrize("op", ReduceOp)
def test_operations_have_the_results_of_numpy_for_all_its_dtypes(actors, op):
    dtypes = [dtype for dtype in DTYPES if dtype[0] != "m" or op is not ReduceOp.PRODUCT]

    def run(rank):
        found = []
        for dtype in dtypes:
            for count in (5, 100_000):
                array = numbers(rank, count, dtype)
                collective.allreduce(array, op=op)
                found.append((array.dtype, digest(array)))
        return found

    wanted = [(numpy.dtype(dtype), digest(expected(op, 3, count, dtype))) for dtype in dtypes for count in (5, 100_000)]
    assert all_do(actors, run) == [wanted] * 3


@pytest.mark.parametrize("count", [7, 300_001])
def test_strided_arrays_and_arrays_in_the_order_of_fortran_are_changed_in_place(actors, count):
    def run(rank):
        whole = numpy.ones((2, count, 2), "f8")
        collective.allreduce(whole[:, :, 1])
        turned = numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)) + rank
        collective.allreduce(turned)
        single = numpy.array(rank + 1.0)
        collective.allreduce(single)
        return whole[:, :, 0].max(), whole[:, :, 1].min(), whole[:, :, 1].max(), turned.tolist(), single.item()

    turned = (3 * numpy.arange(6.0).reshape(2, 3) + 3).tolist()
    assert all_do(actors, run) == [(1.0, 3.0, 3.0, turned, 6.0)] * 3


@pytest.mark.parametrize("count", [0, 1_000, 700_000])
def test_all_other_calls_have_their_results(actors, count):
    def run(rank):
        own = numbers(rank, count, "i8")
        found = {}
        reduced = own.copy()
        collective.reduce(reduced, dst_rank=1)
        found["reduce"] = reduced
        copied = own.copy()
        collective.broadcast(copied, src_rank=2)
        found["broadcast"] = copied
        gathered = [numpy.empty_like(own) for _ in range(3)]
        collective.allgather(gathered, own)
        found["allgather"] = numpy.stack(gathered)
        scattered = numpy.empty_like(own)
        collective.reducescatter(scattered, [own + other for other in range(3)])
        found["reducescatter"] = scattered
        passed = own.copy()
        if rank == 0:
            collective.send(own, 2)
        elif rank == 2:
            collective.recv(passed, 0)
        found["passed"] = passed
        collective.barrier()
        return {name: digest(array) for name, array in found.items()}

    own = [numbers(rank, count, "i8") for rank in range(3)]
    total = sum(own)
    for rank, found in enumerate(all_do(actors, run)):
        assert found == {
            "reduce": digest(total if rank == 1 else own[rank]),
            "broadcast": digest(own[2]),
            "allgather": digest(numpy.stack(own)),
            "reducescatter": digest(total + 3 * rank),
            "passed": digest(own[0] if rank == 2 else own[rank]),
        }


def test_tensors_of_torch_are_changed_in_place(actors):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")

    def run(rank):
        import torch

        found = []
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
            for count in (3, 100_000):
                tensor = torch.full((count,), rank + 1).to(dtype)
                collective.allreduce(tensor, "pair")
                found.append((str(tensor.dtype), complex(tensor[-1].item())))
        leaf = torch.ones(4, requires_grad=True)
        collective.allreduce(leaf, "pair")
        turned = torch.arange(6.0).reshape(2, 3).t()
        collective.allreduce(turned, "pair")
        return found, leaf.tolist(), turned.tolist()

    dtypes = ("torch.float32", "torch.bfloat16", "torch.int64", "torch.complex64")
    wanted = [(name, 3 + 0j) for name in dtypes for _ in range(2)]
    turned = (2 * numpy.arange(6.0).reshape(2, 3).T).tolist()
    assert all_do(actors[:2], run) == [(wanted, [2.0] * 4, turned)] * 2


def test_a_list_and_its_output_may_share_memory(actors):
    def run(rank):
        parts = [numpy.full(50_000, float(rank + part)) for part in range(3)]
        collective.reducescatter(parts[rank], parts)
        gathered = [numpy.full(50_000, float(rank)) for _ in range(3)]
        collective.allgather(gathered, gathered[rank])
        return set(parts[rank]), [set(part) for part in gathered]

    for rank, found in enumerate(all_do(actors, run)):
        assert found == ({3.0 + 3 * rank}, [{0.0}, {1.0}, {2.0}])


def test_send_and_recv_go_around_a_ring(actors):
    def run(rank, count):
        token = numpy.full(count, float(rank))
        for step in range(6):
            if step % 3 == rank:
                token += 1
                collective.send(token, (rank + 1) % 3)
            elif (step + 1) % 3 == rank:
                collective.recv(token, (rank + 2) % 3)
        return token[-1]

    for count in (4, 500_000):
        assert all_do(actors, run, count) == [6.0, 5.0, 6.0]


def test_handles_of_async_calls_end_in_order(actors):
    def run(rank):
        first, second = numpy.full(200_000, rank + 1.0), numpy.full(3, rank + 1.0)
        handles = [collective.allreduce(first, async_op=True), collective.allreduce(second, async_op=True)]
        third = numpy.ones(1)
        collective.allreduce(third)  # behind both
        assert all(handle.is_completed() for handle in handles)
        for handle in handles:
            assert handle.wait() is None
        return first[-1], second[0], third[0]

    assert all_do(actors, run) == [(6.0, 6.0, 3.0)] * 3


def test_ranks_and_sizes_are_those_of_the_member(actors):
    def run(rank, name):
        return (
            collective.get_rank(name),
            collective.get_collective_group_size(name),
            collective.is_group_initialized(name),
            collective.get_rank("none"),
            collective.get_collective_group_size("none"),
            collective.is_group_initialized("none"),
        )

    assert all_do(actors, run, "default") == [(rank, 3, True, -1, -1, False) for rank in range(3)]
    assert all_do(actors[:2], run, "pair") == [(rank, 2, True, -1, -1, False) for rank in range(2)]


def test_groups_of_one_process_are_independent(actors):
    def run(rank):
        small, large = numpy.ones(4), numpy.ones(4)
        if rank < 2:
            handle = collective.allreduce(small, "pair", async_op=True)
        collective.allreduce(large)
        if rank < 2:
            handle.wait()
        return small[0], large[0]

    assert all_do(actors, run) == [(2.0, 3.0), (2.0, 3.0), (1.0, 3.0)]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: collective.allreduce([1, 2]), "RuntimeError", "Unrecognized tensor type"),
        (lambda: collective.allgather(numpy.ones(2), numpy.ones(2)), "RuntimeError", "must be a list of tensors"),
        (lambda: collective.allgather([], numpy.ones(2)), "RuntimeError", "Got an empty list"),
        (lambda: collective.allgather([numpy.ones(2)], numpy.ones(2)), "RuntimeError", "must be equal to world_size"),
        (lambda: collective.allgather([numpy.ones(3)] * 3, numpy.ones(2)), "RuntimeError", "must have the same dtype"),
        (lambda: collective.broadcast(numpy.ones(2), -1), "ValueError", "rank '-1' is negative"),
        (lambda: collective.reduce(numpy.ones(2), 3), "ValueError", "must be less than world size '3'"),
        (lambda: collective.send(numpy.ones(2), collective.get_rank()), "RuntimeError", "is self"),
        (lambda: collective.recv(numpy.ones(2), collective.get_rank()), "RuntimeError", "is self"),
        (lambda: collective.allreduce(numpy.array([None, {}])), "TypeError", "hold Python objects"),
        (lambda: collective.allreduce(numpy.array(["a"])), "TypeError", "numpy has no SUM of"),
        (lambda: collective.allreduce(numpy.ones(1), op="SUM"), "TypeError", "op must be a ReduceOp"),
        (lambda: collective.allreduce(numpy.frombuffer(b"12345678")), "RuntimeError", "read-only"),
        (lambda: collective.allreduce(numpy.ones(1), "none"), "RuntimeError", "group 'none' is not initialized"),
        (lambda: collective.barrier("none"), "RuntimeError", "group 'none' is not initialized"),
        (lambda: collective.init_collective_group(3, 0), "RuntimeError", "initialize a group twice"),
        (lambda: collective.init_collective_group(3, 0, group_name=""), "ValueError", "needs to be a string"),
        (lambda: collective.init_collective_group(3, 3, group_name="x"), "AssertionError", "less than world_size"),
        (lambda: collective.init_collective_group(3, 0, "nccl", "x"), "RuntimeError", "NCCL is not available"),
        (lambda: collective.init_collective_group(3, 0, "mpi", "x"), "RuntimeError", "does not support MPI"),
        (lambda: collective.init_collective_group(3, 0, "what", "x"), "ValueError", "Unrecognized backend"),
        (lambda: collective.allreduce_multigpu([numpy.ones(2)]), "RuntimeError", "requires NCCL and Cupy"),
    ],
)
def test_wrong_arguments_are_refused_at_once(actors, call, kind, text):
    ((found, words), *rest) = outcomes(actors, lambda rank: call())
    assert found == kind and text in words
    assert [name for name, _ in rest] == [kind] * 2


def test_programs_are_no_members(session):
    for call in (collective.get_rank, collective.barrier, lambda: collective.init_collective_group(1, 0)):
        with pytest.raises(RuntimeError, match="only used inside a Ray actor or task"):
            call()


def test_declared_group_is_made_at_the_first_call(session):
    workers = [Member.remote() for _ in range(2)]

    def run(rank):
        before = collective.is_group_initialized("177")
        array = numpy.full(4, rank + 1.0)
        collective.allreduce(array, "177")
        return before, collective.get_rank("177"), array.tolist()

    collective.create_collective_group(workers, group_name="177", world_size=2, ranks=[1, 0], backend="gloo")
    with pytest.raises(RuntimeError, match="initialize a group twice"):
        collective.create_collective_group(workers, 2, [0, 1], group_name="177")
    assert all_do(workers, run) == [(False, 1, [3.0] * 4), (False, 0, [3.0] * 4)]
    all_do(workers, lambda rank: collective.destroy_collective_group("177"))
    collective.declare_collective_group(workers, 2, [0, 1], group_name="177")
    assert all_do(workers, run) == [(False, 0, [3.0] * 4), (False, 1, [3.0] * 4)]
    for ranks, text in (([0], "one rank"), ([0, 2], "permutation"), ([0, 0], "permutation")):
        with pytest.raises(RuntimeError, match=text):
            collective.create_collective_group(workers, 2, ranks, group_name="x")


def test_tasks_are_members_until_they_end(session):
    @zray.remote(num_cpus=0)
    def member(rank):
        collective.init_collective_group(2, rank, group_name="tasks")
        array = numpy.full(4, rank + 1.0)
        collective.allreduce(array, "tasks")
        return array.tolist()

    for _ in range(3):  # the same processes run tasks again
        assert zray.get([member.remote(rank) for rank in range(2)]) == [[3.0] * 4] * 2
