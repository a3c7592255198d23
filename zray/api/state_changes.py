"""Changes of state of nodes, workers, programs, actors and placement groups, from event records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..ids import JOB_ID_BYTES
from ..store.event_ring import Event, Kind, RingContent
from ..wire.events import FINAL, State, Thing

__all__ = ["KINDS", "Change", "changes_of"]

# In the order in which they are shown, with their names there.
KINDS = {
    Thing.NODE: "node",
    Thing.WORKER: "worker",
    Thing.JOB: "job",
    Thing.ACTOR: "actor",
    Thing.GROUP: "placement group",
}
_STATES = {int(state): state.name for state in State}
_FINAL = frozenset(state.name for state in FINAL)


class Change(NamedTuple):
    """A change of state.

    time: seconds since 1970.  kind: a name of KINDS.  id: hexadecimal; of a worker, its number on its node; of a node,
    its id.  name: of the actor's class, or of the group; "": none.  reason: why, as of an end; "": not known.
    pid: of the process; 0: none.  node: the node that has recorded it.
    """

    time: float
    kind: str
    id: str
    state: str
    name: str
    reason: str
    pid: int
    node: str

    @property
    def is_final(self) -> bool:
        """Whether nothing leaves the state."""
        return self.state in _FINAL

    @property
    def thing(self) -> tuple[str, str, str]:
        """The thing that has entered the state."""
        return self.kind, self.id, self.node if self.kind == KINDS[Thing.WORKER] else ""


def changes_of(nodes: Mapping[str, Sequence[RingContent]]) -> list[Change]:
    """Return the recorded changes of state, in the order of their times.

    Several nodes may have recorded one: all that hear of the end of a node, and those with bundles of a group.  The
    first record counts.

    Args:
        nodes: the records of processes, by node.
    """
    found: list[Change] = []
    for node, rings in nodes.items():
        clock = min(ring.offset for ring in rings)  # one a machine
        found += [
            _change(event, clock, node)
            for ring in rings
            for event in ring.events
            if event.kind == Kind.CHANGE and event.thing in KINDS and event.state in _STATES
        ]
    found.sort(key=lambda change: change.time)
    last: dict[tuple[str, str, str], Change] = {}
    kept: list[Change] = []
    for change in found:
        before = last.get(change.thing)
        if before is not None and (before.state == change.state or (before.is_final and change.is_final)):
            continue
        if before is not None and not change.name:
            change = change._replace(name=before.name)
        last[change.thing] = change
        kept.append(change)
    return kept


def _change(event: Event, clock: float, node: str) -> Change:
    kind, number = KINDS[Thing(event.thing)], event.task_id
    if event.thing == Thing.NODE:
        shown = event.name
    elif event.thing == Thing.WORKER:
        shown = str(int.from_bytes(number[:8], "big"))
    else:
        shown = (number[:JOB_ID_BYTES] if event.thing == Thing.JOB else number).hex()
    name = "" if event.thing == Thing.NODE else event.name
    return Change(event.begin + clock, kind, shown, _STATES[event.state], name, event.error, event.pid, node)
