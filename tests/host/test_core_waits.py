"""Runs that were held up because there was no core for them."""

from pathlib import Path

import pytest

from zray.host.worker.run_queue_delay import SCHEDSTAT, CoreWaits


@pytest.fixture
def schedstat(tmp_path):
    path = tmp_path / "schedstat"
    path.write_text("5000000000 1000000000 77\n")
    return path


def test_a_run_was_held_up_when_most_of_it_was_waiting_since_the_last_look(schedstat):
    waits = CoreWaits(schedstat)
    assert not waits.hold_up(0.02)
    schedstat.write_text("5000000000 1015000000 78\n")
    assert waits.hold_up(0.02)
    assert not waits.hold_up(0.02)  # that has been counted
    schedstat.write_text("5000000000 1019000000 79\n")
    assert not waits.hold_up(0.02)


@pytest.mark.parametrize("text", ["", "1", "a b c"])
def test_where_the_kernel_does_not_say_nothing_is_held_up(schedstat, text):
    schedstat.write_text(text)
    waits = CoreWaits(schedstat)
    assert not waits.hold_up(0.02)
    schedstat.unlink()
    assert not waits.hold_up(0.02)


def test_this_kernel_says_or_has_no_such_file():
    assert not Path(SCHEDSTAT).exists() or CoreWaits().waited >= 0.0
