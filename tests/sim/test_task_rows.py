"""Each row of the table of tasks is taken: by a few seeds, or by messages in a named test."""

import pytest

from tests.scripts import ROOT
from zray.roles.local_scheduler.task import FORWARDED, TRANSITIONS, Event, TaskState
from zray.sim.main import run_seed, sweep_program
from zray.sim.options import Wanted
from zray.sim.transitions import taken

pytestmark = pytest.mark.sim

SCHEDULERS = Wanted(nodes=4, deaths=True, schedulers=True, drains=True)
SEEDS = (
    *((seed, SCHEDULERS) for seed in (7, 10, 18, 23)),
    (12, Wanted(nodes=4, groups=True, deaths=True)),
    (5, Wanted(nodes=3, deaths=True)),
)
# Rows that few seeds take, and the tests in tests/roles that take them.
BY_MESSAGES = {
    (
        TaskState.PARKED,
        Event.SPILLED,
    ): "test_infeasible.py::test_a_scheduler_that_has_not_heard_of_a_node_yet_decides_nothing",
    (TaskState.SCHEDULER, Event.SPILLED): (
        "test_stealing.py::test_task_that_is_back_before_its_scheduler_has_named_the_node_goes_up_at_once"
    ),
    (TaskState.PLACED, Event.PLACED): (
        "test_losses.py::test_a_task_placed_on_a_node_that_was_lost_before_uses_up_no_attempt"
    ),
    (TaskState.SEARCHED, Event.PLACED): (
        "test_flights.py::test_node_that_is_named_during_the_search_and_lost_may_have_begun_the_task"
    ),
    (TaskState.SEARCHED, Event.FOUND): "test_flights.py::test_what_somebody_has_is_left_there",
    (TaskState.SEARCHED, Event.ACCEPTED): (
        "test_flights.py::test_task_that_a_node_accepts_during_the_search_stays_there"
    ),
    (TaskState.ACCEPTED, Event.ACCEPTED): (
        "test_flights.py::test_task_that_a_node_accepts_during_the_search_stays_there"
    ),
    (TaskState.SEARCHED, Event.DEFERRED): (
        "test_flights.py::test_task_that_is_given_back_during_the_search_is_deferred"
    ),
    (TaskState.READY, Event.DEFERRED): "test_trips.py::test_a_task_that_is_sent_back_to_a_node_full_of_actors_waits",
    (TaskState.READY, Event.REFUSED): "test_infeasible.py::test_alone_it_waits_for_ever_where_that_is_asked_for",
    (TaskState.SCHEDULER, Event.REFUSED): (
        "test_infeasible.py::test_a_scheduler_that_has_not_heard_of_a_node_yet_decides_nothing"
    ),
    (TaskState.SENT, Event.QUEUED): "test_reads.py::test_its_own_next_process_does_not_run_it_again",
    (TaskState.THROTTLED, Event.HAS_NO_PLACE): (
        "test_group_tasks.py::test_it_does_not_go_to_a_node_that_is_lost_and_goes_where_its_bundle_is_made_anew"
    ),
    **dict.fromkeys(
        ((state, Event.CHOSEN_HERE) for state in TaskState if (state, Event.CHOSEN_HERE) in TRANSITIONS),
        "test_task_rows.py::test_task_that_a_rebuilt_parent_places_here_waits_here",
    ),
    **dict.fromkeys(
        ((state, Event.ENDED) for state in TaskState if state >= FORWARDED),
        "test_task_rows.py::test_task_ends_with_its_job",
    ),
}


def test_each_row_is_taken():
    taken.clear()
    for seed, wanted in SEEDS:
        assert not run_seed(seed, wanted).error
    assert not sweep_program("spills", seed=2, capacity=200_000, spill_above=0.8).error
    assert set(TRANSITIONS) - taken == set(BY_MESSAGES) - taken


@pytest.mark.parametrize("place", sorted(set(BY_MESSAGES.values())))
def test_named_test_exists(place):
    file, _, name = place.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / "roles" / file).read_text()
