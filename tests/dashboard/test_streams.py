"""Streams of the dashboard: whole once, then what changes; nothing is asked when nobody looks."""

import threading

from tests.dashboard.made import MadeSession, served
from tests.gates import until
from zray.dashboard import application, streams
from zray.dashboard.streams import Answer, Sent
from zray.dashboard.views import Seen, Table
from zray.exceptions import ClusterLostError, GetTimeoutError


def answer(rows, **facts):
    return Answer(Seen(facts, {"rows": Table("id", rows, len(rows))}), [], 0.0, 0.0)


def test_delta_has_what_has_changed():
    sent = Sent()
    whole = sent.delta(answer([{"id": 1, "state": "a"}, {"id": 2, "state": "a"}], count=2))
    assert whole["facts"] == {"count": 2, "notes": []} and len(whole["tables"]["rows"]["rows"]) == 2
    assert sent.delta(answer([{"id": 1, "state": "a"}, {"id": 2, "state": "a"}], count=2)) == {}
    changed = sent.delta(answer([{"id": 2, "state": "b"}, {"id": 3, "state": "a"}], count=2))
    table = changed["tables"]["rows"]
    assert "facts" not in changed and table["gone"] == ["1"] and [row["id"] for row in table["rows"]] == [2, 3]
    assert sent.delta(answer([], count=0))["tables"]["rows"] == {
        "key": "id",
        "rows": [],
        "gone": ["2", "3"],
        "total": 0,
    }


def test_nothing_is_asked_while_nobody_looks(monkeypatch):
    monkeypatch.setattr(streams, "PERIOD_S", 0.05)
    session = MadeSession()
    with served(session, monkeypatch) as server:
        assert server.get("/", token="")[0] == 200 and session.asked == []
        with server.events("view=nodes") as events:
            assert next(events)[0] == "snapshot"
            until(lambda: len(session.asked) > 3)
        settled = until(lambda: settle(session))
        assert settled == len(session.asked)


def settle(session):
    """The number of questions once no further one has come for several periods; None: one has."""
    before = len(session.asked)
    threading.Event().wait(0.4)
    return before if len(session.asked) == before else None


def test_pages_with_the_same_view_share_an_answer(monkeypatch):
    session = MadeSession()
    with served(session, monkeypatch) as server:
        with server.events("view=nodes") as first, server.events("view=nodes") as second:
            assert next(first)[0] == next(second)[0] == "snapshot"
            assert len(session.asked) <= 2


def test_stream_says_that_the_session_is_lost_and_goes_on(monkeypatch):
    monkeypatch.setattr(streams, "PERIOD_S", 0.05)
    session = MadeSession()
    with served(session, monkeypatch) as server, server.events("view=nodes") as events:
        assert next(events)[0] == "snapshot"
        session.failure = GetTimeoutError("The node did not answer in time.")
        assert next(events) == ("lost", {"reason": "The node did not answer in time."})
        session.failure = None
        kind, data = next(events)
        assert kind == "delta" and "tables" not in data
        assert server.get("/z/nodes")[0] == 200


def test_session_that_has_ended_ends_the_server(monkeypatch):
    monkeypatch.setattr(streams, "PERIOD_S", 0.05)
    session = MadeSession()
    with served(session, monkeypatch) as server, server.events("view=nodes") as events:
        next(events)
        session.failure = ClusterLostError("The session is over.")
        assert list(events) == [("bye", {"reason": "The session is over."})]


def test_further_streams_than_a_browser_needs_are_refused(monkeypatch):
    monkeypatch.setattr(streams, "STREAMS_MAX", 1)
    with served(MadeSession(), monkeypatch) as server:
        with server.events("view=nodes") as first:
            next(first)
            with server.events("view=nodes") as second:
                assert next(second)[0] == "bye"
        until(lambda: first_of(server) == "snapshot")  # the first one has gone


def first_of(server):
    with server.events("view=nodes") as events:
        return next(events)[0]


def test_view_that_cannot_show_what_is_asked_is_an_error_at_once(monkeypatch):
    with served(MadeSession(), monkeypatch) as server:
        assert server.get("/z/stream?view=task&id=none")[0] == 400
        status, text = server.get("/z/stream?view=none")
        assert status == 404 and "overview" in text


def test_view_that_takes_long_is_asked_for_seldom():
    assert Answer(Seen({}), [], 0.01, 0.0).period == streams.PERIOD_S
    assert Answer(Seen({}), [], 3.0, 0.0).period == 30.0


def test_stream_of_a_slow_session_stays_open(monkeypatch):
    monkeypatch.setattr(streams, "PING_S", 0.05)
    monkeypatch.setattr(application, "FIRST_S", 0.05)
    session = MadeSession()
    answers = threading.Event()
    session.usage = lambda: answers.wait(20) and MadeSession.usage(session)
    with served(session, monkeypatch) as server:
        connection, answer = server.request("/z/stream?view=nodes")
        assert [answer.readline() for _ in range(3)] == [b": ping\n", b"\n", b": ping\n"]
        answers.set()
        line = next(line for line in answer if line.startswith(b"event"))
        assert line == b"event: snapshot\n"
        connection.close()
