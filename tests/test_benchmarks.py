"""The measuring programs run, and their table is whole."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks.microbenchmark import Report, Round, print_table
from benchmarks.peers import PEERS, ZRAY, Peer, Turn, markdown, take_turn
from benchmarks.runner import Outcome
from benchmarks.table import BOUND, GROUPS, SLOW, WORKLOAD_NAMES, chosen_groups
from tests.scripts import ROOT, environment


def test_figures_and_workloads_have_names_of_their_own():
    names = [figure.name for group in GROUPS for figure in group.figures]
    assert len(set(names)) == len(names)
    assert len(set(WORKLOAD_NAMES)) == len(WORKLOAD_NAMES)
    assert SLOW <= set(WORKLOAD_NAMES)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no such group or workload: nothing; there are .*tasks_sync"):
        chosen_groups(["nothing"])


def test_the_table_explains_its_columns(capsys):
    """In one line below it."""
    report = Report()
    group = next(group for group in GROUPS if group.name == "tasks")
    report.add(group, [round_of(50_000.0, 200_000.0)])
    print_table(report)
    *_, legend = capsys.readouterr().out.strip().splitlines()
    for column in ("target", "floor", "ratio", "needed", "limit"):
        assert re.search(rf"\b{column}\b", legend), column
    assert len(legend) <= 200


@pytest.mark.parametrize("quick", [False, True])
def test_limit_that_is_missed_is_explained_below_the_table(capsys, quick):
    report = Report()
    (group,) = chosen_groups(["tasks_async"])
    report.add(group, [round_of(1.0, 100.0)])
    print_table(report, quick)
    *table, said, _ = capsys.readouterr().out.splitlines()
    assert "missed" in "".join(table) and said.startswith("1 of 1 limits are missed.  They hold for an idle machine")
    assert ("`zray microbenchmark` measures for long" in said) is quick


def round_of(tasks, floor):
    return Round(Outcome({"single_client_tasks_async": tasks}), {"async_10k": floor})


def test_a_ratio_is_of_one_time_and_the_median_of_all():
    """The machine may be twice as fast a minute later."""
    report = Report()
    (group,) = chosen_groups(["tasks_async"])
    report.add(group, [round_of(40.0, 100.0), round_of(90.0, 200.0), round_of(10.0, 100.0)])
    (row,) = report.rows
    assert row["ratio"] == 0.4 and row["ok"]
    assert (row["measured"], row["floor"]) == (40.0, 100.0)


def test_workloads_that_a_floor_binds_are_known_by_name():
    assert set(WORKLOAD_NAMES) >= BOUND
    assert all(figure.floor is None for group in GROUPS for figure in group.figures if not BOUND & names_in(group))


def names_in(group):
    return {workload.__name__ for workload in group.shared + group.fresh}


def test_peers_stand_beside_us_in_the_table():
    """Above 1 where zray is better, whichever way better is."""
    (group,) = chosen_groups(["tasks_sync"])
    ours = Turn({"single_client_tasks_sync": 3_000.0, "task_round_trip_p50": 200.0})
    theirs = Turn({"single_client_tasks_sync": 1_000.0, "task_round_trip_p50": 100.0})
    turns = {(group.name, ZRAY.name): ours, (group.name, "other"): theirs}
    lines = markdown([group], [ZRAY, Peer("other", "other")], turns).splitlines()
    assert "| one task at a time | 1/s | 3,000 | 1,000 (3x) |" in lines
    assert "| one task, p50 | us | 200 | 100 (0.5x) |" in lines


@pytest.mark.slow
def test_a_pool_runs_our_workloads():
    """With what is installed here; its own environment is made when somebody asks for it."""
    pool = replace(PEERS["futures"], packages=())
    (group,) = chosen_groups(["tasks_sync"])
    turn = take_turn(pool, group, ROOT, quick=True)
    assert not turn.errors and turn.values["task_round_trip_p50"] > 0


@pytest.mark.slow
def test_a_measurement_says_what_was_measured_and_on_what():
    command = [sys.executable, "-m", "benchmarks.microbenchmark", "--quick", "--json", "-"]
    command += ["--only", "tasks_sync", "--only", "life"]
    result = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=55)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert not report["errors"]
    assert {"task_round_trip_p50", "first_result", "shutdown"} <= set(report["figures"])
    assert report["figures"]["task_round_trip_p50"]["ratio"] > 0
    assert report["machine"]["cores"] > 0
