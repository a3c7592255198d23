"""The variables of Slurm and of MPIs, as these set them."""

import pytest

from cli.launch.allocation import NoAllocation, of_address, of_mpi, of_slurm

SLURM = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_NNODES": "4",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_CPUS_ON_NODE": "8",
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-vm-2003@1",
    "PMI_RANK": "7",
}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1", "PMI_PORT": "vm:40000"}


def test_step_of_slurm_counts_and_not_the_job():
    part = of_slurm(SLURM)
    assert (part.rank, part.size, part.nodes, part.local_rank, part.is_head) == (1, 2, 2, 0, False)
    assert (part.what, part.name, part.cpus, part.memory) == ("Slurm job 12", "slurm-12-0", 8, 0)


@pytest.mark.parametrize("variables", [{"SLURM_MEM_PER_NODE": "2000"}, {"SLURM_MEM_PER_CPU": "250"}])
def test_memory_is_that_of_the_allocation(variables):
    assert of_slurm(SLURM | variables).memory == 2_000 << 20


def test_job_that_was_requeued_is_another_run():
    assert of_slurm(SLURM | {"SLURM_RESTART_COUNT": "2"}).name == "slurm-12-0-2"


def test_openmpi_is_known_by_its_own_variables():
    part = of_mpi(OPENMPI)
    assert (part.what, part.rank, part.size, part.local_rank, part.nodes) == ("OpenMPI", 3, 4, 1, 2)
    assert part.name == "mpi-prterun-vm-2003-1"


def test_mpich_is_known_by_those_of_its_process_manager():
    part = of_mpi(MPICH)
    assert (part.what, part.is_head, part.nodes, part.name) == ("MPICH", True, 2, "mpi-vm-40000")


@pytest.mark.parametrize(
    ("find", "variables", "words"),
    [
        (of_slurm, {}, "`srun -N 2"),
        (of_slurm, {"SLURM_JOB_ID": "12"}, "write `srun zray slurm"),
        (of_mpi, {}, "`mpirun -n 2 zray mpi"),
        (of_mpi, SLURM, "`mpirun -n 2 zray mpi"),
    ],
)
def test_outside_of_a_run_the_error_says_how_to_begin_one(find, variables, words):
    with pytest.raises(NoAllocation, match=words):
        find(variables)


@pytest.mark.parametrize(
    ("address", "nodes", "is_head"),
    [("10.0.0.1:6379", 4, True), ("10.0.0.2:6379", 4, False), ("127.0.0.1:6379", 1, True)],
)
def test_machine_with_the_address_is_the_head(address, nodes, is_head):
    found = of_address(address, nodes, {"10.0.0.1", "127.0.0.1"})
    host, port = address.split(":")
    assert (found.is_head, found.host, found.port, found.nodes, found.is_open) == (
        is_head,
        host,
        int(port),
        nodes,
        True,
    )
    assert found.name == f"symmetric-{host}-{port}" and not found.local_rank


def test_head_of_several_machines_is_reached_by_others():
    with pytest.raises(ValueError, match="an address of each machine by itself"):
        of_address("127.0.0.1:6379", 2, {"127.0.0.1"})
