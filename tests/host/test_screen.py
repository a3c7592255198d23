"""Workers' lines on the driver's standard output: lines that are not ended yet, on a terminal and in a pipe."""

import io
import os
import re
import sys

import pytest

from tests.terminals import Terminal
from zray.host.output import screen as screens
from zray.host.output.log_lines import LATEST, PART, ROW
from zray.host.output.screen import Screen

COLUMNS = 40


@pytest.fixture
def terminal(monkeypatch):
    """Standard output and standard error, once `show` was called (pytest replaces them before a test begins)."""
    made = Terminal(COLUMNS)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(screens, "DRAW_SECONDS", 0.0)
    made.errors = io.TextIOWrapper(io.FileIO(made.slave, "w", closefd=False), encoding="utf-8", write_through=True)
    yield made
    made.errors.detach()
    made.close()


@pytest.fixture
def screen():
    made = Screen()
    yield made
    made.let_go()


@pytest.fixture
def piped(screen, capsys):
    """Shows lines; the lines that are printed then."""

    def show(*lines):
        screen.write([line + "\n" for line in lines])
        screen.draw()
        return capsys.readouterr().out.splitlines()

    return show


@pytest.fixture
def show(screen, terminal, monkeypatch):
    """Shows lines; the rows that are on the terminal then."""

    def show(*lines):
        if sys.stdout is not terminal.stream:
            monkeypatch.setattr(sys, "stdout", terminal.stream)
            monkeypatch.setattr(sys, "stderr", terminal.errors)
        if lines:
            screen.write([line + "\n" for line in lines])
        screen.draw()
        return terminal.shown()

    return show


# --- elsewhere ---


def test_pipe_gets_only_the_last_text_of_a_bar(piped):
    assert [piped(f"{LATEST}(a) {number} %") for number in range(0, 90, 10)] == [[]] * 9
    assert piped("(b) line") == ["(b) line"]
    assert piped(f"{LATEST}(a) 100 %", "(a) ") == ["(a) 100 %"]
    assert piped("(a) next") == ["(a) next"]


def test_pipe_gets_parts_as_lines_and_no_empty_line_for_their_end(piped):
    assert piped(f"{PART}(a) ..", f"{PART}(b) half a") == ["(a) ..", "(b) half a"]
    assert piped(f"{PART}(a) ...", "(a) ", "(b)  line") == ["(a) ...", "(b)  line"]
    assert piped("(a) ", "(b) next") == ["(a) ", "(b) next"]


def test_pipe_gets_nothing_of_a_bar_that_was_wiped_out(piped, screen, capsys):
    assert piped(f"{LATEST}(a) 50 %", f"{LATEST}(a) ", "(b) line") == ["(b) line"]
    screen.close()
    assert capsys.readouterr().out == ""


def test_pipe_gets_bars_of_one_worker_as_lines(piped, screen, capsys):
    assert piped(f"{LATEST}(a) outer{ROW}inner") == []
    assert piped("(a) ") == ["(a) outer", "(a) inner"]
    piped(f"{LATEST}(a) outer 2{ROW}inner 2")
    screen.close()
    assert capsys.readouterr().out == "(a) outer 2\n(a) inner 2\n"


def test_pipe_gets_bars_that_have_not_ended_when_the_program_ends(piped, screen, capsys):
    piped(f"{LATEST}(a) 50 %", f"{LATEST}(b) 20 %", f"{PART}(c) ...")
    screen.close()
    assert capsys.readouterr().out == "(a) 50 %\n(b) 20 %\n"


@pytest.mark.parametrize("term", ["dumb", None])
def test_terminal_that_cannot_erase_is_like_a_pipe(terminal, show, term, monkeypatch):
    monkeypatch.setenv("TERM", term) if term else monkeypatch.delenv("TERM")
    assert show(f"{LATEST}(a) 50 %", f"{PART}(b) ...") == ["(b) ..."]
    assert show(f"{LATEST}(a) 100 %", "(a) ") == ["(b) ...", "(a) 100 %"]


