"""A cluster by the command line alone."""

import contextlib
import os
import re
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest

from cli.start import say_how
from tests.cli.commands import command_line, statuses, zray
from tests.gates import DEADLINE_S, until
from tests.scripts import ROOT, environment, run_script
from zray.host.client.control import ANSWER_SECONDS
from zray.host.security.keyring import KeyPair, Token

TOKEN = Token.draw(KeyPair.draw().public).encode()  # of no cluster


def start(*arguments, **how):
    """`zray start ...`; what it printed."""
    return started(*arguments, **how).stdout


def started(*arguments, token="", text=None, cwd=ROOT):
    """The same; all that it said."""
    variables = {**environment(), **({"ZRAY_TOKEN": token} if token else {})}
    done = zray("start", *arguments, env=variables, cwd=cwd, text=text)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def head(nothing_left):
    """(address, token), as `zray start --head` prints them."""
    printed = start("--head", "--port", "0", "--num-cpus", "1")
    yield re.search(r"ZRAY_TOKEN=(\S+) zray start --address (\S+)", printed).group(2, 1)
    assert zray("stop", "--all").returncode == 0
    assert not statuses()


@pytest.mark.parametrize("cluster, who", [("127.0.0.1:1", "Only this machine"), ("192.0.2.1:1", "Other machines")])
def test_who_reaches_a_head_is_said_when_it_starts(cluster, who, tmp_path, capsys):
    token = tmp_path / "token"
    token.write_text("the token")
    token.chmod(0o600)
    info = SimpleNamespace(kind="head", cluster=cluster, notice="")
    say_how(SimpleNamespace(name="it", token_path=str(token), read_info=lambda: info), "Ctrl-C")
    printed, warned = capsys.readouterr()
    assert f"zray start --address {cluster}" in printed and "the token" in printed
    assert f"{who} can reach" in printed + warned
    assert bool(warned) == (who == "Other machines")
    # The address of a head on loopback leads other machines to themselves.
    assert ("elsewhere zray.init" in printed) == (who == "Other machines")
    assert ("zray start --head --host ADDRESS" in printed) == (who == "Only this machine")


def test_what_a_node_has_to_say_of_how_it_is_reached_is_said_when_it_starts(capsys):
    info = SimpleNamespace(kind="node", cluster="192.0.2.1:1", notice="There is a router between.")
    say_how(SimpleNamespace(name="it", read_info=lambda: info), "Ctrl-C")
    assert capsys.readouterr().err == "\nNote: There is a router between.\n"


def test_a_second_node_on_a_machine_is_told_that_what_it_has_is_counted_twice(head):
    address, token = head
    (here,) = statuses()
    said = started("--address", address, token=token).stderr
    assert f"in that cluster already, with session {here}." in said and "counted twice" in said
    (new,) = set(statuses()) - {here}
    assert said.splitlines()[-1] == f"To end one: zray stop {here}, zray stop {new}"


def test_three_nodes_and_a_program(head, tmp_path):
    address, token = head
    start("--address", address, "--num-cpus", "2", "--resources", '{"disk": 1}', token=token)
    path = tmp_path / "token"
    path.write_text(token + "\n")
    path.chmod(0o600)
    start("--address", address, "--num-cpus", "1", "--labels", "disk=ssd,zone=a", "--token-file", str(path))
    (fact,) = (fact for fact in statuses().values() if fact["kind"] == "head")
    assert [node["resources"]["CPU"]["total"] for node in fact["nodes"]] == [1.0, 2.0, 1.0]
    table = zray("status").stdout
    assert f"cluster at {address}" in table and fact["logs"] in table
    assert all(node["node_id"] in table and node["address"] in table for node in fact["nodes"])
    assert all(node["address"].startswith("127.0.0.1:") and node["machine"] for node in fact["nodes"])
    code = f"""
        import zray
        zray.init(address="{address}")
        far = zray.remote(lambda: zray.get_runtime_context().get_node_id()).options(resources={{"disk": 1}})
        assert zray.get(far.remote(), timeout=20) == "{fact["nodes"][1]["node_id"]}"
        fast = far.options(resources=None, label_selector={{"disk": "ssd"}})
        assert zray.get(fast.remote(), timeout=20) == "{fact["nodes"][2]["node_id"]}"
        total = zray.cluster_resources()
        print(total["CPU"], total["disk"], total["node:127.0.0.1"])
        """
    done = run_script(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "4.0 1.0 3.0\n"), done.stderr


