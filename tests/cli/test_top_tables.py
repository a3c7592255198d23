"""Content of `zray top`, without a terminal: tables, the task stream, the first lines, new records of rings."""

import os
import struct
import time

import numpy as np
import pytest

from cli.top import views
from cli.top.asking import Asker, Node, Sample
from cli.top.details import last_drawn, lines_of_tail
from cli.top.history import STEP, History
from cli.top.snapshot import snapshot
from cli.top.stream import IDLE, WAITS, as_text, axis, coverage, stream
from cli.top.summary import FAILURES_KEPT, Waits, finding, first_line, header
from cli.top.tables import Column, Row, Table, chosen, cut, head_of, line_of, ordered, padded, plain, text_of, widths
from zray.store.event_ring import COUNT_MAX, EventRing, Kind, Outcome
from zray.store.segment import unlink
from zray.wire.listing import ActorFact, ObjectFact, TaskFact, WorkerFact

NODE, JOB = "ab12cd34ab12cd34", b"j" * 8
PID = 4_000_001  # above all pids
HOSTILE = "\x1b[31mred\x1b]0;title\x07\n[bold]\u202eevil"


def task(number, name="load", state="RUNNING", pid=PID, **more):
    return TaskFact(bytes([7] * 10) + number.to_bytes(6, "big"), name, state, JOB, f"{NODE}/local", pid=pid, **more)


def sample(tasks=(), nodes=None, **more):
    one = Node(NODE, "host", True, total={"CPU": 4.0}, free={"CPU": 1.0}, waiting=2)
    one.counts = {"node_mem_used_bytes": 2.0**30, "node_mem_total_bytes": 2.0**32, "node_workers": 3.0}
    lists = {"actors": [], "workers": [WorkerFact("worker-1", "worker", PID, f"{NODE}/local")]} | more
    return Sample(time.time(), "session", [one] if nodes is None else nodes, [*tasks], **lists)


@pytest.fixture
def ring():
    """A ring whose reader takes it for that of another process."""
    made = EventRing(f"toptest{os.getpid()}", "worker 1")
    yield made
    made.close()
    unlink(made.name)


def read(history, ring):
    data = bytearray(ring.memory)
    struct.pack_into("<Q", data, 8, PID)
    history.read_bytes(NODE, bytes(data))


def add(ring, begin, end, name="load", kind=Kind.TASK, outcome=Outcome.FINISHED, error=""):
    """A record; times are in seconds from now."""
    now = time.perf_counter()
    numbers = ring.number_of(name), ring.number_of(error) if error else 0
    ring.add(kind, b"t" * 16, now + begin, now + begin, now + end, now + end, *numbers, outcome)


def test_new_records_are_read_once_in_any_number_also_when_a_ring_has_turned(ring):
    history = History()
    total = 0
    for count in (1, 0, STEP - 1, STEP + 1, 5 * STEP, COUNT_MAX):
        for _ in range(count):
            add(ring, -2, -1)
        read(history, ring)
        total += count
        assert history.times["load"].runs == total
    assert not history.lost
    for _ in range(COUNT_MAX + 10):
        add(ring, -2, -1)
    read(history, ring)
    assert (history.times["load"].runs, history.lost) == (total + COUNT_MAX, 10)


def test_records_of_other_sessions_on_the_machine_are_not_read(monkeypatch):
    asker = Asker("auto")
    asker.here = {NODE: "ours", "ef56": "another"}
    looked = []
    monkeypatch.setattr(asker.history, "read_here", lambda *place: looked.append(place))
    asker._read_records(sample().nodes, time.perf_counter())
    assert looked == [(NODE, "ours")]


def test_times_of_functions_and_failures_are_counted(ring):
    history = History()
    add(ring, -4, -1)
    add(ring, -2, -1)
    add(ring, -2, -1, "save", outcome=Outcome.FAILED, error="OSError")
    add(ring, -2, -1, "save", Kind.CALL, Outcome.CANCELLED)
    add(ring, -2, -1, "get", Kind.GET)
    read(history, ring)
    load, save = history.times["load"], history.times["save"]
    assert (load.runs, load.failed, save.runs, save.failed, save.cancelled) == (2, 0, 2, 1, 1)
    assert load.quantile(0.5) == pytest.approx(2.0) and load.total == pytest.approx(4.0)
    assert [(each.function, each.error, each.pid) for each in history.failures] == [("save", "OSError", PID)]
    assert "get" not in history.times and [*history.names] == ["load", "save"]


def test_broken_rings_are_left_out():
    history = History()
    for data in (b"", b"x" * 100_000, b"zray-ev1", b"zray-ev1" + b"\xff" * 70_000):
        history.read_bytes(NODE, data)
    assert not history.times


