"""Chrome traces as Perfetto's importer takes them: nothing is dropped, whatever the times, names and numbers are."""

import json
import random

import pytest

from tests.api.trace_import import errors_of
from zray.api.chrome_trace import trace_of
from zray.api.timeline import trace_text, write_trace
from zray.store.event_ring import Event, Kind, Outcome, RingContent


def ring(events, pid=7, label="worker 1"):
    return RingContent(pid, 1e9, label, events, 0)


def run(number, begin, read, end, stored, name="f", kind=Kind.TASK):
    return Event(kind, number.to_bytes(16, "big"), begin, read, end, stored, name, "", Outcome.FINISHED, 0, 0)


def runs(seed, count):
    """Runs one after another, whose phases share their ends, at any nanosecond."""
    draw, now, found = random.Random(seed), 100.0, []
    for number in range(1, count + 1):
        times = [now]
        for _ in range(3):
            times.append(times[-1] + draw.randrange(1, 10**7) / 1e9)
        found.append(run(number, *times))
        now = times[-1] + draw.choice((0.0, draw.randrange(10**6) / 1e9))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_slice_is_dropped_whatever_the_nanoseconds_are(seed):
    assert not errors_of(trace_text(trace_of({"a": [ring(runs(seed, 2_000))]})))


def test_rows_of_many_nodes_have_numbers_of_their_own():
    nodes = {f"{number:016x}": [ring(runs(number, 2), pid=number)] for number in range(1, 251)}
    assert not errors_of(trace_text(trace_of(nodes)))


@pytest.mark.parametrize("name", ["größer", "\U0001f600 smile", 'quoted "\\ud83d"', "line\nbreak\x01"])
def test_names_of_any_characters_are_taken(name, tmp_path):
    events = [run(1, 1.0, 1.0, 2.0, 2.0, name), run(1, 1.2, 1.2, 1.4, 1.4, name, Kind.SPAN)]
    path = tmp_path / "trace.json"
    write_trace(trace_of({"a": [ring(events)]}), path)
    text = path.read_text(encoding="utf-8")
    assert not errors_of(text)
    names = {event["name"] for event in json.loads(text) if event["ph"] == "X"}
    assert len(names) == 2 and all(ord(letter) < 1 << 16 for each in names for letter in each)
    assert ("\U0001f600" in name) == ("\ufffd" in "".join(names))


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([{"ph": "X", "ts": 1, "dur": 5}, {"ph": "X", "ts": 3, "dur": 5}], "slice_drop_overlapping_complete_event"),
        ([{"ph": "s", "ts": 1, "id": 1, "cat": "dep"}], "flow_no_enclosing_slice"),
        ([{"ph": "X", "ts": 1, "dur": 5}, {"ph": "f", "ts": 2, "id": 1, "cat": "dep"}], "flow_end_without_start"),
        ([{"ph": "X", "ts": -1, "dur": 5}], "negative_time"),
        ([{"ph": "Z", "ts": 1}], "json_parser_failure"),
        ([{"ph": "X", "ts": 1, "dur": float("nan")}], "json_tokenizer_failure"),
    ],
)
def test_model_finds_what_is_wrong(events, error):
    text = json.dumps([{"name": "a", "pid": 1, "tid": 200, **event} for event in events])
    assert error in errors_of(text)