def test_live_lines_are_bounded(piped, monkeypatch):
    monkeypatch.setattr(screens, "LIVE_MAX", 3)
    lines = [piped(f"{LATEST}({number}) 1 %") for number in range(5)]
    assert lines == [[], [], [], ["(0) 1 %"], ["(1) 1 %"]]
    label = f"({'x' * 1_000})"
    assert piped(f"{LATEST}{label} 1 %") == [f"{label} 1 %"]


# --- on a terminal ---


def test_bar_is_redrawn_in_its_row_and_stays_when_it_ends(show):
    assert [show(f"{LATEST}(a) {number} %") for number in (10, 20, 5)] == [["(a) 10 %"], ["(a) 20 %"], ["(a) 5 %"]]
    assert show(f"{LATEST}(a) 100 %", "(a) ") == ["(a) 100 %"]
    assert show("(a) next", "(b) other") == ["(a) 100 %", "(a) next", "(b) other"]


def test_lines_go_above_the_bar(show):
    show(f"{LATEST}(a) 10 %")
    assert show("(b) one", "(c) two") == ["(b) one", "(c) two", "(a) 10 %"]
    assert show(f"{LATEST}(a) 20 %") == ["(b) one", "(c) two", "(a) 20 %"]
    assert show("(a) a line of its own", f"{LATEST}(a) 30 %")[2:] == ["(a) 20 %a line of its own", "(a) 30 %"]


def test_text_without_an_end_grows_in_its_row(show, screen, terminal):
    assert show(f"{PART}(a) .") == ["(a) ."]
    assert show(f"{PART}(a) ..") == ["(a) ..."]
    assert show(f"{PART}(a) done", "(b) line") == ["(b) line", "(a) ...done"]
    assert show("(a) , really") == ["(b) line", "(a) ...done, really"]
    show(f"{PART}(a) rest")
    screen.close()
    assert terminal.shown()[2:] == ["(a) rest"] and terminal.is_clean()


def test_texts_of_several_workers_have_a_row_each_and_are_whole_when_they_end(show):
    assert show(f"{PART}(a) .", f"{LATEST}(b) 10 %") == ["(a) .", "(b) 10 %"]
    assert show(f"{PART}(a) .") == ["(a) ..", "(b) 10 %"]
    assert show(f"{LATEST}(b) 20 %", f"{LATEST}(c) 1 %") == ["(a) ..", "(b) 20 %", "(c) 1 %"]
    assert show("(a) .") == ["(a) ...", "(b) 20 %", "(c) 1 %"]
    assert show(f"{LATEST}(b) 30 %", "(b) ") == ["(a) ...", "(b) 30 %", "(c) 1 %"]
    assert show(f"{LATEST}(c) ") == ["(a) ...", "(b) 30 %"]


def test_bars_of_one_worker_have_a_row_each(show, screen, terminal):
    assert show(f"{LATEST}(a) outer{ROW}inner", f"{LATEST}(b) 1 %") == ["(a) outer", "(a) inner", "(b) 1 %"]
    assert show(f"{LATEST}(a) outer{ROW}inner 2{ROW}more") == ["(a) outer", "(a) inner 2", "(a) more", "(b) 1 %"]
    assert show(f"{LATEST}(a) outer") == ["(a) outer", "(b) 1 %"]
    show(f"{LATEST}(a) outer{ROW}inner")
    screen.close()
    assert terminal.shown() == ["(a) outer", "(a) inner", "(b) 1 %"] and terminal.is_clean()


def test_worker_keeps_its_row_when_it_prints_a_line_above_it(show):
    show(f"{LATEST}(a) 1 %", f"{LATEST}(b) 2 %")
    rows = show(f"{LATEST}(a) epoch", "(a) ", f"{LATEST}(a) 3 %")
    assert rows == ["(a) epoch", "(a) 3 %", "(b) 2 %"]


