"""The part of this process in a run on several machines: Slurm's or an MPI's variables.  No input, no output."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

MIB = 1 << 20
# The parts of the memory of an allocation: for tasks, and for the object store.
WORK, STORE = 0.7, 0.3


@dataclass(frozen=True)
class Allocation:
    """A process of a run."""

    what: str  # for people: "Slurm job 12"
    name: str  # the same in all processes of the run, and in no other run; a name for a file
    rank: int
    size: int
    local_rank: int  # among the processes of this machine
    nodes: int  # machines
    cpus: int = 0  # of this machine for this run; 0: not told
    memory: int = 0  # bytes likewise
    near: str = ""  # an address in the network of the machines; "": not told
    host: str = ""  # the address of the head, where it is agreed on
    port: int = 0  # likewise; 0: any
    is_open: bool = False  # further machines may come

    @property
    def is_head(self) -> bool:
        return self.rank == 0


class NoAllocation(Exception):
    """Error of a process outside of such a run; the text says how to begin one."""


def of_slurm(env: Mapping[str, str]) -> Allocation:
    """Return the part of this process in a step of Slurm.

    Raises:
        NoAllocation: there is no step.
    """
    if "SLURM_JOB_ID" not in env:
        raise NoAllocation("this is no job of Slurm: `srun -N 2 --ntasks-per-node 1 zray slurm -- python program.py`")
    if "SLURM_PROCID" not in env or "SLURM_STEP_ID" not in env:
        raise NoAllocation("this is the batch script alone: write `srun zray slurm -- python program.py` into it")
    job, step = env["SLURM_JOB_ID"], env["SLURM_STEP_ID"]
    cpus = _number(env.get("SLURM_CPUS_ON_NODE"))
    memory = _number(env.get("SLURM_MEM_PER_NODE")) or _number(env.get("SLURM_MEM_PER_CPU")) * cpus
    return Allocation(
        what=f"Slurm job {job}",
        name="-".join(["slurm", job, step, *filter(None, [env.get("SLURM_RESTART_COUNT")])]),
        rank=_number(env["SLURM_PROCID"]),
        size=_number(env.get("SLURM_STEP_NUM_TASKS") or env.get("SLURM_NTASKS")) or 1,
        local_rank=_number(env.get("SLURM_LOCALID")),
        nodes=_number(env.get("SLURM_STEP_NUM_NODES") or env.get("SLURM_NNODES")) or 1,
        cpus=cpus,
        memory=memory * MIB,
        near=env.get("SLURM_LAUNCH_NODE_IPADDR", ""),
    )


# An MPI, with its variables: rank, size, rank and size on the machine, and those that name the run.
MPIS = (
    (
        "OpenMPI",
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"),
    ),
    (
        "MPICH",
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
        ("PMI_JOBID", "PMI_KVSNAME", "PMI_PORT", "SLURM_JOB_ID"),
    ),
)


def of_mpi(env: Mapping[str, str]) -> Allocation:
    """Return the part of this process in a run of an MPI.

    Raises:
        NoAllocation: there is none.
    """
    for what, (rank, size, local_rank, local_size), names in MPIS:
        if rank in env and size in env:
            here = _number(env.get(local_size)) or 1
            name = next((env[key] for key in names if env.get(key)), "run")
            return Allocation(
                what=what,
                name="mpi-" + re.sub(r"[^-A-Za-z0-9_.]", "-", name),
                rank=_number(env[rank]),
                size=_number(env[size]),
                local_rank=_number(env.get(local_rank)),
                nodes=-(-_number(env[size]) // here),
            )
    raise NoAllocation("this is no run of an MPI: `mpirun -n 2 zray mpi -- python program.py`")


def of_address(address: str, nodes: int, own: Collection[str]) -> Allocation:
    """Return the part of this process where all machines are told the address of the head.

    Args:
        address: HOST:PORT.
        nodes: so many are waited for.  With more than one, the address of the head is none of loopback.
        own: the addresses of this machine.

    Raises:
        ValueError: the address has no such form, or others could not reach such a head.
        OSError: its name is not known.
    """
    from zray.host.security.token_input import cluster_address

    host, _, port = cluster_address(address).rpartition(":")
    is_loopback = host.startswith("127.")
    if is_loopback and nodes > 1:
        raise ValueError(f"{address} is an address of each machine by itself: name the head by one that others reach.")
    return Allocation(
        what="Cluster",
        name=f"symmetric-{host}-{port}",
        rank=0 if is_loopback or host in own else 1,
        size=nodes,
        local_rank=0,
        nodes=nodes,
        near=host,
        host=host,
        port=int(port),
        is_open=True,
    )


def _number(text: str | None) -> int:
    """The number at the beginning of a text, as of "16(x2)"; 0 without one."""
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else 0