def test_old_runs_and_ended_processes_are_forgotten(ring):
    history = History()
    add(ring, -2, -1)
    read(history, ring)
    history.forget_old(time.time())
    assert history.lanes
    history.forget_old(time.time() + 500)
    history.forget_processes({(NODE, PID)}, time.time() + 500)
    assert history.lanes
    history.forget_processes(set(), time.time() + 500)
    assert not history.lanes and history.times["load"].runs == 1


def test_coverage_of_cells():
    begin, end = np.array([0.25, 1.5, 3.0]), np.array([0.75, 3.5, 4.0])
    shares = coverage(begin, end, np.array([0, 1, 0]), 2, 4)
    assert shares.tolist() == [[0.5, 0.0, 0.0, 1.0], [0.0, 0.5, 1.0, 0.5]]


def test_stream_has_finished_and_running_tasks_waits_and_failures(ring):
    history = History()
    add(ring, -10, -6, "prepare")
    add(ring, -6, -4, "save", outcome=Outcome.FAILED, error="OSError")
    add(ring, -9, -8, "get", Kind.GET)
    read(history, ring)
    look = sample([task(1, "load", run_ms=2_000)])
    (row,) = stream(history, look, look.at, 10.0, 40, 10)
    assert row.id == f"{NODE}/{PID}" and row.label == "worker 1"
    assert as_text(row) == "####====prepare#save###X........load####"
    assert {stretch.function for stretch in row.stretches} >= {IDLE, WAITS}
    assert axis(60.0, 72).split() == ["-60", "s", "-50", "s", "-40", "s", "-30", "s", "-20", "s", "-10", "s", "now"]


def test_short_runs_do_not_fill_their_cell(ring):
    history = History()
    for number in range(100):
        add(ring, -10 + number / 10, -10 + number / 10 + 0.03, "tick")
    read(history, ring)
    look = sample()
    (row,) = stream(history, look, look.at, 10.0, 10, 10)
    assert set(as_text(row)) <= set("tick+…") and not any(stretch.is_full for stretch in row.stretches)


def test_text_of_programs_has_no_control_characters_and_stays_in_its_cell():
    for shown in (text_of(HOSTILE), cut(text_of(HOSTILE), 10), text_of("x" * 10_000)):
        assert shown.isprintable()
    assert len(text_of("x" * 10_000)) == 200
    wide = "\u6f22\u5b57" * 10
    assert len(padded("abc", 5)) == 5 and padded("7", 3, True) == "  7"
    assert padded(wide, 7).startswith("\u6f22\u5b57\u6f22\u2026") and len(padded(wide, 7)) == 4


def test_hostile_names_are_harmless_in_each_view(ring):
    history = History()
    add(ring, -2, -1, HOSTILE, outcome=Outcome.FAILED, error=HOSTILE)
    read(history, ring)
    look = sample(
        [task(1, HOSTILE), task(2, HOSTILE, "FAILED", error_type=HOSTILE)],
        actors=[ActorFact(b"a" * 16, HOSTILE, HOSTILE, "", "ALIVE", JOB, f"{NODE}/local", PID)],
        objects=[ObjectFact(b"o" * 20, 10, "MEMORY", f"{NODE}/local", HOSTILE)],
        nodes=[Node(NODE, HOSTILE, state="lost", reason=HOSTILE)],
    )
    lines = [*snapshot(look, history, Waits())]
    assert all(line.isprintable() for line in lines)
    tables = [views.tasks(look), views.functions(look, history), views.actors(look), views.objects(look)]
    assert all(row.command.isprintable() for table in tables for row in table.rows)


TABLE = Table(
    "things",
    (Column("NAME", 8, grows=True), Column("COUNT", 6, True), Column("MORE", 10, rank=1)),
    [
        Row("1", "task", ("beta", "10", "x"), ("beta", 10, None), "one"),
        Row("2", "task", ("alpha", "9", "y"), ("alpha", 9, 1), "two"),
    ],
)


def test_rows_are_ordered_and_unknown_values_come_last():
    assert [row.id for row in ordered(TABLE.rows, 1, True)] == ["1", "2"]
    assert [row.id for row in ordered(TABLE.rows, 1, False)] == ["2", "1"]
    for is_falling in (True, False):
        assert [row.id for row in ordered(TABLE.rows, 2, is_falling)] == ["2", "1"]


def test_filter_needs_each_word_somewhere():
    assert [row.id for row in chosen(TABLE, "ALPHA y")] == ["2"]
    assert not chosen(TABLE, "alpha x") and len(chosen(TABLE, " ")) == 2


def test_columns_fit_the_width():
    assert widths(TABLE.columns, 40) == [22, 6, 10]
    assert widths(TABLE.columns, 20) == [13, 6, 0]
    assert widths(TABLE.columns, 500)[0] == 48
    for width in (20, 40):
        sizes = widths(TABLE.columns, width)
        assert {len(line_of(TABLE, row, sizes)) for row in TABLE.rows} == {width}
        assert "COUNT▼" in head_of(TABLE, sizes, 1, True)
    assert plain(TABLE, 1)[-1] == "and 1 more"


