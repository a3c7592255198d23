"""The measuring programs run, and their table is whole."""

import json
import re
import subprocess
import sys

import pytest

from benchmarks.microbenchmark import Report, print_table, row_of
from benchmarks.table import GROUPS, SLOW, WORKLOAD_NAMES, chosen_groups
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
    report.rows = [row_of(group, group.figures[0], 50_000.0, {"async_10k": 200_000.0})]
    print_table(report)
    *_, legend = capsys.readouterr().out.strip().splitlines()
    for column in ("target", "floor", "ratio", "needed", "no"):
        assert re.search(rf"\b{column}\b", legend), column
    assert len(legend) <= 200


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
