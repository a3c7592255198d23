"""Content of views: their keys, their bounds, and the sentence on rows that are left out."""

import json

import pytest

from tests.dashboard.made import HOSTILE, MadeSession, served
from zray.dashboard import all_views, views, work
from zray.dashboard.streams import Answer, Sent, encoded
from zray.dashboard.views import Asked

HEAD = set(
    "session_name address nodes nodes_dead cpus_used cpus mem_used_bytes mem_total_bytes store_bytes disk_bytes "
    "store_capacity_bytes workers tasks tasks_ready tasks_ended".split()
)
TASK = set("task_id name type state job_id node_id actor_id worker_pid attempt_number error_type begin seconds".split())
FUNCTION = set("name waiting running failed finished error_type p50 p99 longest total".split())
STREAM = set("begin end rows names by_node runs rows_left_out now oldest replaced left_out".split())
# View -> words, keys of its facts, and of a row of each of its tables.
SCHEMAS = {
    "overview": ({}, {"session", "tasks", "stream"}, {"functions": FUNCTION}),
    "nodes": ({}, {"session"}, {"nodes": {"node_id", "state", "is_head_node", "resources", "cpu_percent", "workers"}}),
    "tasks": ({}, {"session", "tasks", "replaced", "remembered"}, {"functions": FUNCTION, "tasks": TASK}),
    "actors": ({}, {"session"}, {"actors": {"actor_id", "class_name", "state", "running", "waiting"}}),
    "objects": (
        {},
        {"session"},
        {"places": {"call_site", "total_objects", "total_size_mb"}, "objects": {"key", "object_id", "references"}},
    ),
    "logs": ({}, {"session", "elsewhere"}, {"logs": {"key", "node_id", "filename", "kind"}}),
    "jobs": ({}, {"session"}, {"jobs": {"job_id", "status", "type", "tasks"}}),
    "groups": ({}, {"session"}, {"groups": {"placement_group_id", "state", "bundles", "bundles_to_node_id"}}),
    "workers": ({}, {"session"}, {"workers": {"worker_id", "pid", "node_id"}}),
    "log": ({"filename": "worker-0.log"}, {"session", "lines", "message", "is_cut"}, {}),
    "why": ({"id": "1" * 32}, {"session", "why"}, {}),
    "task": ({"id": "1" + "0" * 31}, {"session", "row", "why"}, {}),
    "actor": ({"id": "2" + "0" * 31}, {"session", "row", "why"}, {"tasks": TASK}),
    "node": ({"id": "a" + "0" * 15}, {"session", "row"}, {"workers": {"pid"}, "tasks": TASK}),
    "object": ({"id": "4" + "0" * 39}, {"session", "why"}, {"objects": {"references"}}),
    "tile": ({}, {"stream"}, {}),
}


@pytest.fixture(scope="module")
def session():
    return MadeSession(tasks=2_000)


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch, served(MadeSession(name=HOSTILE), patch) as found:
        yield found


