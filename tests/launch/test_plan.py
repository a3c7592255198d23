"""The work to do on a host, from the file and from the state found there."""

import configparser

import pytest

from cli.launch import hosts_file, plan
from cli.launch.plan import Found, Session
from cli.launch.troubles import Trouble
from tests.scripts import ROOT

CLUSTER = hosts_file.parse(
    "head: {host: a, num_cpus: 1}\nnodes: [{host: b, resources: {disk: 1}}, c]\nsetup: [make]\noptions: {head_wait: 5}",
    "hosts.yaml",
)
HEAD, NODE, _ = CLUSTER.hosts
AT = "10.0.0.1:6379"
NODE_HERE = Session("n1", "node", AT, "id1")
HEAD_HERE = Session("h1", "head", AT, "id0")


def found(*sessions, **facts):
    return Found(**{"python": "3.11", "zray": "0.1.0", "sessions": list(sessions), **facts})


def recorded(host, *sessions, session):
    return found(*sessions, session=session, options=plan.options_digest(host))


def test_head_that_runs_is_kept():
    start = plan.head_start(HEAD, recorded(HEAD, HEAD_HERE, session="h1"))
    assert (start.action, start.session) == ("keep", HEAD_HERE)


@pytest.mark.parametrize("state", [found(), recorded(HEAD, session="h1"), found(HEAD_HERE)])
def test_head_that_has_died_or_is_anothers_is_started(state):
    assert plan.head_start(HEAD, state).action == "start"


def test_head_with_other_options_is_not_touched():
    with pytest.raises(Trouble, match="runs with other options.*`zray down`, then `zray up`"):
        plan.head_start(HEAD, found(HEAD_HERE, session="h1", options="of before"))


def test_node_that_runs_is_kept_also_without_a_record():
    for state in (recorded(NODE, NODE_HERE, session="n1"), found(NODE_HERE)):
        start = plan.node_start(NODE, state, AT, is_new_head=False)
        assert (start.action, start.session, start.stale) == ("keep", NODE_HERE, [])


def test_node_that_has_joined_again_is_the_one_of_the_record():
    again = Session("n2", "node", AT, "id2", called="n1")
    start = plan.node_start(NODE, recorded(NODE, again, session="n1"), AT, is_new_head=False)
    assert (start.action, start.session) == ("keep", again)


def test_node_with_other_options_starts_again():
    start = plan.node_start(NODE, found(NODE_HERE, session="n1", options="of before"), AT, is_new_head=False)
    assert (start.action, start.session) == ("restart", NODE_HERE)


def test_node_of_a_head_that_is_gone_is_stopped_first():
    old = Session("n0", "node", "10.0.0.9:6379")
    start = plan.node_start(NODE, recorded(NODE, old, session="n0"), AT, is_new_head=False)
    assert (start.action, start.session, start.stale) == ("start", None, [old])


def test_new_head_at_the_same_address_does_not_know_the_nodes_of_the_former():
    start = plan.node_start(NODE, recorded(NODE, NODE_HERE, session="n1"), AT, is_new_head=True)
    assert (start.action, start.stale) == ("start", [NODE_HERE])


def test_sessions_of_others_are_left_alone():
    others = [Session("x", "node", "10.0.0.9:6379"), Session("y", "head", "10.0.0.8:6379")]
    start = plan.node_start(NODE, recorded(NODE, *others, session="gone"), AT, is_new_head=False)
    assert (start.action, start.stale) == ("start", [])
    assert plan.sessions_to_end(found(*others, NODE_HERE, session="gone"), AT) == [NODE_HERE]
    assert plan.sessions_to_end(found(*others), "") == []


def test_options_of_the_head_do_not_go_to_nodes_nor_theirs_to_it():
    options = {"gcs_shards": 2, "head_wait": 5, "resources": {"b": 1, "a": 2}, "no_replicas": False}
    head = hosts_file.Host("a", options=options, address="10.0.0.1", is_head=True)
    node = hosts_file.Host("b", options=options)
    resources = ["--resources", '{"a": 2, "b": 1}']
    assert plan.start_arguments(head) == ["start", "--head", "--host", "10.0.0.1", "--gcs-shards", "2", *resources]
    begin = ["start", "--address", AT, "--token-stdin"]
    assert plan.start_arguments(node, AT) == [*begin, "--head-wait", "5", *resources]


def test_setup_runs_once_and_again_when_it_differs():
    assert plan.needs_setup(NODE, found())
    assert not plan.needs_setup(NODE, found(setup=plan.digest(["make"])))
    assert plan.needs_setup(NODE, found(setup=plan.digest(["make all"])))


VERSIONS = {
    "no zray": ({"zray": "", "zray_error": "No module named 'zray'"}, "not installed for python3 (No module"),
    "an old Python": ({"python": "3.9", "zray": ""}, "python3 is Python 3.9, and zray needs 3.10 or newer: name"),
    "another zray": ({"zray": "0.2.0"}, "zray 0.2.0 is installed there, and 0.1.0 here: install the same version"),
    "another Python": ({"python": "3.12"}, "its Python is 3.12, that of the head is 3.11: name a Python 3.11"),
}


@pytest.mark.parametrize("facts, words", VERSIONS.values(), ids=VERSIONS)
def test_version_that_does_not_fit_is_told_with_the_remedy(facts, words):
    with pytest.raises(Trouble) as raised:
        plan.check_versions(NODE, found(**facts), "0.1.0", "3.11")
    assert words in str(raised.value)


def test_oldest_python_is_that_of_the_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert config["options"]["python_requires"] == f">={'.'.join(map(str, plan.PYTHON_MIN))}"


def test_other_patch_versions_fit():
    plan.check_versions(NODE, found(zray="0.1.7"), "0.1.0", "3.11")
    plan.check_versions(HEAD, found(python="3.10"), "0.1.0", "")


def test_hosts_of_the_record_that_the_file_lacks_are_removed():
    gone = hosts_file.Host("d")
    assert plan.removed_hosts(CLUSTER, [HEAD, NODE, gone]) == [gone]