def test_long_place_keeps_its_line_number():
    look = sample(objects=[ObjectFact(b"o" * 20, 10, "DISK", f"{NODE}/local", f"put at /{'folder/' * 20}train.py:88")])
    table = views.objects(look)
    line = line_of(table, table.rows[0], widths(table.columns, 78))
    assert "train.py:88" in line and line.startswith("…") and len(line) == 78
    assert plain(table, 5)[1].startswith(f"put at /{'folder/' * 20}train.py:88")


def test_functions_have_counts_by_state_and_times(ring):
    history = History()
    add(ring, -4, -1)
    read(history, ring)
    tasks = [task(1), task(2, state="PENDING_NODE_ASSIGNMENT"), task(3, state="PENDING_ARGS_AVAIL", name="save")]
    table = views.functions(sample(tasks), history)
    cells = {row.id: row.cells for row in table.rows}
    assert cells["load"] == ("load", "1", "1", "1", "0", "3 s", "3 s", "3 s", "1 resource")
    assert cells["save"][1:5] == ("0", "1", "0", "0") and cells["save"][8] == "1 input"
    assert {row.command for row in table.rows} == {
        "zray list tasks --filter name=load",
        "zray list tasks --filter name=save",
    }


def test_lists_say_what_they_leave_out():
    look = sample([task(number) for number in range(1_200)])
    table = views.tasks(look)
    assert len(table.rows) == 1_000 and table.note == "The first 1,000 of 1,200 are shown."
    look.is_cut = True
    assert views.functions(look, History()).note == "The first 1,200 tasks are counted; more have not ended."
    assert finding(look, History(), Waits())[0] == "1,200 run, 2 wait; nothing stands out."
    look.silent = [NODE]
    assert views.tasks(look).note == "These nodes have not answered: ab12cd34."


def test_first_line_drops_what_has_no_room():
    parts = header(sample(), History(), "LIVE")
    assert parts[:3] == ["zray session", "no program", "LIVE"] and "cpu 3/4" in parts
    assert first_line(["zray session", "program.py (17)", "LIVE"], 30) == "zray session  program.py (17)"


def test_finding_is_the_worst_thing_there_is(ring):
    history, waits = History(), Waits()
    assert finding(sample(), history, waits) == ("Nothing runs and nothing waits.", "")
    assert finding(sample([task(1)]), history, waits) == ("1 run, 0 wait; nothing stands out.", "")
    for _ in range(FAILURES_KEPT + 5):
        add(ring, -2, -1, "save", outcome=Outcome.FAILED, error="OSError")
    read(history, ring)
    words, key = finding(sample(), history, waits)
    assert words.startswith("100 or more failed in 10 minutes") and words.endswith("save, OSError") and key == "x"
    waits.reason = "3 save wait: needs disk"
    assert finding(sample(), history, waits) == ("3 save wait: needs disk", "w")
    lost = Node(NODE, state="lost", reason="its process has ended")
    assert finding(sample(nodes=[lost]), history, waits)[0] == "node ab12cd34 is lost: its process has ended"


def test_reason_of_a_wait_is_asked_for_rarely():
    waits, asked = Waits(), []

    def explain(task_id):
        asked.append(task_id)
        return ["ObjectRef(ab): task save waits for 1 disk: node n has 0", "  held by task occupy"]

    look = sample([task(1, "save", "PENDING_NODE_ASSIGNMENT"), task(2, "save", "PENDING_NODE_ASSIGNMENT")])
    for _ in range(12):
        waits.look(look, explain)
    assert waits.reason == "2 save wait for 1 disk: node n has 0, held by task occupy" and len(asked) == 3
    waits.look(sample(), explain)
    assert not waits.reason


def test_tasks_that_take_turns_on_cores_are_no_finding():
    waits = Waits()
    lines = [
        "ObjectRef(ab): task save waits for 1 CPU: node n has 0 of 4 CPU free",
        "  held by task a",
        "  held by task b",
    ]
    look = sample([task(1, "save", "PENDING_NODE_ASSIGNMENT")])
    for _ in range(10):
        waits.look(look, lambda task_id: lines)
    assert waits.task and not waits.reason
    for _ in range(30):
        waits.look(look, lambda task_id: lines)
    assert waits.reason == "1 save waits for 1 CPU: node n has 0 of 4 CPU free, held by task a, held by task b"


def test_tail_of_a_log_has_what_a_terminal_would_show(tmp_path):
    path = tmp_path / "worker-1-17.log"
    path.write_bytes(b"first\n" + b"x" * (80 << 10) + b"\n10 %\r20 %\r\n\x1b[2Jlast\n")
    assert lines_of_tail(str(path)) == ["20 %", "\\x1b[2Jlast"]
    assert last_drawn("a\rb") == "b" and lines_of_tail(str(tmp_path / "none")) == []
