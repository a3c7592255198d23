"""Sums and findings of a report, on records made by hand: idle cores, functions, and what stands out."""

import pytest

from tests.api.records_by_hand import ROWS, get, record, run, task_id
from zray.api.task_waits import TaskWaits
from zray.store.event_ring import Event, Kind, Outcome
from zray.util.report.critical_path import critical_path
from zray.util.report.findings import Facts, bytes_of, findings_of, headline, text_of
from zray.util.report.functions import functions_of
from zray.util.report.idle import usage_of
from zray.util.report.runs import Runs
from zray.wire.events import Stage


def facts(runs, cores=2):
    return Facts(runs, usage_of(runs, cores), critical_path(runs), functions_of(runs))


def texts(runs, cores=2):
    return [finding.text for finding in findings_of(facts(runs, cores))]


def seconds(runs, cores=2):
    found = usage_of(runs, cores)
    assert sum(found.seconds.values()) == pytest.approx(cores * runs.end)
    assert found.bins.sum(axis=0) == pytest.approx(1.0)
    return {name: round(value, 6) for name, value in found.seconds.items() if value > 1e-9}


def test_core_seconds_are_told_by_reason():
    """Two cores for ten seconds: 2 s of the program, then a and b, then c which needs both, then 1 s of the program."""
    runs = [run("a", 2, 5, 2), run("b", 2.5, 8, 2, row=2), run("c", 8, 9, 2, ["a", "b"], row=1)]
    assert seconds(record(runs, [get(2, 9)], 10.0)) == {
        "busy": 9.5,
        "ready": 0.5,  # b waits for half a second
        "arguments": 3.0,  # c waits for b while one core is idle
        "program": 6.0,  # both cores, at the begin and at the end
        "few": 1.0,  # c alone
    }


def test_core_of_a_task_that_waits_is_not_busy():
    runs = [run("outer", 0, 4), run("inner", 1, 3, 1, parent="outer", row=2)]
    assert seconds(record(runs, [get(0, 4), get(1, 3, "outer", 1)]), 1) == {"busy": 4.0}


def test_calls_behind_others_of_their_actor_are_told_from_tasks():
    runs = [run(f"Model.step-{n}", n, n + 1, 0, kind=Kind.CALL) for n in range(3)]
    assert seconds(record(runs, [get(0, 3)])) == {"busy": 3.0, "actors": 2.0, "few": 1.0}


def test_more_runs_than_cores_keep_them_busy():
    runs = [run(f"a-{n}", 0, 2, row=n) for n in range(4)]
    assert seconds(record(runs, [get(0, 2)])) == {"busy": 4.0}
    assert "busy 100 %" in headline(facts(record(runs, [get(0, 2)])))


def test_functions_have_their_numbers():
    runs = [run(f"f-{n}", n, n + 1 + n, 0) for n in range(3)] + [run("g", 9, 10, 1, ["f-2"], error="KeyError")]
    first, second = functions_of(record(runs))
    assert (first.name, first.runs, first.total, first.mean, first.p50, first.longest) == ("f", 3, 6, 2, 2, 3)
    assert (first.waits_arguments, first.waits_turn, first.failed, first.errors) == (0, 1, 0, ())
    assert (second.name, second.waits_arguments, second.waits_turn, second.failed) == ("g", 4, 4, 1)
    assert second.errors == ("KeyError",)


def test_headline_says_how_idle_and_why():
    assert headline(facts(record([run("a", 6, 10, 6)], [get(6, 10)]))) == (
        "The cores were idle 80 % of the time, 60 % while the program itself computed."
    )
    assert headline(facts(record([], end=3.0))) == "No task ran."


def test_findings_name_the_function_on_which_the_time_hung():
    runs = [run("slow", 0, 9, 0), run("fast", 0, 1, 0, row=2)]
    assert texts(record(runs, [get(0, 9)], 10.0))[0] == "90 % of the time hung on `slow`: one run, 9 s in all."


def test_finding_of_a_program_that_computes():
    found = texts(record([run("a", 4, 5, 4)], [get(4, 5)], 10.0))
    assert found == ["The program went on for 5 s after its last task.", "The program took 4 s until its first task."]
    assert "`a`" not in " ".join(found)


def test_finding_of_a_straggler():
    runs = [run(f"part-{n}", 0, 1 if n else 9, 0, row=n % 4) for n in range(20)]
    assert "One run of `part` took 9 s; half of them take less than 1 s." in texts(record(runs, [get(0, 9)]), 20)


def test_finding_of_a_get_in_a_loop():
    runs = [run(f"step-{n}", n + 0.1, n + 0.9, n + 0.1) for n in range(20)]
    waits = [get(n + 0.1, n + 0.9) for n in range(20)]
    assert any("20 times before it submitted the next one" in text for text in texts(record(runs, waits)))
    at_once = [run(f"step-{n}", n, n + 1, 0) for n in range(20)]
    assert not any("times before" in text for text in texts(record(at_once, [get(0, 20)])))