def test_each_view_has_a_schema():
    assert set(SCHEMAS) | {"trials"} == set(all_views.VIEWS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_view_has_its_keys(name, session):
    words, facts, tables = SCHEMAS[name]
    seen = all_views.VIEWS[name](session, Asked(words))
    assert set(seen.facts) == facts and HEAD == set(seen.facts.get("session", HEAD))
    assert set(seen.tables) == set(tables)
    for each, keys in tables.items():
        rows = seen.tables[each].rows
        assert rows and all(keys <= set(row) for row in rows), (each, keys - set(rows[0]))
        assert len({row[seen.tables[each].key] for row in rows}) == len(rows) <= seen.tables[each].total
    if "stream" in facts:
        assert STREAM <= set(seen.facts["stream"])
    json.loads(encoded(Sent().delta(Answer(seen, [], 0.0, 0.0))))


@pytest.mark.parametrize("name", SCHEMAS)
def test_view_of_an_empty_session_has_the_same_facts(name):
    words, facts, _ = SCHEMAS[name]
    seen = all_views.VIEWS[name](MadeSession(is_empty=True), Asked(words))
    assert set(seen.facts) == facts


def test_lists_have_the_envelope_of_ray(server):
    for kind in all_views.LISTS:
        answer = server.json(f"/api/v0/{kind}?limit=2")
        assert answer["result"] is True and answer["msg"] == ""
        result = answer["data"]["result"]
        assert len(result["result"]) == result["num_after_truncation"] <= 2 <= max(result["total"], 2)
        assert result["num_filtered"] == result["total"] and "partial_failure_warning" in result


def test_filters_are_those_of_ray_and_count_what_they_leave(server):
    words = "filter_keys=state&filter_predicates=%3D&filter_values=failed&limit=3"
    result = server.json(f"/api/v0/tasks?{words}")["data"]["result"]
    assert {row["state"] for row in result["result"]} == {"FAILED"}
    assert 3 == result["num_after_truncation"] < result["num_filtered"] < result["total"] == 200
    for wrong in ("filter_keys=nothing&filter_predicates=%3D&filter_values=1", words.replace("%3D", "like")):
        status, text = server.get(f"/api/v0/tasks?{wrong}")
        assert status == 400 and json.loads(text)["result"] is False and json.loads(text)["msg"]


def test_names_of_users_are_data(server):
    status, text = server.get("/z/tasks?limit=1")
    row = json.loads(text)["tables"]["tasks"]["rows"][0]
    assert status == 200 and row["name"].startswith(HOSTILE)
    lines = server.json("/z/log?filename=worker-0.log")["facts"]["lines"]
    assert len(lines) == 200 and "\x1b" not in "".join(lines) and "\\u202e" in lines[0]


def test_log_is_one_of_the_list_and_of_one_subject(server, session):
    for words in ("", "filename=a&pid=1", "pid=1&task_id=00", "pid=x"):
        assert server.get(f"/z/log?{words}")[0] == 400, words
    all_views.VIEWS["log"](session, Asked({"task_id": "ab", "suffix": "err", "tail": "1000000"}))
    assert session.asked[-1] == ("log", (("suffix", "err"), ("task_id", "ab")), 2_000)


def test_rows_that_are_cut_off_are_counted(session):
    table = all_views.VIEWS["tasks"](session, Asked({"limit": "10"})).tables["tasks"]
    assert (len(table.rows), table.total) == (10, 2_000)
    table = all_views.VIEWS["tasks"](session, Asked({"group": "running"})).tables["tasks"]
    assert {views.group_of(row["state"]) for row in table.rows} == {"running"} and table.total == len(table.rows)
    assert all(row["begin"] and row["seconds"] == 1.5 for row in table.rows)


def test_times_of_tasks_are_those_of_their_last_recorded_run(session):
    rows = work.with_times(session.tasks()[-3:], session.runs())
    columns = session.runs().columns
    assert [row["begin"] for row in rows] == columns["begin"][-3:].tolist()
    twice = {name: [*values, values[0]] for name, values in columns.items()}
    import numpy as np

    again = session.runs()._replace(
        columns={name: np.array(values, columns[name].dtype) for name, values in twice.items()}
    )
    again.columns["end"][-1] += 5
    row = {**session.tasks()[0], "state": "FINISHED", "run_ms": None}
    assert work.with_times([row], again)[0]["seconds"] == pytest.approx(again.columns["end"][-1] - columns["begin"][0])
    assert work.with_times([{**row, "task_id": "f" * 32}], again)[0]["seconds"] is None


def test_task_that_nodes_have_forgotten_is_shown_from_its_record(session):
    forgetful = MadeSession(tasks=2_000)
    forgetful._tasks = []
    seen = work.task(forgetful, Asked({"id": "1" + "0" * 31}))
    assert seen.facts["row"]["name"] == "work_0" and seen.facts["row"]["state"] == "FAILED"
    assert work.task(forgetful, Asked({"id": "9" * 32})).facts["row"] is None


def test_machine_of_several_nodes_is_counted_once(session):
    session = MadeSession(nodes=3)
    for node in (rows := session.nodes()):
        node["node_ip"] = "127.0.0.1"
    session.nodes = lambda: rows
    assert views.head(session)["mem_total_bytes"] == 8 << 30


def test_reasons_that_are_none_are_a_sentence(session):
    class Unknown(MadeSession):
        def why(self, id):
            raise ValueError("No task has the id.")

    assert work.why(Unknown(), Asked({"id": "1"})).facts["why"] == ["No task has the id."]


def test_text_that_is_no_unicode_does_not_break_an_answer():
    assert json.loads(encoded({"name": "\ud800", "value": float("nan")}))["name"] == "\ud800"
