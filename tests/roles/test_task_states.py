"""Tasks that another node is to run: the table of their states, and the indexes that follow it."""

from hypothesis import given
from hypothesis import strategies as st

from zray.roles.local_scheduler.task import FORWARDED, TRANSITIONS, Event, Task, TaskState, TaskStates
from zray.wire.task_spec import DEFAULT_OPTIONS, TaskSpec

STATES = [state for state in TaskState if state >= FORWARDED]
NODES, SCHEDULERS = ("n1/local", "n2/local"), ("n1/global-0", "n2/global-0")
# Methods of a task that is here; `ended` is one of both.
LOCAL_EVENTS = (Event.ENQUEUED, Event.SENT, Event.RETURNED, Event.LACKS_ARGUMENT, Event.QUEUED, Event.ENDED)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.sampled_from([event for event in Event if event not in LOCAL_EVENTS]), st.none()),
        st.sampled_from(("", *NODES)),
        st.sampled_from(("", *SCHEDULERS)),
    ),
    max_size=40,
)


def new_task(number):
    return Task(TaskSpec(number.to_bytes(16, "big"), b"f" * 16, options=b"one"), DEFAULT_OPTIONS, None, None)


def indexed(forwarded):
    return [(state, task_id) for state, tasks in forwarded.index.items() for task_id in tasks]


@given(STEPS)
def test_indexes_follow_the_states(steps):
    forwarded, tasks = TaskStates(), [new_task(number) for number in range(3)]
    for number, event, peer, scheduler in steps:
        task = tasks[number]
        before = (task.state, indexed(forwarded))
        if event is None:
            forwarded.ended(task)
            assert task.state == TaskState.DONE
        elif not forwarded.happened(task, event, peer=peer, scheduler=scheduler):
            assert (before[0], event) not in TRANSITIONS
            assert (task.state, indexed(forwarded)) == before, "stale news changes nothing"
        forwarded.check_everything()
        away = [task for task in tasks if task.state >= FORWARDED]
        assert sorted(indexed(forwarded)) == sorted((task.state, task.spec.task_id) for task in away)
        assert sum(map(len, forwarded.by_peer.values())) == sum(bool(task.forward.peer) for task in away)
        deferred = sum(task.state == TaskState.DEFERRED for task in tasks)
        assert forwarded.deferred_kinds == ({b"one": deferred} if deferred else {})


def test_task_can_go_up_again_or_end_from_each_state():
    for state in STATES:
        reached, new = {state}, {state}
        while new:
            new = {then for (at, _), then in TRANSITIONS.items() if at in reached} - reached
            reached |= new
        assert TaskState.THROTTLED in reached, state


def test_each_state_is_reached_by_an_event():
    assert set(TRANSITIONS.values()) == set(TaskState)


def test_placed_task_of_a_scheduler_that_is_gone_is_searched_with_its_node_named():
    """PlaceTask may be lost with the scheduler, though TaskPlaced was not."""
    forwarded, task = TaskStates(), new_task(1)
    for event, facts in (
        (Event.SPILLED, {}),
        (Event.HANDED_UP, {"scheduler": SCHEDULERS[0]}),
        (Event.PLACED, {"peer": NODES[0]}),
    ):
        assert forwarded.happened(task, event, **facts)
    assert forwarded.with_scheduler(SCHEDULERS[0]) == forwarded.with_peer(NODES[0]) == [task]
    assert forwarded.happened(task, Event.SCHEDULER_GONE)
    assert (task.state, forwarded.with_scheduler(SCHEDULERS[0])) == (TaskState.SEARCHED, [])
    assert forwarded.with_peer(NODES[0]) == [task]  # lost meanwhile, an attempt is used up: it may have begun there
