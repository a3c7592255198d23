"""Rows of a log that are drawn again and again: only their latest text counts."""

import pytest

from zray.host.output.terminal_rows import LINE_BYTES_MAX, ROWS_MAX, Rows


def ended(*pieces):
    """The texts of the rows that these bytes end, and the latest text of those that are not ended."""
    rows = Rows()
    found = [row.text for piece in pieces for row in rows.take(piece)]
    return found, b"  ".join(rows.latest())


@pytest.mark.parametrize(
    "data, lines, latest",
    [
        (b"one\ntwo\nthr", [b"one", b"two"], b"thr"),
        (b"one\r\ntwo\r\n\r\n", [b"one", b"two", b""], b""),
        (b"\rstep 1\rstep 2", [], b"step 2"),
        (b"step 1\rstep 2\r", [], b"step 2"),
        (b"step 1\r\r\rstep 2\r\r\nnext", [b"step 2"], b"next"),
        (b"\r 90%\r100%\nnext\n", [b"100%", b"next"], b""),
        (b"\rlong text\r         \r", [], b""),
        (b"\rlong text\r         \rnext\n", [b"next"], b""),
        (b"\rlong text\r\x1b[Knext\n", [b"next"], b""),
        (b"long text\x1b[2Knext\n", [b"next"], b""),
        (b"\rold\x1b[Gnew", [], b"new"),
        (b"|\b/\b-", [], b"-"),
        ("grün\b\b\b".encode(), [], b"g"),
        (b"\b\b\bone\b\b\b\b\btwo", [], b"two"),
        (b"old \b\b\b\b\rnew\n", [b"new"], b""),  # an old Keras
        (b"\x1b[?25ltext\x1b[?25h\n", [b"text"], b""),
        (b"plain\x1b[K text\n", [b"plain text"], b""),
        (b"plain\x1b[1A text\n", [b"plain\x1b[1A text"], b""),  # no bar: nothing is hidden
        (b"plain\x1b[31m red\x1b[0m\n", [b"plain\x1b[31m red\x1b[0m"], b""),
    ],
)
def test_latest_text_of_each_row_is_kept_however_the_bytes_come(data, lines, latest):
    assert ended(data) == (lines, latest)
    assert ended(*(data[at : at + 1] for at in range(len(data)))) == (lines, latest)


def test_two_bars_below_each_other_are_no_lines_while_they_are_drawn():
    """Rows as tqdm draws them for a loop in a loop."""
    inner = b"\n\rinner %d\x1b[A"
    rows = Rows()
    found = rows.take(b"\router 0")
    for outer in range(3):
        for number in range(20):
            found += rows.take(inner % number)
            assert rows.latest() == [b"outer %d" % outer, b"inner %d" % number]
        found += rows.take(b"\n\r         \r\x1b[A\router %d" % (outer + 1))
        assert rows.latest() == [b"outer %d" % (outer + 1)]
    assert not found
    assert not rows.take(b"\n")
    assert [row.text for row in rows.end_above()] == [b"outer 3"]
    assert [row.text for row in rows.take(b"next\n")] == [b"next"]


def bar(position, text):
    """What tqdm writes for a bar at a position."""
    return b"\n" * position + b"\r" + text + b"\x1b[A" * position


def test_bars_at_positions_have_rows_from_the_first_on_and_end_one_by_one():
    rows = Rows()
    assert not rows.take(b"".join(bar(position, b"bar %d: 0" % position) for position in range(3)))
    assert rows.latest() == [b"bar 0: 0", b"bar 1: 0", b"bar 2: 0"]
    assert not rows.end_left()
    assert not rows.take(b"\rbar 0: done\n" + bar(0, b"bar 1: 1") + bar(1, b"bar 2: 1"))
    assert rows.latest() == [b"bar 0: done", b"bar 1: 1", b"bar 2: 1"]
    assert not rows.end_left()  # the cursor was there a moment ago
    assert [row.text for row in rows.end_left()] == [b"bar 0: done"]
    assert rows.latest() == [b"bar 1: 1", b"bar 2: 1"]
    assert [row.text for row in rows.take(b"\rbar 1: done\n\rbar 2: done\nnext\n")][-1:] == [b"next"]


def drawn_by_rich(bars, line=b"", former=3):
    """What rich writes for bars: the cursor stays in the last one; a line goes above them."""
    up = b"\r\x1b[2K" + b"\x1b[1A\x1b[2K" * (former - 1)
    return b"\x1b[?25l" + up + b"".join(text + b"\n" for text in [line] if text) + b"\n".join(bars)


def test_line_above_bars_of_rich_ends_and_the_bars_go_on():
    rows = Rows()
    bars = [b"one", b"two", b"three"]
    rows.take(drawn_by_rich(bars))
    assert not rows.take(drawn_by_rich(bars)) and rows.latest() == bars
    assert not rows.take(drawn_by_rich(bars, b"line"))
    for _ in range(2):
        assert rows.latest() == [b"line", *bars]
        assert not rows.take(drawn_by_rich(bars)) and not rows.end_above()
    rows.end_left()
    rows.take(drawn_by_rich(bars))
    assert [row.text for row in rows.end_left()] == [b"line"] and rows.latest() == bars
    rows.take(b"\n\x1b[?25h")
    assert [row.text for row in rows.end_above()] == bars and not rows.latest()


def test_bars_below_each_other_are_bounded():
    rows = Rows()
    for position in range(2 * ROWS_MAX):
        rows.take(bar(position, b"bar"))
    assert len(rows.rows) <= ROWS_MAX


def test_line_above_bars_is_a_row_of_its_own_wherever_the_cursor_is():
    rows = Rows()
    rows.take(b"\router 1")
    assert [row.text for row in rows.take(b"\r\x1b[Lone\n\r\x1b[Ltwo\n")] == [b"one", b"two"]
    assert rows.latest() == [b"outer 1"]
    rows.take(b"\n\rinner 1\x1b[A\router 2")
    for latest in ([b"outer 2", b"inner 1"], [b"outer 2", b"inner 2"]):
        assert [row.text for row in rows.take(b"\r\x1b[Lline\n")] == [b"line"]
        assert rows.latest() == latest
        rows.take(b"\n\rinner 2\x1b[A")


def test_rows_and_their_bytes_are_bounded():
    rows = Rows()
    rows.take(b"\x1b[999A" * 100)
    assert len(rows.rows) == ROWS_MAX
    rows.take(b"\x1b[L" * 100)
    assert len(rows.rows) == ROWS_MAX + 1
    rows = Rows()
    for _ in range(3):
        rows.take(b"\r" + b"x" * LINE_BYTES_MAX + b"y" * 10)
    (row,) = rows.take(b"\n")
    assert (len(row.text), row.left_out) == (LINE_BYTES_MAX, 10)


def test_end_of_a_log_in_the_middle_of_a_move_loses_nothing():
    rows = Rows()
    assert not rows.take(b"text\x1b[1")
    assert [row.text for row in rows.end_all()] == [b"text\x1b[1"]
