"""A task in each state in which another node is to run it: its end with its job, and its start here after all."""

import pytest

from tests.roles.desk import DRIVER, FUNCTION, JOB, Desk
from zray.ids import put_id
from zray.roles.effects import ProcessLeft
from zray.roles.local_scheduler.task import FORWARDED, TRANSITIONS, Event, TaskState
from zray.wire.gcs import NodeJoined
from zray.wire.scheduling import JobFacts, PlaceTask
from zray.wire.task_spec import RESOURCE_UNIT, TaskSpec

OTHER, THIRD, SCHEDULER = "n2/local", "n3/local", "global"
SPEC = TaskSpec(b"t" * 16, FUNCTION, deps=(put_id(b"o" * 16, 1),))
STATES = [state for state in TaskState if state >= FORWARDED]


def events_to(state):
    """The shortest way there from WAITING."""
    ways = {TaskState.WAITING: []}
    for at in (reached := [TaskState.WAITING]):
        for (before, event), then in TRANSITIONS.items():
            if before == at and then >= FORWARDED and then not in ways:
                ways[then] = [*ways[at], event]
                reached.append(then)
    return ways[state]


def desk_with_task(state):
    """A task that waits for an argument, and then is moved on to that state."""
    desk = Desk(cpus=1)
    desk.scheduler.is_embedded = False
    desk.submit(SPEC)
    desk.tell("monitor", NodeJoined(OTHER, {"CPU": RESOURCE_UNIT}))
    task = desk.scheduler.tasks[SPEC.task_id]
    desk.scheduler.trips.stop_waiting([task])
    for event in events_to(state):
        names = {"peer": OTHER} if event in (Event.PLACED, Event.FOUND, Event.ACCEPTED, Event.ADDRESSED) else {}
        names |= {"scheduler": SCHEDULER} if event == Event.HANDED_UP else {}
        assert desk.scheduler.task_states.happened(task, event, **names)
    assert desk.tasks_in(state) == [SPEC.task_id]
    return desk


@pytest.mark.parametrize("state", STATES)
def test_task_that_a_rebuilt_parent_places_here_waits_here(state):
    """The parent runs again on another node, which places its child here; ours is under way."""
    desk = desk_with_task(state)
    desk.tell(THIRD, PlaceTask(SPEC, THIRD, JOB, JobFacts(), trip=1))
    assert desk.tasks_in(TaskState.WAITING) == [SPEC.task_id]
    desk.scheduler.check_everything()


@pytest.mark.parametrize("state", STATES)
def test_task_ends_with_its_job(state):
    desk = desk_with_task(state)
    desk.tell("host", ProcessLeft(DRIVER, "process has ended"))
    assert not desk.scheduler.tasks and not desk.tasks_in(*STATES)
    desk.scheduler.check_everything()
