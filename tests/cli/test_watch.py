"""`zray status` again and again, in short, and with the nodes that have just been lost."""

from click.testing import CliRunner

from cli import status as module
from zray.wire.hosts import NodeFact


def node(name, **more):
    return NodeFact(f"{name}/local", "node", {}, {}, 0, **more)


def test_lost_nodes_are_shown_for_a_while_with_the_time_and_the_reason(capsys):
    nodes = [
        node("a"),
        node("b", death="its process has ended", lost_seconds=30.4),
        node("c", death="it was drained", lost_seconds=3.2),
        node("d", death="silent", lost_seconds=module.LOST_SECONDS + 1),
    ]
    assert [fact["node_id"] for fact in module.node_facts(nodes, 1)] == ["a"]
    fact = {"cluster": "1.2.3.4:5", "kind": "head", "node_id": "a", "nodes": [], "stalls": []}
    module.print_cluster({**fact, "lost": module.lost_facts(nodes)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["node c: lost 3 s ago: it was drained", "node b: lost 30 s ago: its process has ended"]


def test_session_in_a_line():
    fact = {
        "session": "abc",
        "started": "today",
        "programs": [{}],
        "resources": {"CPU": {"total": 4, "free": 1}},
        "counts": {"actors": 1, "tasks": 7, "store_used_bytes": 1e6, "store_capacity_bytes": 2e9},
    }
    assert module.line_of(fact) == (
        "session abc, since today: 1 program, 0 workers, 1 actor, 7 tasks, 0 ready, 0 finished, 3 of 4 CPU, "
        "store 1.0 of 2,000 MB"
    )


def test_spilled_bytes_are_a_row_where_there_are_any(capsys):
    fact = {
        **{"session": "abc", "started": "today", "programs": [], "resources": {}, "is_embedded": False, "called": ""},
        **{"counts": {"spill_file_bytes": 3e6, "overflow_bytes": 2e6}, "node_id": "n", "logs": "/logs"},
        "notes": [],
        "memory": {"used_bytes": 0, "processes": 1, "store_bytes": 0},
    }
    module.print_table(fact)
    assert "5.0 MB in files" in capsys.readouterr().out
    module.print_table({**fact, "counts": {}})
    assert "spilled" not in capsys.readouterr().out


def test_watch_prints_until_it_is_interrupted(monkeypatch):
    shown, slept = [], []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        module, "show_sessions", lambda form, is_compact, is_watched: shown.append((form, is_compact, is_watched))
    )
    monkeypatch.setattr(module.time, "sleep", sleep)
    result = CliRunner().invoke(module.status, ["--watch"])
    assert result.exit_code == 0 and slept == [2.0] * 3 and shown == [("table", True, True)] * 3
    slept.clear()
    assert CliRunner().invoke(module.status, ["--watch", "0.5"]).exit_code == 0 and slept == [0.5] * 3
    shown.clear()
    CliRunner().invoke(module.status, [])
    assert shown == [("table", False, False)]


def test_cluster_is_a_line_when_it_is_watched_in_a_pipe(monkeypatch):
    """On a terminal, which is cleared each time, its nodes have a table."""
    total, free = {"CPU": 40_000, "GPU": 10_000}, {"CPU": 10_000, "GPU": 10_000}
    nodes = module.node_facts(
        [NodeFact(name, "node", total, free, 3, is_draining=name == "b/local") for name in ("a/local", "b/local")],
        10_000,
    )
    fact = {"cluster": "1.2.3.4:5", "kind": "head", "node_id": "a", "nodes": nodes, "stalls": ["it stands still"]}
    fact |= {"trouble": "", "lost": [{"node_id": "c", "reason": "silent", "seconds": 3.2}]}
    output = []
    monkeypatch.setattr(module.click, "echo", output.append)
    monkeypatch.setattr(module.click, "secho", lambda text, fg: output.append(text))
    module.print_clusters([fact], is_line=module.is_short(True))
    assert output == [
        "cluster at 1.2.3.4:5: 2 nodes, 1 draining, 6 of 8 CPU, 0 of 2 GPU, 6 pending",
        "node c: lost 3 s ago: silent",
        "it stands still",
    ]
    monkeypatch.setattr(module.sys.stdout, "isatty", lambda: True, raising=False)
    assert not module.is_short(True)
