"""What commands print in tables: whole in a pipe, however long; within a terminal's width, and nothing cut."""

import contextlib
import io
import json
import math
import re

import pytest
from rich.table import Table

from cli import tables
from cli.state import _json
from cli.status import print_cluster, shards_in_words
from cli.tables import show, show_rows

LONG = [f"word{number}" for number in range(40)]


@pytest.fixture
def table():
    table = Table("name", "what")
    table.add_row("a", " ".join(LONG))
    return table


def test_in_a_pipe_a_row_is_one_line(table, capsys):
    show(table)
    assert " ".join(LONG) in capsys.readouterr().out


ODD_ROWS = [
    ["a", "", "é 漢字"],
    ["line\nmore\n", "tab\there", "x\x1b[31m"],
    ["[bold]x[/]", "1" * 300, "👍"],
    ["\u202e", "-", "None"],
]


def printed(rows, encoding="utf-8"):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    with contextlib.redirect_stdout(stream):
        show_rows(["one", "two words", "three"], rows)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("rows", [ODD_ROWS, ODD_ROWS[:1], [["a", "b", "c"]]])
def test_long_table_looks_as_a_short_one(rows, encoding, monkeypatch):
    short = printed(rows, encoding)
    monkeypatch.setattr(tables, "ROWS_MAX", 0)
    assert printed(rows, encoding) == short


@pytest.mark.parametrize(
    "found",
    [
        [{"task_id": "00ff", "run_ms": None, "waits_ms": {"queue": 30.032}, "is_alive": True, "rows": [1, [], {}]}],
        [],
        {},
        [{"name": "é \ud800"}, {"name": '"\\\n\x1b'}],
        {"a": {"b": (1, 2.0, 1e300, 0.1)}, "large": 1 << 70},
        {1: 2},
    ],
)
def test_json_is_that_of_the_module_of_python(found):
    text = _json(found)
    assert text == json.dumps(found, indent=2) or json.loads(text) == json.loads(json.dumps(found))


def test_json_has_null_for_what_is_no_number():
    assert json.loads(_json([math.nan])) == [None]


def test_on_a_terminal_rows_fold_and_nothing_is_cut(table, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    show(table)
    printed = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert all(len(line) <= 40 for line in printed.splitlines())
    assert [word for word in printed.split() if word in LONG] == LONG


def test_a_node_is_shown_with_what_it_takes_to_find_its_machine(capsys):
    node = {"node_id": "0123456789abcdef", "kind": "node", "is_draining": False, "pending": 0, "resources": {}}
    node.update(address="192.168.100.100:36379", machine="a-machine-with-a-long-name.example.org")
    print_cluster(
        {"cluster": "192.168.100.1:6379", "kind": "", "node_id": "", "nodes": [node], "lost": [], "stalls": []}
    )
    (row,) = (line for line in capsys.readouterr().out.splitlines() if node["node_id"] in line)
    assert node["address"] in row and node["machine"] in row


def test_how_whole_each_shard_is_can_be_seen_before_a_machine_is_stopped():
    counts = {"objects": 3, "gcs-0_replicas": 2, "gcs-0_replicas_wanted": 2, "gcs-0_machines": 2}
    counts |= {"gcs-1_replicas": 1, "gcs-1_replicas_wanted": 2, "gcs-1_machines": 1}
    assert shards_in_words(counts) == [
        ("GCS shard 0", "2 of 2 replicas, on 2 nodes"),
        ("GCS shard 1", "1 of 2 replicas; another one catches up"),
    ]
    assert shards_in_words({"gcs-0_replicas": 1, "gcs-0_replicas_wanted": 1, "gcs-0_machines": 1}) == [
        ("GCS shard 0", "1 replica")
    ]
    assert shards_in_words({"objects": 3}) == []
