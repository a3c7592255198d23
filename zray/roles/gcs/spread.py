"""The machines of a chain's members: as many as there are (docs/design/gcs-chain.md).

A member's machine is the node that runs it; "": the head's.  A chain all of whose members are there takes one more in
from where it has none, and when that has caught up, one that shares its machine is taken out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .master import Chain


class Spread:
    """Of all chains of a master.  machines: member -> its machine, for those that are not the head's."""

    def __init__(self, machines: dict[str, str]) -> None:
        self.machines = machines
        self.leaving: dict[str, None] = {}

    def machine(self, member: str) -> str:
        """Where it runs."""
        return self.machines.get(member, "")

    def on_machine(self, node: str) -> list[str]:
        """All that run there."""
        return [member for member, machine in self.machines.items() if machine == node]

    def spare(self, chain: Chain, replicas: int) -> str:
        """Who is to join now; "": nobody."""
        if chain.joining or not chain.is_announced:
            return ""  # nothing is given to a second member before the first one's log has an epoch
        machines = [self.machine(member) for member in chain.members]
        staying = [name for name in chain.spares if self.machine(name) not in self.leaving]
        fresh = [name for name in staying if self.machine(name) not in machines]
        if len(machines) < replicas:
            return next(iter((*fresh, *staying, *chain.spares)), "")
        if chain.tentative or len(machines) > replicas:
            return ""
        if any(machine in self.leaving for machine in machines):
            return next(iter((*fresh, *staying)), "")
        return next(iter(fresh), "") if len(set(machines)) < len(machines) else ""

    def redundant(self, chain: Chain, replicas: int) -> str:
        """Who is one too many now, so that a move is complete; "": nobody.  Rather the last ones: the clients of a
        chain do not notice when neither its head nor its tail changes.
        """
        if chain.joining or chain.tentative or len(chain.members) <= replicas:
            return ""
        machines = [self.machine(member) for member in chain.members]
        shared = [machine for machine in machines if machine in self.leaving or machines.count(machine) > 1]
        shared.sort(key=lambda machine: machine not in self.leaving)
        found = [member for member in chain.members if not shared or self.machine(member) == shared[0]]
        return found[-1]
