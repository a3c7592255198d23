"""What each room of a local scheduler handles."""

from __future__ import annotations

from typing import Any

from . import (
    acks,
    actor_ends,
    actor_moves,
    actor_names,
    actor_room,
    bundles,
    calls,
    code,
    departures,
    drain,
    flights,
    functions,
    going,
    groups,
    guards,
    holding,
    journals,
    keeping,
    lending,
    logs,
    members,
    output,
    pool,
    puts,
    remote_calls,
    results,
    routes,
    small_values,
    stealing,
    trips,
    undoing,
)
from .explain import EXPLAIN_HANDLERS
from .fetches import FETCH_HANDLERS
from .infeasible import INFEASIBLE_HANDLERS
from .lineage import LINEAGE_HANDLERS
from .recovery import RECOVERY_HANDLERS

ROOM_HANDLERS: dict[type, Any] = {
    **acks.HANDLERS,
    **actor_ends.HANDLERS,
    **actor_moves.HANDLERS,
    **actor_names.HANDLERS,
    **actor_room.HANDLERS,
    **bundles.HANDLERS,
    **calls.HANDLERS,
    **code.HANDLERS,
    **drain.HANDLERS,
    **flights.HANDLERS,
    **functions.HANDLERS,
    **going.HANDLERS,
    **groups.HANDLERS,
    **guards.HANDLERS,
    **holding.HANDLERS,
    **journals.HANDLERS,
    **keeping.HANDLERS,
    **lending.HANDLERS,
    **logs.HANDLERS,
    **members.HANDLERS,
    **output.HANDLERS,
    **pool.HANDLERS,
    **puts.HANDLERS,
    **remote_calls.HANDLERS,
    **results.HANDLERS,
    **routes.HANDLERS,
    **small_values.HANDLERS,
    **stealing.HANDLERS,
    **departures.HANDLERS,
    **trips.HANDLERS,
    **undoing.HANDLERS,
    **FETCH_HANDLERS,
    **LINEAGE_HANDLERS,
    **RECOVERY_HANDLERS,
    **INFEASIBLE_HANDLERS,
    **EXPLAIN_HANDLERS,
}