def test_finding_of_small_tasks():
    runs = [run(f"tiny-{n}", n * 1e-3, n * 1e-3 + 1e-5, 0) for n in range(2_000)]
    found = texts(record(runs, [get(0, 2)]))
    assert found[0] == "2,000 runs of `tiny` do 10 us of work each, less than a task costs."


def test_finding_of_waits_for_a_core_and_for_an_actor():
    tasks = [run("long", 0, 6, 0, row=1), run("other", 0, 6, 0, row=2), run("last", 6, 9, 0)]
    assert "Tasks of the longest chain waited 6 s for a free core: `last`." in texts(record(tasks, [get(0, 9)]))
    calls = [run(f"Model.step-{n}", 2 * n, 2 * n + 2, 0, kind=Kind.CALL) for n in range(5)]
    assert "Calls of the longest chain waited 8 s for their actor: `Model.step`." in texts(record(calls, [get(0, 10)]))
    idle = [run("a", 5, 9, 0)]
    assert "waited 5 s to begin while cores were idle" in " ".join(texts(record(idle, [get(0, 9)])))


def test_finding_of_failures_is_shown_however_short_they_are():
    runs = [run("ok", 0, 10, 0), run("bad", 0, 0.001, 0, row=2, error="OSError")]
    assert "1 of 1 runs of `bad` failed: OSError." in texts(record(runs, [get(0, 10)]))


def node(store, disk):
    return {"node": "8f3a", "times": [*range(len(store))], "store": store, "disk": disk, "capacity": 4 << 30}


def test_findings_of_memory():
    runs = record([run("a", 0, 10, 0)], [get(0, 10)])
    grows, full = [number << 30 for number in range(4)] + [3.5 * 2**30], [3 << 30] * 5
    for store, disk, words in (
        (grows, [0] * 5, "only grew, to 3.5 GiB: perhaps a leak"),
        (full, [0, 0, 0, 1 << 30, 2 << 30], "Up to 2 GiB of values were spilled to disk on node 8f3a"),
    ):
        found = findings_of(facts(runs)._replace(memory=[node(store, disk)]))
        assert words in " ".join(finding.text for finding in found)
    falls = [*grows[:4], 1 << 30]
    found = findings_of(facts(runs)._replace(memory=[node(full, [0] * 5), node(falls, [0] * 5)]))
    assert not [finding for finding in found if "8f3a" in finding.text]
    assert [bytes_of(count) for count in (0, 1023, 1536, 1 << 41)] == ["0 B", "1023 B", "1.5 KiB", "2 TiB"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2e-6, "2 us"),
        (0.0512, "51.2 ms"),
        (1.204, "1.2 s"),
        (242, "4m 02s"),
        (7_890, "2h 11m"),
        (59.99, "60 s"),
        (0.9996, "1000 ms"),
    ],
)
def test_durations_have_three_digits(value, text):
    assert text_of(value) == text


def test_waits_that_nodes_have_recorded_are_told():
    """A core of two is idle while b waits: 3 s for its arguments' way to the node, and 4 s for room there."""
    runs = record([run("a", 0, 1), run("b", 8, 10, 0.5, ["a"], row=2)], [get(0, 10)])
    b = next(each for each in runs.runs if each.name == "b")
    places = b._replace(places=(1,))
    runs = Runs([places if each is b else each for each in runs.runs], runs.waits, 10.0, ROWS, 0.0, TaskWaits())
    for kind, task, begin, end, more in (
        (Kind.STAGE, "b", 1.0, 4.0, {"tasks": 1, "stage": Stage.ARGUMENTS}),
        (Kind.FETCH, "a", 1.0, 4.0, {"place": 1}),
        (Kind.STAGE, "b", 4.0, 8.0, {"tasks": 1, "stage": Stage.ROOM}),
    ):
        event = Event(kind, task_id(task), begin, begin, end, end, task, "", Outcome.FINISHED, 0, 0, **more)
        runs.at_nodes.add(event, "node", 0.0)
    (advice,) = [each.advice for each in findings_of(facts(runs)) if "waited 7 s to begin" in each.text]
    assert advice == "By the records, 4 s for room on any node and 3 s for the way of arguments to the node."


def test_wait_in_the_process_that_ran_a_task_is_told():
    runs = record([run("a", 0, 1), run("b", 8, 10, 0.5, row=2), run("b", 11, 12, 0.5, row=2)], [get(0, 12)])
    first, again = (place for place, each in enumerate(runs.runs) if each.name == "b")
    assert [(wait.stage, wait.seconds) for wait in runs.waits_of(first)] == [("process", 7.5)]
    assert runs.waits_of(again) == []
    (advice,) = [each.advice for each in findings_of(facts(runs)) if "to begin" in each.text]
    assert advice == "By the records, 7.5 s for earlier tasks in its process."
