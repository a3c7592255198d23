"""E12 (OSDI Fig 13): synchronous SGD: images per second of zray's ways, of torch's DDP, and of a program by hand.

Torch on the CPU, one thread a replica, made-up images, batches of 32.  All ways live side by side and work in turns,
since a machine that others use has one speed now and another one later; a way whose turn it is not waits.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import zray

from ..timing import Effort
from . import on_four_nodes
from .results import MEASURED, Figure

RANKS = 2
PAPER = "ResNet-101 on 4 to 64 GPUs: as fast as Horovod, within 10 % of distributed TensorFlow"
ALONE, SERVERS, HAND = "one process", "zray, parameter servers", "shared memory by hand"
GROUP, NO_OVERLAP = "zray, group", "zray, group, without overlap"
RESNET, MLP = "ResNet-20", "MLP"
DDP_LIMITS = {RESNET: 0.95, MLP: 1.1}
HAND_LIMIT = 0.9
BATCH = 32
END_SECONDS = 20.0
Run = Callable[[str, int], None]  # (model, steps)


def measure(figure: Figure, effort: Effort) -> None:
    """Images per second of each way, for both models."""
    if importlib.util.find_spec("torch") is None:
        raise NotImplementedError("torch is not installed: pip install torch")
    from .sgd_models import MODELS, SEED

    figure.seeds.append(SEED)
    rounds = 2 if effort.quick else 7
    steps = {RESNET: 3, MLP: 12} if effort.quick else {RESNET: 12, MLP: 40}
    version = importlib.metadata.version("torch")
    with ways_here(figure, f"DDP of torch {version}, gloo") as ways:
        for model in MODELS:
            found: dict[str, list[float]] = {name: [] for name in ways}
            for run in ways.values():
                run(model, 2)
            for number in range(rounds):
                for name in ways if number % 2 else reversed(ways):
                    found[name].append(images_per_second(ways[name], model, steps[model], name))
            judge(figure, model, found)
    figure.notes.append(
        f"Measured: torch {version} on the CPU, {RANKS} replicas of one thread on one machine, batches of {BATCH} "
        f"made-up images, {rounds} rounds of {steps[RESNET]} and {steps[MLP]} steps, all ways in turns. Parameter "
        "servers and group are actors; the group's gradients travel in buckets while backward runs. On two cores both "
        "replicas compute all the time, so what runs beside backward has no core of its own."
    )
    on_four_nodes.sgd(figure, effort)


def images_per_second(run: Run, model: str, steps: int, name: str) -> float:
    """Time so many steps of all replicas."""
    started = time.perf_counter()
    run(model, steps)
    return BATCH * (1 if name == ALONE else RANKS) * steps / (time.perf_counter() - started)


@contextlib.contextmanager
def ways_here(figure: Figure, ddp: str) -> Iterator[dict[str, Run]]:
    """Start all of them; a row says whether equal seeds have given equal weights on all replicas."""
    from .sgd_models import MODELS
    from .sgd_zray import Group, ParameterServers

    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        alone = stack.enter_context(peers([["alone"]]))
        url = f"file://{folder}/meet"
        of_ddp = stack.enter_context(peers([["ddp", str(rank), str(RANKS), url] for rank in range(RANKS)]))
        by_hand = stack.enter_context(peers([["hand", str(RANKS)]]))
        stack.enter_context(zray.init(num_cpus=2))
        group = Group(RANKS)
        servers = ParameterServers(group.trainers)
        ways: dict[str, Run] = {
            ALONE: alone.run,
            GROUP: lambda model, steps: group.run(model, steps, True),
            NO_OVERLAP: lambda model, steps: group.run(model, steps, False),
            SERVERS: servers.run,
            ddp: of_ddp.run,
            HAND: by_hand.run,
        }
        yield ways
        digests = {model: (group.digests(model), of_ddp.digests(model), by_hand.digests(model)) for model in MODELS}
        are_equal = all(len(set(own)) == 1 for own, _, _ in digests.values())
        words = f"zray's group: {'equal' if are_equal else 'they differ'}"
        label = "weights of all replicas after all steps, from equal seeds"
        figure.add_fact(label, are_equal, words, MEASURED)


class Peers:
    """Processes of another way, one for each rank, or one that has them all."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self.processes = processes

    def _ask(self, line: str) -> list[str]:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
        answers = []
        for process in self.processes:
            assert process.stdout is not None
            answer = process.stdout.readline().strip()
            if not answer:
                raise RuntimeError(f"a peer has ended with {process.wait()}: {process.args!r}")
            answers.append(answer)
        return answers

    def run(self, model: str, steps: int) -> None:
        """Make so many steps."""
        self._ask(f"{model} {steps}")

    def digests(self, model: str) -> list[str]:
        """Return what tells apart different weights, for each rank."""
        return " ".join(self._ask(f"digest {model}")).split()


@contextlib.contextmanager
def peers(arguments: list[list[str]]) -> Iterator[Peers]:
    """Start processes of `sgd_peer`; they end with the block."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command, pipe = [sys.executable, "-m", f"{__package__}.sgd_peer"], subprocess.PIPE
    processes = [
        subprocess.Popen(
            [*command, *each], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        for each in arguments
    ]
    try:
        yield Peers(processes)
    finally:
        for process in processes:
            try:
                process.communicate(timeout=END_SECONDS)  # no further order: it ends, and its children before it
            finally:
                process.kill()
                process.wait()


def judge(figure: Figure, model: str, found: dict[str, list[float]]) -> None:
    """Rows of one model."""
    for name, rates in found.items():
        figure.add(f"{model}: {name}", statistics.median(rates), "images/s", MEASURED, paper=PAPER, runs=rates)
        figure.keep(f"{model}: {name}", rates, "images/s", MEASURED)

    def compare(peer: str, at_least: float | None = None) -> None:
        ratios = [a / b for a, b in zip(found[GROUP], found[peer], strict=True)]
        label = f"{model}: {GROUP}, to {peer}"
        figure.add(label, statistics.median(ratios), "x", MEASURED, at_least=at_least, runs=ratios)

    compare(next(name for name in found if name.startswith("DDP")), DDP_LIMITS[model])
    compare(HAND, HAND_LIMIT)
    for other in (NO_OVERLAP, SERVERS, ALONE):
        compare(other)