def test_rows_beyond_the_terminal_and_beyond_a_bound_are_summed_up(show, terminal, monkeypatch):
    terminal.resize(COLUMNS, 5)
    bars = [f"{LATEST}({number}) 1 %" for number in range(10)]
    assert show(*bars) == ["(0) 1 %", "(1) 1 %", "(2) 1 %", "... and 7 more"]
    assert show(f"{LATEST}(0) 2 %", "(0) ") == ["(0) 2 %", "(1) 1 %", "(2) 1 %", "(3) 1 %", "... and 6 more"]
    terminal.resize(COLUMNS, 100)
    monkeypatch.setattr(screens, "ROWS_SHOWN_MAX", 6)
    assert show()[1:] == [*(f"({number}) 1 %" for number in range(1, 6)), "... and 4 more"]
    terminal.resize(COLUMNS, 2)
    assert show() == ["(0) 2 %", "(1) 1 %"]
    terminal.resize(COLUMNS, 1)
    assert show() == ["(0) 2 %"]


def test_rows_at_the_bottom_of_the_terminal_scroll_lines_and_no_more(show, terminal):
    terminal.resize(COLUMNS, 6)
    show(f"{LATEST}(a) 1 %", f"{LATEST}(b) 2 %")
    for number in range(20):
        rows = show(f"(c) line {number}")
        assert rows == [*(f"(c) line {before}" for before in range(number + 1)), "(a) 1 %", "(b) 2 %"]
    assert terminal.row == terminal.top + 3  # two rows are below it


def test_resized_terminal_is_drawn_anew(show, terminal, monkeypatch):
    """Although nothing has changed, and it is not time."""
    monkeypatch.setattr(screens, "DRAW_SECONDS", 1e9)
    assert show(f"{LATEST}(a) {'x' * 50}")[0][:-1] == "(a) " + "x" * (COLUMNS - 5)
    terminal.resize(COLUMNS * 2, 24)
    assert show() == [f"(a) {'x' * 50}"]
    written = len(terminal.text)
    assert show() and len(terminal.text) == written


def test_row_is_drawn_at_most_so_often(show, terminal, monkeypatch):
    monkeypatch.setattr(screens, "DRAW_SECONDS", 1e9)
    for number in range(100):
        assert show(f"{LATEST}(a) {number} %") == ["(a) 0 %"]
    assert terminal.text.count("%") == 1
    assert show("(b) line") == ["(b) line", "(a) 99 %"]  # it is written anew below


@pytest.mark.parametrize("text", ["x" * 100, "\x1b[32mgreen\x1b[0m " + "→" * 100])
def test_bar_wider_than_the_terminal_has_one_row(show, text):
    for _ in range(3):
        (row,) = show(f"{LATEST}(a) {text}")
        assert len(row) == COLUMNS
        show(f"{LATEST}(a) short")
    rows = show(f"{LATEST}(a) {text}", "(a) ")
    assert "".join(rows) == "(a) " + re.sub("\x1b.*?m", "", text)


def test_end_of_growing_text_is_shown_where_it_is_wider_than_the_terminal(show):
    show(f"{PART}(a) {'.' * 100}")
    (row,) = show(f"{PART}(a) here")
    assert len(row) <= COLUMNS and row.startswith("(a) ... ...") and row.endswith("..here")


def test_growing_text_without_an_end_is_bounded(show, screen, monkeypatch):
    monkeypatch.setattr(screens, "LINE_BYTES_MAX", 20)
    assert show(f"{PART}(a) {'x' * 11}") == [f"(a) {'x' * 11}"]
    assert show(f"{PART}(a) {'x' * 11}") == [f"(a) {'x' * 22}"] and not screen.live
    assert show("(a) rest") == [f"(a) {'x' * 22}", "(a) rest"]


def test_live_text_does_not_act_on_the_terminal(show):
    assert show(f"{LATEST}(a) \x1b[2Jx\x07\u202e\r(b)") == ["(a) \\x1b[2Jx\\x07\\u202e\\r(b)"]


