"""Log of a worker as lines for the driver: bars, dots, and the rest when they end."""

import os
from types import SimpleNamespace

import pytest

from zray.host.output import log_lines
from zray.host.output.log_lines import Log


@pytest.fixture
def log(tmp_path):
    """Log of a worker that runs."""
    return Log(f"worker-1-{os.getpid()}.log", 0)


@pytest.fixture
def now(monkeypatch):
    """What time logs take it to be; a list of one number."""
    now = [100.0]
    monkeypatch.setattr(log_lines, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_line_that_is_drawn_again_and_again_is_read_twice_a_second(log, now):
    label = log.label
    said = []
    for number in range(17):  # in two seconds
        said += log.take(b"\rstep %d" % number) + log.latest()
        now[0] += 0.125
    assert said == [f"\r{label} step {number}\n" for number in (0, 4, 8, 12, 16)]
    assert log.latest() == []
    assert log.take(b"\rstep 17\nnext\n") == [f"\r{label} step 17\n", f"{label} \n", f"{label} next\n"]


def test_bar_that_ends_before_it_was_read_is_a_line(log):
    assert log.take(b"\r 50 %\r100 %\n") == [f"{log.label} 100 %\n"]
    assert log.take_rest() == log.latest() == []


def test_dots_are_shown_within_a_second_of_the_first(log, now):
    """Although they come so fast that their worker is never quiet."""
    said = []
    for _ in range(18):
        assert log.take(b".") == []
        said += log.latest()
        now[0] += 0.125
    assert said == [f"\t{log.label} {'.' * 8}\n"] * 2
    assert log.take(b"done\n") == [f"{log.label} ..done\n"]


def test_end_of_a_part_is_said_and_no_character_is_torn(log, now):
    log.take("ü".encode() + "ü".encode()[:1])
    now[0] += log_lines.QUIET_SECONDS
    assert log.latest() == [f"\t{log.label} ü\n"]
    now[0] += log_lines.QUIET_SECONDS
    assert log.latest() == []
    assert log.take("ü".encode()[1:] + b"\n\n") == [f"{log.label} ü\n", f"{log.label} \n"]
    log.take(b"part")
    now[0] += log_lines.QUIET_SECONDS
    log.latest()
    assert log.take(b"\n") == [f"{log.label} \n"]


def test_bar_behind_a_part_takes_its_place(log, now):
    log.take(b"Loading: ")
    now[0] += log_lines.QUIET_SECONDS
    log.latest()
    assert log.take(b"\r100 %\n") == [f"\r{log.label} 100 %\n", f"{log.label} \n"]


def test_bar_that_is_wiped_out_is_gone(log, now):
    log.take(b"\r50 %")
    assert log.latest() == [f"\r{log.label} 50 %\n"]
    log.take(b"\r     \r")
    now[0] += log_lines.LATEST_SECONDS
    assert log.latest() == [f"\r{log.label} \n"]
    assert log.take_rest() == []


def test_bar_of_a_worker_that_has_ended_is_a_line(log):
    log.take(b"\r50 %")
    log.latest()
    assert log.take_rest() == [f"\r{log.label} 50 %\n", f"{log.label} \n"]


def test_bar_below_lines_is_said_with_them(log):
    """A line that is redrawn does not flicker on a terminal."""
    log.take(b"\r10 %")
    log.latest()
    said = log.take(b"\r\x1b[Lepoch 1\n")
    assert said == [f"\r{log.label} epoch 1\n", f"{log.label} \n", f"\r{log.label} 10 %\n"]


def test_latest_text_of_each_row_is_bounded(log):
    log.take(b"\r" + b"x" * 10_000 + b"\n\r" + b"y" * 1_500 + b"\x1b[A")
    (said,) = log.latest()
    assert len(said) < 2 * log_lines.LATEST_BYTES_MAX + 100


def test_bars_of_one_task_are_said_as_rows_and_one_that_is_left_ends(log, now):
    label = log.label
    log.take(b"\r0: 1\x1f\n\r1: 1\x1b[A")
    assert log.latest() == [f"\r{label} 0: 1 \x1f1: 1\n"]
    log.take(b"\r0: done\n\r1: 2")
    said = []
    while now[0] < 110:
        now[0] += 0.125
        log.take(b"\r1: 2")
        said += log.latest()
    assert said == [
        f"\r{label} 0: done\x1f1: 2\n",
        f"\r{label} 0: done\n",
        f"{label} \n",
        f"\r{label} 1: 2\n",
    ]
    assert log.take(b"\r1: done\n") == [f"\r{label} 1: done\n", f"{label} \n"]
