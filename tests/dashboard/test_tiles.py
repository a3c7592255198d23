"""Tiles of the task stream: each run is in its place, and sums of many runs add up."""

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.made import MadeSession
from zray.dashboard import tiles
from zray.dashboard.tiles import Open, tile
from zray.util.recorded_runs import Runs, Track

TRACKS = [Track("b" * 16, 2, "worker 1", 0), Track("a" * 16, 1, "worker 1", 0), Track("a" * 16, 1, "worker 1", 255)]


def runs_of(rows, tracks=TRACKS, names=("load", "reduce")):
    """rows: (track, name, outcome, begin, end)."""
    kinds = {"track": "<u4", "name": "<u4", "outcome": "u1", "begin": "<f8", "end": "<f8"}
    columns = {name: np.array([row[place] for row in rows], kind) for place, (name, kind) in enumerate(kinds.items())}
    ids = [np.void(number.to_bytes(16, "big")) for number in range(len(rows))]
    return Runs(list(tracks), list(names), {**columns, "task_id": np.array(ids, "V16")})


def bins_of(found):
    data = np.frombuffer(base64.b64decode(found["bins"]["data"]), "u1")
    return data.reshape(len(found["rows"]), found["bins"]["buckets"], 3)


def test_runs_are_rectangles_in_rows_by_node_and_thread():
    found = tile(runs_of([(0, 0, 0, 10.0, 12.0), (1, 1, 1, 11.0, 14.0), (1, 0, 0, 1.0, 2.0)]), [], 9.0, 19.0, 10)
    assert [(row["node_id"][0], row["pid"]) for row in found["rows"]] == [("a", 1), ("b", 2)]
    assert found["names"] == ["reduce", "load"] and found["runs"] == 2
    assert found["rects"] == {
        "row": [1, 0],
        "name": [1, 0],
        "outcome": [0, 1],
        "begin": [1.0, 2.0],
        "end": [3.0, 5.0],
        "task_id": [f"{0:032x}", f"{1:032x}"],
    }


def test_task_that_runs_is_shown_until_now():
    still = [Open("a" * 16, 1, "load", "0" * 32, 95.0), Open("c" * 16, 9, "new", "1" * 32, 99.0)]
    found = tile(runs_of([(1, 0, 0, 90.0, 94.0)]), still, 90.0, 100.0, 10)
    assert [(row["node_id"][0], row["pid"]) for row in found["rows"]] == [("a", 1), ("c", 9)]
    assert found["rects"]["outcome"] == [0, 3, 3] and found["rects"]["end"] == [4.0, 10.0, 10.0]
    assert set(found["names"]) == {"load", "new"}


def test_many_runs_are_summed_up(monkeypatch):
    monkeypatch.setattr(tiles, "RECTS_MAX", 0)
    rows = [(1, 0, 0, 0.0, 0.5), (1, 1, 0, 0.5, 0.75), (1, 1, 2, 1.0, 3.0)]
    found = tile(runs_of(rows), [], 0.0, 4.0, 4)
    (row,) = bins_of(found)
    assert [round(share / 255, 2) for share in row[:, 0]] == [0.75, 1.0, 1.0, 0.0]
    assert [found["names"][number - 1] if number else "" for number in row[:, 1]] == ["load", "reduce", "reduce", ""]
    assert row[:, 2].tolist() == [0, 1, 1, 0]


def test_nodes_are_rows_where_there_are_many_threads():
    tracks = [Track(f"{number // 2:016x}", number, "worker", 0) for number in range(2 * tiles.ROWS_MAX)]
    found = tile(runs_of([(number, 0, 0, 0.0, 1.0) for number in range(len(tracks))], tracks), [], 0.0, 2.0, 2)
    assert found["by_node"] and len(found["rows"]) == tiles.ROWS_MAX and found["rows"][0]["threads"] == 2
    assert (bins_of(found)[:, 0, 0] == 255).all() and not bins_of(found)[:, 1, 0].any()
    more = [Track(f"{number:016x}", number, "worker", 0) for number in range(tiles.ROWS_MAX + 9)]
    found = tile(runs_of([(number, 0, 0, 0.0, 1.0) for number in range(len(more))], more), [], 0.0, 2.0, 2)
    assert found["rows_left_out"] == 9 and len(found["rows"]) == tiles.ROWS_MAX


def test_names_beyond_a_byte_are_others(monkeypatch):
    monkeypatch.setattr(tiles, "RECTS_MAX", 0)
    count = tiles.NAMES_MAX + 20
    rows = [(0, number, 0, float(number), number + 1.0 - number / 1_000) for number in range(count)]
    found = tile(runs_of(rows, names=[f"f{number}" for number in range(count)]), [], 0.0, float(count), count)
    assert len(found["names"]) == tiles.NAMES_MAX + 1 and found["names"][-1] == tiles.OTHER
    assert bins_of(found)[0, 0, 1] == 1 and bins_of(found)[0, -1, 1] == tiles.NAMES_MAX + 1


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2), st.floats(0, 50), st.floats(0, 50)),
        max_size=40,
    ),
    st.integers(1, 50),
)
def test_sum_of_a_tile_is_the_time_of_its_runs(rows, buckets):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "RECTS_MAX", -1)
        rows = [(*row[:3], min(row[3:]), max(row[3:])) for row in rows]
        found = tile(runs_of(rows), [], 10.0, 40.0, buckets)
    data = bins_of(found)
    lengths = [min(end, 40.0) - max(begin, 10.0) for _, _, _, begin, end in rows if end > 10.0 and begin < 40.0]
    width = 30.0 / buckets
    # A row of several runs at once is no more than full, and a share is rounded up.
    assert data[:, :, 0].sum() / 255 * width <= sum(lengths) + data[:, :, 0].size * width / 255 + 1e-6
    assert bool(data[:, :, 0].any()) == any(length > 0 for length in lengths)
    assert ((data[:, :, 1] > 0) >= (data[:, :, 0] > 0)).all()
    assert (data[:, :, 1] <= len(found["names"])).all()


def test_tile_of_nothing_has_no_rows():
    found = tile(MadeSession(is_empty=True).runs(), [], 0.0, 1.0, 10)
    assert found["rows"] == found["names"] == found["rects"]["row"] == []