def test_a_program_with_a_package_of_its_own_runs_on_nodes_that_were_started_elsewhere(head, tmp_path):
    """None of them was told of it, and it has gone from where it was by the time that they need it."""
    address, token = head
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        start(
            "--address", address, "--num-cpus", "1", "--resources", f'{{"{name}": 1}}', token=token, cwd=tmp_path / name
        )
    project = tmp_path / "project"
    (project / "helpers").mkdir(parents=True)
    (project / "helpers/__init__.py").write_text("from .shapes import Square\n")
    (project / "helpers/shapes.py").write_text("class Square:\n    def __init__(self, a):\n        self.area = a * a\n")
    code = f"""
        import os
        import helpers, zray
        zray.init(address="{address}")

        def work(square):
            import helpers.shapes
            return helpers.Square(square.area).area, helpers.shapes.__file__

        refs = [zray.remote(work).options(resources={{name: 1}}).remote(helpers.Square(3)) for name in ("one", "two")]
        os.rename("{project}", "{project}-gone")
        (one, there), (two, elsewhere) = zray.get(refs, timeout=30)
        assert os.sep + "code" + os.sep in there and there != elsewhere, (there, elsewhere)
        print(one, two)
        """
    done = run_script(project, code)
    assert (done.returncode, done.stdout) == (0, "81 81\n"), done.stderr


def test_several_sessions_are_listed_and_not_stopped(head):
    address, token = head
    start("--address", address, "--token-stdin", "--num-cpus", "1", text=token + "\n")
    stopped = zray("stop")
    assert stopped.returncode == 2
    assert all(name in stopped.stderr for name in statuses()) and "--all" in stopped.stderr
    assert len(statuses()) == 2


def test_a_head_that_stops_takes_its_nodes_along(head):
    address, token = head
    start("--address", address, "--num-cpus", "1", token=token)
    (name,) = (name for name, fact in statuses().items() if fact["kind"] == "head")
    assert zray("stop", name).returncode == 0
    until(lambda: not statuses())