# --- beside the program ---


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_print_statements_of_the_program_have_rows_of_their_own(show, name):
    show(f"{LATEST}(a) 10 %")
    print("epoch", 1, file=getattr(sys, name))
    assert show() == ["epoch 1", "(a) 10 %"]
    print("epoch", 2, file=getattr(sys, name))
    assert show(f"{LATEST}(a) 100 %", "(a) ") == ["epoch 1", "epoch 2", "(a) 100 %"]


def test_line_that_the_program_has_begun_is_not_overwritten(show):
    show(f"{LATEST}(a) 10 %")
    print("Waiting ...", end="")
    assert show(f"{LATEST}(a) 20 %") == ["Waiting ...", "(a) 20 %"]
    print(" done")
    assert show() == ["Waiting ... done", "(a) 20 %"]
    print("Waiting ...", end="")
    assert show("(b) line", f"{LATEST}(a) 30 %")[1:] == ["Waiting ...", "(b) line", "(a) 30 %"]


def test_bars_of_the_program_are_not_overwritten(show):
    """As tqdm draws a loop in a loop, in the program itself; rows of workers come back below one bar."""
    show(f"{LATEST}(a) 10 %")
    print("\router", end="")
    assert show() == ["outer", "(a) 10 %"]
    for number in range(3):
        for piece in ("\n", f"\rinner {number}", "\x1b[A"):
            print(piece, end="")
        assert show(f"{LATEST}(a) 20 %") == ["outer", f"inner {number}"]
    for piece in ("\n", "\r       \r", "\x1b[A", "\router is done", "\n"):
        print(piece, end="")
    assert [row.rstrip() for row in show()] == ["outer is done", "(a) 20 %"]


def test_standard_output_that_is_replaced_leaves_the_terminal_clean(show, screen, terminal, monkeypatch):
    show(f"{LATEST}(a) 10 %")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.StringIO())
        screen.draw()
        assert terminal.shown() == []
        screen.write(["(b) line\n"])
        assert sys.stdout.getvalue() == "(b) line\n"
    assert show() == ["(a) 10 %"]


def test_text_that_another_process_writes_is_not_lost(show, terminal):
    show(f"{LATEST}(a) 10 %")
    os.write(terminal.slave, b" from below\n")
    assert show(f"{LATEST}(a) 20 %", "(b) line") == [" from below", "(b) line", "(a) 20 %"]
    os.write(terminal.slave, b"Name? ")
    assert show(f"{LATEST}(a) 30 %")[2:] == ["Name? ", "(a) 30 %"]


def test_streams_are_as_before_when_nothing_is_live(show, screen, terminal):
    for end in (lambda: show("(a) end"), screen.close, screen.let_go):
        show(f"{LATEST}(a) 10 %")
        assert "write" in sys.stdout.__dict__ and "write" in sys.stderr.__dict__
        end()
        assert "write" not in sys.stdout.__dict__ and "write" not in sys.stderr.__dict__


def test_stream_that_the_program_has_changed_stays_as_it_is(show, screen, terminal):
    show()
    written = []
    original = sys.stdout.write
    sys.stdout.write = lambda text: written.append(text) or original(text)
    mine = sys.stdout.write
    show(f"{LATEST}(a) 10 %")
    print("hello")
    assert "hello" in written
    screen.close()
    assert sys.stdout.write is mine


def test_forked_child_prints_as_if_nothing_were_live(show, screen):
    show(f"{LATEST}(a) 10 %")
    with screen.own.lock:  # as if our thread were drawing
        pid = os.fork()
        if pid == 0:
            print(" child")
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert show(f"{LATEST}(a) 20 %") == [" child", "(a) 20 %"]


def test_program_that_ends_with_a_live_line_ends_it(show, screen, terminal):
    show(f"{LATEST}(a) 10 %", f"{LATEST}(b) 20 %")
    screen.close()
    assert terminal.shown() == ["(a) 10 %", "(b) 20 %"] and terminal.is_clean()
