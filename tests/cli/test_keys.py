"""`zray keys`: who is let into a cluster, and who no more (docs/security.md, S4 and B08)."""

import os
import subprocess
import tempfile

import pytest

import zray as api
from tests.cli.commands import command_line, zray
from tests.gates import is_running, until
from tests.scripts import ROOT, environment
from zray.exceptions import AuthenticationError, ClusterLostError
from zray.host.driver import startup

# A revoked key is out within this time (docs/security.md, S4).
REVOKED_SECONDS = 5.0


def keys(cluster, *arguments):
    return zray("keys", *arguments, "--session", cluster.head_node.session.name)


def states(cluster, *which):
    rows = [line.split("\u2502") for line in keys(cluster, "list", *which).stdout.splitlines() if "\u2502" in line]
    return {row[1].strip(): row[3].strip() for row in rows}


def test_all_keys_are_listed_and_nothing_of_them_is_secret(cluster):
    listed = keys(cluster, "list")
    assert listed.returncode == 0, listed.stderr
    rows = [line.split("\u2502") for line in listed.stdout.splitlines() if "\u2502" in line]
    kinds = sorted(row[2].strip() for row in rows)
    assert kinds == ["node", "node", "token"]
    for node in cluster.worker_nodes:
        assert node.node_id in listed.stdout
    assert "998" in listed.stdout and "24 h" in listed.stdout and "connected" in listed.stdout
    assert cluster.token not in listed.stdout


def test_a_node_whose_key_is_revoked_is_out_on_all_nodes_and_ends(cluster):
    doomed, other = cluster.worker_nodes
    find, startup.find_session = startup.find_session, lambda: (doomed.session, doomed.pid)
    try:
        api.init(address="auto")
    finally:
        startup.find_session = find
    never = api.remote(lambda: 1).options(resources={"never": 1}).remote()
    done = keys(cluster, "revoke", doomed.node_id[:12])
    assert done.returncode == 0 and done.stdout == f"Revoked: node {doomed.node_id}.\n", done.stderr
    with pytest.raises(ClusterLostError, match="its key was revoked"):
        api.get(never, timeout=REVOKED_SECONDS)
    until(lambda: not is_running(doomed.pid), REVOKED_SECONDS)
    assert "revoked" in keys(cluster, "list").stdout
    cluster.worker_nodes.remove(doomed)
    cluster.wait_for_nodes()
    again = keys(cluster, "revoke", doomed.node_id)
    assert again.returncode == 1 and "no valid key has this name" in again.stderr
    itself = keys(cluster, "revoke", cluster.head_node.node_id[:12])
    assert itself.returncode == 1 and f"{cluster.head_node.node_id} is the head: end it by `zray stop`" in itself.stderr
    api.shutdown()
    assert is_running(other.pid)
    cluster.remove_node(other)
    until(lambda: states(cluster, "--all")[other.node_id] == "ended")
    assert states(cluster)[doomed.node_id] == "revoked"
    assert other.node_id not in states(cluster)
    assert "Left out: 1 key of the past" in keys(cluster, "list").stdout


def test_a_token_that_is_revoked_lets_nobody_in_and_a_new_one_does_as_often_as_it_may(cluster, tmp_path):
    name = next(line for line in keys(cluster, "list").stdout.split() if line.startswith("token-"))
    assert keys(cluster, "revoke", name).returncode == 0
    with pytest.raises(AuthenticationError, match="does not know this token"):
        cluster.add_node(num_cpus=1)
    drawn = keys(cluster, "token", "--uses", "1", "--hours", "2")
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout.endswith(f" zray start --address {cluster.address}\n")
    assert "Only this machine can reach the head" in drawn.stderr  # its head listens on loopback
    cluster.token = drawn.stdout.split()[0].removeprefix("ZRAY_TOKEN=")
    cluster.add_node(num_cpus=1)
    with pytest.raises(AuthenticationError, match="does not know this token, or it has expired or been used up"):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()


REFUSED = {
    "nothing to revoke": (["revoke"], 2, "Missing argument"),
    "a stranger": (["revoke", "nobody"], 1, "no valid key has this name"),
    "an empty name": (["revoke", ""], 1, "no valid key has this name"),
    "a token for no time": (["token", "--hours", "0"], 2, "must be above 0"),
    "a token for nobody": (["token", "--uses", "0"], 2, "must be above 0"),
    "a token for ever": (["token", "--hours", "1e9"], 1, "at most 366 days"),
    "a token for all": (["token", "--uses", "1000000000"], 1, "1,000,000 joins"),
    "hours that are none": (["token", "--hours", "nan"], 2, "must be above 0"),
    "a session that there is not": (["list", "--session", "nobody"], 1, "No head of a cluster"),
}


def test_what_cannot_be_is_refused_in_a_line(cluster):
    for name, (arguments, code, words) in REFUSED.items():
        session = [] if "--session" in arguments else ["--session", cluster.head_node.session.name]
        done = zray("keys", *arguments, *session)
        assert done.returncode == code and words in done.stderr and "Traceback" not in done.stderr, (name, done.stderr)


def test_without_a_head_there_are_no_keys(nothing_left):
    folder = tempfile.mkdtemp()  # a short path: sockets would lie there
    variables = {**environment(), "ZRAY_TMPDIR": folder}
    done = subprocess.run(
        command_line("keys", "list"), env=variables, cwd=ROOT, capture_output=True, text=True, timeout=40
    )
    assert done.returncode == 1 and "No head of a cluster runs on this machine" in done.stderr
    os.rmdir(folder)
