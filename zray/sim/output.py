"""Output of simulated workers, and its arrival at drivers: each line once, in order, none missing at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..roles.effects import ForgetOutput, OutputRead, OutputWritten, ReadOutput

if TYPE_CHECKING:
    from ..roles.role import Role
    from .node import Node
    from .simulator import Simulator

# As host/output/forwarding.py.
LOOK_SECONDS = 0.1
PIECE_LINES_MAX = 40
WRITE_SECONDS = 20e-6


class Log:
    """The output of a job's workers on a node."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.upto = 0  # number of lines read
        self.is_wanted = False

    def take(self) -> str:
        """The next piece."""
        begin, self.upto = self.upto, min(len(self.lines), self.upto + PIECE_LINES_MAX)
        self.is_wanted = False
        return "".join(self.lines[begin : self.upto])


class Output:
    """The output of all workers of a world."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.logs: dict[tuple[str, bytes], Log] = {}  # by node and job
        self.kept: dict[bytes, list[str]] = {}  # by job
        self.count = 0

    def print(self, node: Node, worker: str, job_id: bytes) -> None:
        """A worker prints a line."""
        if not self.world.options.prints or not job_id:
            return
        self.count += 1
        log = self._log(node, job_id)
        log.lines.append(f"{worker} {self.count}\n")
        if log.is_wanted:
            self._look_later(node, job_id)

    def _log(self, node: Node, job_id: bytes) -> Log:
        return self.logs.setdefault((node.name, job_id), Log())

    def _look_later(self, node: Node, job_id: bytes) -> None:
        self.world.call_later(LOOK_SECONDS, self._look, node, job_id)

    def _look(self, node: Node, job_id: bytes) -> None:
        log = self._log(node, job_id)
        if log.is_wanted and log.upto < len(log.lines) and not node.is_frozen:
            node.arrive("host", node.scheduler.address, OutputRead(job_id, log.take()))

    def perform(self, node: Node, role: Role, effect: Any) -> None:
        """ReadOutput, WriteOutput, ForgetOutput."""
        job_id = effect.job_id
        if type(effect) is ReadOutput:
            log = self._log(node, job_id)
            if effect.at_once:
                self.world.call_later(WRITE_SECONDS, self._answer, node, role, job_id)
                return
            log.is_wanted = True
            if log.upto < len(log.lines):
                self._look_later(node, job_id)
        elif type(effect) is ForgetOutput:
            self._log(node, job_id).is_wanted = False
        else:
            self.kept.setdefault(job_id, []).extend(effect.text.splitlines(keepends=True))
            outcome = OutputWritten(job_id, effect.source)
            self.world.call_later(WRITE_SECONDS, node.arrive, "host", role.address, outcome)

    def _answer(self, node: Node, role: Role, job_id: bytes) -> None:
        node.arrive("host", role.address, OutputRead(job_id, self._log(node, job_id).take()))

    def printed(self) -> dict[tuple[str, bytes], int]:
        """Return the present numbers of lines."""
        return {key: len(log.lines) for key, log in self.logs.items()}

    def check(self, before: dict[tuple[str, bytes], int]) -> None:
        """Check the lines that reached the drivers.  before: numbers of lines when the drivers asked for all output."""
        members = self.world.nodes[self.world.heads.home].scheduler.members
        for job_id, kept in self.kept.items():
            assert len(set(kept)) == len(kept), "a line reaches its driver twice"
            last: dict[str, int] = {}
            for line in kept:
                worker, number = line.split()
                assert last.get(worker, 0) < int(number), f"{worker} has printed that earlier"
                last[worker] = int(number)
                assert line in self.logs[worker.partition("/")[0], job_id].lines, "nobody has printed that"
        for (name, job_id), count in before.items():
            if f"{name}/local" in members.peers:  # output of a lost node is not awaited
                missing = set(self.logs[name, job_id].lines[:count]) - set(self.kept.get(job_id, ()))
                assert not missing, f"{len(missing)} of {count} lines of {name} have not reached their driver"