REFUSED = {
    "neither": ([], "", 2, "--head"),
    "both": (["--head", "--address", "127.0.0.1:1"], "", 2, "to join one, not both"),
    "no token": (["--address", "127.0.0.1:1"], "", 2, "ZRAY_TOKEN"),
    "no address": (["--address", "nonsense"], "x", 2, "HOST:PORT"),
    "the address of a page": (["--address", "http://127.0.0.1:6379"], "x", 2, "HOST:PORT, not 'http://127.0.0.1:6379'"),
    "no port": (["--address", "127.0.0.1:0"], "x", 2, "HOST:PORT"),
    "all addresses to be reached at": (["--address", "127.0.0.1:1", "--advertise", "0.0.0.0"], "x", 2, "to advertise"),
    "nothing to be reached at": (["--address", "127.0.0.1:1", "--advertise", ""], "x", 2, "HOST:PORT"),
    "a port to be reached at that is none": (["--address", "127.0.0.1:1", "--advertise", "h:0"], "x", 2, "HOST:PORT"),
    "where a head is reached": (["--head", "--advertise", "127.0.0.1"], "", 2, "--address ROUTER:PORT"),
    "how long a head waits for itself": (["--head", "--head-wait", "1"], "", 2, "--head-wait is for nodes"),
    "replicas of a node": (
        ["--address", "127.0.0.1:1", "--gcs-replicas", "2"],
        "x",
        2,
        "--gcs-replicas is an option of the head",
    ),
    "no replicas on a head": (["--head", "--no-replicas"], "", 2, "--no-replicas is for nodes that join"),
    "no shards": (["--head", "--gcs-shards", "0"], "", 2, "--gcs-shards"),
    "shards that adapt": (["--head", "--gcs-shards", "auto"], "", 2, "is fixed for the life of a cluster"),
    "a range that is none": (
        ["--head", "--global-schedulers", "4:2"],
        "",
        2,
        "smallest count, 4, is above its largest",
    ),
    "a range of too many": (["--head", "--global-schedulers", "1:65"], "", 2, "from 1 to 64, not 65"),
    "no token at all": (["--address", "127.0.0.1:1"], "nonsense", 1, "not a join token"),
    "a head that nobody knows": (
        ["--address", "nobody.invalid:6379"],
        TOKEN,
        1,
        "host name 'nobody.invalid' is not known",
    ),
    "labels that are none": (["--head", "--labels", "disk"], "", 2, "labels are like disk=ssd,zone=a"),
    "labels that act on a terminal": (["--head", "--labels", "a\x1b=b"], "", 2, r"must be of printable characters"),
    "labels that are JSON": (["--head", "--labels", '{"disk": 1}'], "", 2, "must be a str"),
    "a policy that is none": (["--head", "--policy", "chaos"], "", 2, "bottom_up, central"),
    "a policy of a node": (
        ["--address", "127.0.0.1:1", "--policy", "random"],
        "x",
        2,
        "--policy is an option of the head",
    ),
    "a token for a head": (["--head", "--token-stdin"], "", 2, "creates its own"),
    "a port that is none": (["--head", "--port", "70000"], "", 2, "70000"),
    "another's address": (["--head", "--host", "192.0.2.1"], "", 2, "no address of this machine"),
    "an empty address": (["--head", "--host", ""], "", 2, "No address of this machine is given: it is empty"),
    "all addresses": (["--head", "--host", "0.0.0.0"], "", 2, "Name one address"),
    "a state in a file": (
        ["--head", "--state-dir", "/dev/null"],
        "",
        1,
        "in /dev/null: that is no folder.  Give",
    ),
    "a state below a file": (
        ["--head", "--state-dir", "/dev/null/x"],
        "",
        1,
        "/null/x: a part of that path is no folder",
    ),
    "a state where nothing can be made": (["--head", "--state-dir", "/proc/x"], "", 1, "in /proc/x: no such file or"),
    "no file": (["--address", "127.0.0.1:1", "--token-file", "/nowhere/token"], "", 1, "from /nowhere/token: No such"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_in_a_line_and_leaves_nothing(name, leftovers):
    arguments, token, code, words = REFUSED[name]
    variables = {**environment(), **({"ZRAY_TOKEN": token} if token else {})}
    done = subprocess.run(
        command_line("start", *arguments), env=variables, cwd=ROOT, input="", capture_output=True, text=True, timeout=40
    )
    assert done.returncode == code and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and all(c.isprintable() or c == "\n" for c in done.stderr)
    leftovers.assert_none(DEADLINE_S)


def test_a_token_file_that_others_can_read_is_refused(tmp_path, nothing_left):
    path = tmp_path / "token"
    path.write_text("x")
    path.chmod(0o644)
    done = zray("start", "--address", "127.0.0.1:1", "--token-file", str(path))
    assert done.returncode == 1 and "mode 0644" in done.stderr


def test_the_token_is_in_no_argument_environment_or_log(head):
    """Of any process of the cluster."""
    import glob

    address, token = head
    start("--address", address, "--num-cpus", "1", token=token)
    found = list(statuses().values())
    assert len(found) == 2
    for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                assert token.encode() not in file.read(), path
        except OSError:
            continue
    from zray.host.session.session import live_sessions

    for session in live_sessions():
        for log in glob.glob(f"{session.logs}/**/*.log", recursive=True):
            with contextlib.suppress(FileNotFoundError), open(log, "rb") as file:  # its worker has ended meanwhile
                assert token.encode() not in file.read(), log


def test_the_status_of_nodes_whose_head_is_gone(head):
    """What each has is known without a head; that none answers is said of each, and waited for once."""
    address, token = head
    for _ in range(2):
        start("--address", address, "--num-cpus", "1", token=token)
    before = statuses()
    (pid,) = (fact["node_pid"] for fact in before.values() if fact["kind"] == "head")
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    shown = zray("status").stdout
    assert time.monotonic() - began < 2 * ANSWER_SECONDS
    left = {name for name, fact in before.items() if fact["kind"] != "head"}
    for name in left:
        assert f"session {name}" in shown and before[name]["logs"] in shown
    assert re.search(rf"cluster at {address}: .*(did not answer|no heartbeat from the head)", shown)
    found = statuses()
    assert found.keys() == left
    for fact in found.values():
        assert fact["nodes"] == [] and "no heartbeat from the head of the cluster" in fact["trouble"]


def test_a_second_head_takes_another_port(nothing_left):
    try:
        addresses = [re.search(r"--address (\S+)", start("--head", "--num-cpus", "0")).group(1) for _ in range(2)]
        assert len(set(addresses)) == 2
        port = addresses[0].rpartition(":")[2]
        refused = zray("start", "--head", "--port", port)
        assert refused.returncode == 1 and "head cannot listen where it should" in refused.stderr
        assert f"port {port} of 127.0.0.1 is taken" in refused.stderr and "addr=" not in refused.stderr
    finally:
        zray("stop", "--all")


def test_a_range_of_schedulers_is_shown_and_goes_on_with_the_state(nothing_left, tmp_path):
    options = ("--head", "--port", "0", "--num-cpus", "0", "--state-dir", str(tmp_path / "state"))
    try:
        start(*options, "--global-schedulers", "1:4")
        (fact,) = statuses().values()
        assert fact["notes"] == ["1 global scheduler, 1 to 4"]
        assert "1 global scheduler, 1 to 4" in zray("status").stdout
        for given, note in ((), "1 to 4"), (("--global-schedulers", "2:3"), "2 to 3"):
            zray("stop", "--all")
            start(*options[:2], fact["endpoint"].rpartition(":")[2], *options[3:], *given)
            until(lambda note=note: [f"{note[0]} global scheduler{'s' * (note[0] != '1')}, {note}"] == notes())
        zray("stop", "--all")
        start(*options, "--global-schedulers", "1")
        assert notes() == []
    finally:
        zray("stop", "--all")


def notes():
    """The notes of `zray status` beside the counts."""
    (fact,) = statuses().values()
    return fact["notes"]


def test_a_head_with_processes_of_its_own_and_a_state_folder(nothing_left, tmp_path):
    state = tmp_path / "state"
    options = ("--head", "--port", "0", "--num-cpus", "1", "--state-dir", str(state))
    try:
        start(*options, "--gcs-shards", "2", "--gcs-replicas", "2", "--global-schedulers", "2")
        until(lambda: zray("status").stdout.count("2 of 2 replicas") == 2)  # of each shard
        second = zray("start", *options, "--gcs-shards", "2")
        assert second.returncode == 1 and "another head keeps its state" in second.stderr
        assert second.stderr.count(str(state)) == 1 and "`zray stop`" in second.stderr
        assert sorted(path.name for path in (state / "gcs-1").iterdir()) == ["0", "1"]
    finally:
        zray("stop", "--all")
    refused = zray("start", *options, "--gcs-shards", "3")
    assert refused.returncode == 1 and "--gcs-shards 2" in refused.stderr


def test_a_node_in_the_foreground_says_why_it_ended(head):
    """Its log goes with it."""
    address, token = head
    (session,) = statuses()
    command = command_line("start", "--address", address, "--num-cpus", "1", "--block")
    variables = {**environment(), "ZRAY_TOKEN": token}
    with subprocess.Popen(command, env=variables, cwd=ROOT, stderr=subprocess.PIPE, text=True) as node:
        until(lambda: len(statuses()) == 2)
        zray("stop", session)
        said = node.communicate(timeout=DEADLINE_S)[1]
    assert node.returncode == 0  # somebody has ordered that
    assert "\nThe session has ended: the head of the cluster has ended (told to stop)." in said, said
