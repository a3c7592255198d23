"""Lowered limits, so that small programs reach them: each run exercises a role's reaction.

Each seed of `--tight` lowers some limits.  Only limits at which a role holds back, divides or refuses for a while: a
program must not notice.  Limits that lead to an error (`journals`, `waits`) have separate tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from random import Random

LOCAL, GCS, OBJECTS = "local_scheduler.", "gcs.", "object_manager."
# Places of a limit (each module that has the name; below zray.roles) -> values to choose from.
LOWERED: dict[tuple[str, ...], tuple[int, ...]] = {
    (GCS + "client.REQUESTS_MAX",): (1, 3),
    (GCS + "client.CONFIRM_AFTER",): (1, 2),
    (GCS + "chain.ASIDE_MAX",): (1, 2, 5),
    (GCS + "entrance.HISTORY_MAX",): (1, 2, 5),
    (GCS + "entrance.RESULTS_MAX",): (1, 5, 20),
    (GCS + "journal.GATHERED_MAX",): (2, 5),
    (GCS + "shard.AWAITED_MAX",): (0, 1),
    (GCS + "handover.UPDATES_MAX",): (1, 2),
    (GCS + "keeping.WORDS_MAX",): (1, 2),
    (GCS + "keeping.CARRIERS_MAX",): (1,),
    (GCS + "state.PART_RECORDS_MAX",): (1, 3),
    (GCS + "flushing.PAGES_MAX",): (1,),
    (LOCAL + "tasks.dispatch.INFLIGHT_COUNT_MAX",): (2, 3),
    (LOCAL + "actors.calls.CALLS_IN_FLIGHT_MAX",): (1, 2),
    (LOCAL + "forwarding.departures.TASKS_PER_TURN", LOCAL + "forwarding.trips.TASKS_PER_TURN"): (1, 2),
    (LOCAL + "forwarding.departures.AWAY_MAX",): (1, 3),
    (LOCAL + "membership.drain.MOVING_MAX",): (1, 2),
    (LOCAL + "tasks.dispatch.QUEUES_MAX",): (1, 2),
    (LOCAL + "tasks.dispatch.MEANS_MAX", "task_executor.MEANS_MAX"): (1, 2),
    (LOCAL + "objects.undoing.PORTION_COUNT_MAX",): (1, 3),
    (LOCAL + "reporting.reasons.ASKED_COUNT_MAX",): (0, 1),
    (LOCAL + "forwarding.flights.TASKS_MAX",): (1, 2),
    (LOCAL + "routes.routes.BATCH_COUNT_MAX",): (1, 2),
    (LOCAL + "actors.remote_calls.BATCH_COUNT_MAX",): (1, 2),
    (LOCAL + "tasks.lending.NESTED_SEARCH_MAX",): (1, 2),
    (LOCAL + "tasks.code.IDLE_COUNT_MAX",): (0, 1, 2),
    (LOCAL + "objects.table.SMALL_BYTES_MAX",): (10, 30),
    (LOCAL + "objects.small_values.INLINE_BYTES_TOTAL",): (0, 100, 1_000),
    (LOCAL + "objects.lineage.UNHEARD_MAX",): (1, 2),
    (LOCAL + "objects.lineage.FRESH_COUNT",): (1, 3),
    (LOCAL + "worker.LEARNED_COUNT_MAX", "task_executor.LEARNED_COUNT_MAX"): (1, 2),
    (LOCAL + "worker.LEARNED_BYTES_MAX", "task_executor.LEARNED_BYTES_MAX"): (1, 20),
    (OBJECTS + "sources.WINDOW_BYTES", OBJECTS + "sources.WINDOW_BYTES_MAX", OBJECTS + "gives.WINDOW_BYTES_MAX"): (
        16 << 10,
        64 << 10,
    ),
    (OBJECTS + "sources.WINDOWS_BYTES_MAX",): (16 << 10, 64 << 10),
    (OBJECTS + "gives.PIECE_CHUNKS",): (1, 2),
    ("global_scheduler.scheduler.LOCATING_MAX", GCS + "client.LOCATING_MAX"): (0, 1),
    (GCS + "client.SAID_MAX",): (1, 3),
    (GCS + "client.PENDING_MAX",): (0, 2, 10),
    (".wire.link.IN_FLIGHT_BYTES_MAX", ".wire.link.ACKNOWLEDGE_BYTES"): (100, 300, 2_000),
    ("client.BUFFERED_COUNT_MAX", ".sim.process.BUFFERED_COUNT_MAX"): (1, 2),
    ("global_scheduler.stealing.LONG_SECONDS",): (0,),
    ("global_scheduler.stealing.PORTION_MAX",): (1, 3),
    (GCS + "tables.ARGUMENTS_BYTES_MAX",): (0, 10),
}


def chosen(seed: int) -> dict[tuple[str, ...], int]:
    """Return the limits that this seed lowers, and the values."""
    random = Random(f"zray caps {seed}")
    share = random.choice((0.2, 0.5, 1.0))
    return {places: random.choice(values) for places, values in LOWERED.items() if random.random() < share}


@contextmanager
def lowered(caps: dict[tuple[str, ...], int]) -> Iterator[None]:
    """Lower limits in this process, for the duration of the context."""
    before = []
    try:
        for places, value in caps.items():
            for place in places:
                path, _, name = place.rpartition(".")
                module = import_module(f"zray{path}" if path.startswith(".") else f"zray.roles.{path}")
                before.append((module, name, getattr(module, name)))
                setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
