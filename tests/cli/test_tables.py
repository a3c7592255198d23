"""What commands print in tables: whole in a pipe, however long; within a terminal's width, and nothing cut."""

import re

import pytest
from rich.table import Table

from cli.status import print_cluster, shards_in_words
from cli.tables import show

LONG = [f"word{number}" for number in range(40)]


@pytest.fixture
def table():
    table = Table("name", "what")
    table.add_row("a", " ".join(LONG))
    return table


def test_in_a_pipe_a_row_is_one_line(table, capsys):
    show(table)
    assert " ".join(LONG) in capsys.readouterr().out


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
