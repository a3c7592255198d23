"""Critical path of a run, on records made by hand with known answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.records_by_hand import get, record, run
from zray.store.event_ring import Kind
from zray.util.report.critical_path import critical_path


def shown(runs):
    """The path as (kind, name, begin, end), and that it has no gap and no overlap."""
    steps = critical_path(runs).steps
    moments = [moment for step in steps for moment in (step.begin, step.end)]
    assert moments == sorted(moments) and moments[1:-1:2] == moments[2::2]
    assert not steps or (moments[0], moments[-1]) == (0.0, runs.end)
    return [(step.kind, step.name, step.begin, step.end) for step in steps]


def test_program_without_tasks_is_its_own_path():
    assert shown(record([], end=3.0)) == [("program", "", 0.0, 3.0)]
    assert shown(record([])) == []


def test_path_goes_through_the_argument_that_was_made_last():
    """A diamond: a, then b and c, then d; c is the slow one."""
    runs = [
        run("a", 1, 2, 0.5),
        run("b", 2, 3, 0.5, ["a"]),
        run("c", 2, 6, 0.5, ["a"]),
        run("d", 6.5, 8, 0.5, ["b", "c"]),
    ]
    assert shown(record(runs, [get(0.5, 8.25)], 9.0)) == [
        ("program", "", 0.0, 0.5),
        ("queue", "a", 0.5, 1),
        ("run", "a", 1, 2),
        ("run", "c", 2, 6),
        ("queue", "d", 6, 6.5),
        ("run", "d", 6.5, 8),
        ("result", "d", 8, 8.25),
        ("program", "", 8.25, 9.0),
    ]


def test_path_goes_through_a_late_submission_in_place_of_an_early_argument():
    runs = [run("a", 0, 1), run("b", 5, 6, 4.5, ["a"])]
    assert shown(record(runs, [get(4.5, 6)])) == [
        ("program", "", 0.0, 4.5),
        ("queue", "b", 4.5, 5),
        ("run", "b", 5, 6),
    ]


def test_get_in_a_loop_is_a_chain_of_program_and_tasks():
    runs = [run(f"step-{n}", n + 0.5, n + 0.75, n + 0.25) for n in range(3)]
    waits = [get(n + 0.25, n + 1) for n in range(3)]
    expected = []
    for n in range(3):
        expected += [
            ("program", "", n, n + 0.25),
            ("queue", "step", n + 0.25, n + 0.5),
            ("run", "step", n + 0.5, n + 0.75),
            ("result", "step", n + 0.75, n + 1),
        ]
    found = critical_path(record(runs, waits))
    assert shown(record(runs, waits)) == expected
    assert found.rows()[0][2:] == (3, 0.75) and sum(row[3] for row in found.rows()) == 3.0
    assert found.seconds_by_kind() == {"program": 0.75, "queue": 0.75, "run": 0.75, "result": 0.75}


def test_nested_tasks_lead_through_their_parents():
    runs = [
        run("outer", 1, 9, 0.5),
        run("inner-1", 2, 4, 1.5, parent="outer", row=2),
        run("inner-2", 2, 7, 1.5, parent="outer", row=3),
    ]
    assert shown(record(runs, [get(0.5, 9), get(1.75, 7.5, "outer", 1)])) == [
        ("program", "", 0.0, 0.5),
        ("queue", "outer", 0.5, 1),
        ("run", "outer", 1, 1.5),
        ("queue", "inner", 1.5, 2),
        ("run", "inner", 2, 7),
        ("result", "inner", 7, 7.5),
        ("run", "outer", 7.5, 9),
    ]


def test_child_whose_parent_did_not_wait_leads_to_the_submission():
    """The parent returns a ref on its child's result, and ends ahead of it."""
    runs = [run("outer", 1, 3, 0), run("inner", 2.5, 8, 2, parent="outer", row=2)]
    expected = [
        ("queue", "outer", 0, 1),
        ("run", "outer", 1, 2),
        ("queue", "inner", 2, 2.5),
        ("run", "inner", 2.5, 8),
        ("result", "inner", 8, 8.5),
    ]
    assert shown(record(runs, [get(0, 8.5)])) == expected
    assert shown(record(runs, [get(0, 3), get(3, 8.5)])) == expected


def test_task_of_others_is_not_the_cause_of_a_wait_in_a_task():
    runs = [
        run("outer", 0, 9, 0),
        run("inner", 1, 4, 1, parent="outer", row=2),
        run("other", 1, 6, 0, row=3),
    ]
    steps = shown(record(runs, [get(0, 9), get(1, 7, "outer", 1)]))
    assert ("result", "inner", 4, 7) in steps and not [step for step in steps if step[1] == "other"]


def test_retry_leads_through_the_attempt_before():
    runs = [run("work", 1, 3, 0, error="OSError"), run("work", 4, 6, 0, row=2)]
    assert shown(record(runs, [get(0, 6)])) == [
        ("queue", "work", 0, 1),
        ("run", "work", 1, 3),
        ("queue", "work", 3, 4),
        ("run", "work", 4, 6),
    ]


def test_wait_for_no_task_is_a_step_of_its_own():
    assert shown(record([run("a", 0, 1)], [get(2, 5)], 6.0)) == [
        ("program", "", 0.0, 2),
        ("blocked", "", 2, 5),
        ("program", "", 5, 6.0),
    ]


def test_constructor_without_a_submission_leads_to_its_creator():
    runs = [
        run("Model", 1, 2, None, kind=Kind.CONSTRUCTOR),
        run("Model.step", 2.5, 3, 0.5, kind=Kind.CALL),
    ]
    assert shown(record(runs, [get(0.5, 3)]))[-1] == ("run", "Model.step", 2.5, 3)


@pytest.mark.parametrize("count", [5_000])
def test_long_chain_is_no_recursion(count):
    runs = [run(f"link-{n}", n, n + 1, 0, [f"link-{n - 1}"] if n else []) for n in range(count)]
    assert len(shown(record(runs, [get(0, count)]))) == count


moments = st.integers(0, 20).map(float)
SPANS = st.tuples(moments, moments).map(sorted)


@given(
    st.lists(st.tuples(SPANS, moments, st.integers(-1, 9), st.lists(st.integers(0, 9), max_size=3)), max_size=10),
    st.lists(st.tuples(SPANS, st.integers(-1, 9)), max_size=8),
    moments,
)
def test_any_record_has_a_path_without_gaps(rows, waits, end):
    """Also one with clocks that disagree: children before their parents, arguments that come too late."""
    runs = [
        run(f"f-{n}", begin, stop, submitted if submitted <= begin else None, [f"f-{each}" for each in needs],
            None if parent < 0 else f"f-{parent}")
        for n, ((begin, stop), submitted, parent, needs) in enumerate(rows)
    ]  # fmt: skip
    shown(record(runs, [get(begin, stop, None if owner < 0 else f"f-{owner}") for (begin, stop), owner in waits], end))
