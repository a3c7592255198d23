"""Files of a session that are removed by hand: the session's end is soon, and clear."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
import pytest

import zray
from tests.cli.commands import statuses
from tests.gates import forever, until_ended
from tests.scripts import start_script
from zray.cluster_utils import Cluster
from zray.exceptions import ClusterLostError
from zray.host import context
from zray.host.process import spawn
from zray.host.process.process_utils import children_of
from zray.host.session.session import Session, live_sessions
from zray.store.segment import segments_of

# A node looks once a second.
NOTICED_S = 5.0


@zray.remote
class Counter:
    def add(self):
        return os.getpid()


@zray.remote
def wait():
    forever()


def take_away(path):
    """Remove a file, or a folder into which processes write meanwhile.

    A folder is renamed first: no process can make files in it while its entries are removed one by one.
    """
    place = tempfile.mkdtemp(dir=os.path.dirname(path))  # of the same file system
    try:
        os.rename(path, os.path.join(place, "taken"))
    finally:
        shutil.rmtree(place)


def remove(session):
    take_away(session.folder)
    return "or a file in it, was removed"


def remove_with_its_root(session):
    take_away(os.path.dirname(session.folder))
    return "or a file in it, was removed"


def empty(session):
    for name in os.listdir(session.folder):
        with contextlib.suppress(FileNotFoundError):  # a file that its writer has renamed or removed meanwhile
            take_away(os.path.join(session.folder, name))
    return "or a file in it, was removed"


def replace(session):
    """By one of the same form, as far as names go."""
    take_away(session.folder)
    os.mkdir(session.folder, 0o700)
    for name in ("lock", "node.sock"):
        open(os.path.join(session.folder, name), "w").close()
    return "or a file in it, was removed"


def remove_socket(session):
    os.unlink(session.socket_path)
    return "by which programs find it, was removed"


def test_live_folder_is_taken_away_whatever_is_written_into_it(tmp_path):
    """A process that makes files all the time, as logs are made in a session's folder."""
    folder = tmp_path / "live"
    code = """
import itertools, os, sys
for number in itertools.count():
    try:
        open(os.path.join(sys.argv[1], str(number)), "w").close()
    except FileNotFoundError:
        break
    if number == 100:
        print("busy", flush=True)
"""
    for _ in range(5):
        folder.mkdir()
        with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout.readline()
            take_away(folder)
            assert not folder.exists()
            assert writer.wait(20) == 0


@pytest.fixture
def noted(monkeypatch, tmp_path, cold_starts):
    """What nodes that are started from here say to the machine's log."""
    path = tmp_path / "noted"
    catch = f"import syslog; syslog.syslog = lambda *said: print(*said, file=open({str(path)!r}, 'a')); "
    monkeypatch.setattr(spawn, "_PROGRAM", catch + spawn._PROGRAM)
    return lambda: path.read_text() if path.exists() else ""


def hears_of_it(words):
    """This program: within seconds, whatever it waits for."""
    with pytest.raises(ClusterLostError, match=words):
        zray.get(wait.remote(), timeout=2 * NOTICED_S)
    with pytest.raises(ClusterLostError, match=words):
        zray.put(1)


@pytest.mark.parametrize("harm", [remove, remove_with_its_root, empty, replace, remove_socket])
def test_an_embedded_session_whose_folder_is_harmed_ends(harm, start, leftovers, noted):
    start(num_cpus=2)
    session, pid = context.runtime.paths, context.runtime.node_pid
    counter = Counter.remote()
    worker = zray.get(counter.add.remote(), timeout=20)
    large = zray.put(bytes(1_000_000))
    processes = [worker, *children_of(pid)]
    words = harm(session)
    hears_of_it(words)
    until_ended([pid, *processes], NOTICED_S)
    assert noted().count(f"session {session.name} (node ") == 1 and words in noted()
    del large
    zray.shutdown()
    leftovers.assert_none(NOTICED_S)


def segment_of(session):
    """The file of its shared memory, once something lies in it."""
    (name,) = segments_of(session.name)
    return "/dev/shm" + name


HARM_OF_MEMORY = {"truncate": (lambda path: os.truncate(path, 4096), "truncated"), "unlink": (os.unlink, "removed")}


@pytest.mark.parametrize("harm", HARM_OF_MEMORY)
def test_a_session_whose_memory_is_harmed_ends_and_kills_nobody(harm, tmp_path, leftovers, noted):
    """A program that reads, one that writes, a worker that has the memory mapped, and one that has not."""
    act, words = HARM_OF_MEMORY[harm]
    program = """
        import os, sys
        import numpy, zray
        from zray.exceptions import ClusterLostError, ObjectLostError, RayError

        zray.init(num_cpus=2)

        @zray.remote
        class Reader:
            def read(self, values):
                return zray.get(values[0])[-1]

        ref = zray.put(numpy.ones(3_000_000))
        other = zray.put(numpy.ones(200_000))
        first, second = Reader.options(num_cpus=0).remote(), Reader.options(num_cpus=0).remote()
        assert zray.get(first.read.remote([other])) == 1
        assert zray.get(second.read.remote([zray.put([1])])) == 1  # small: it has not mapped anything
        print("ready", flush=True)
        sys.stdin.readline()
        seen = set()
        for work in (
            lambda: zray.get(ref)[-1],
            lambda: zray.get(first.read.remote([ref]), timeout=10),
            lambda: zray.get(second.read.remote([ref]), timeout=10),
            lambda: zray.put(numpy.ones(1_000_000)),
        ):
            try:
                work()
                seen.add("fine")
            except (ObjectLostError, ClusterLostError) as error:
                assert "shared memory" in str(error), error
                seen.add("lost")
        print(sorted(seen), flush=True)
        try:
            while True:
                zray.get(first.read.remote([zray.put([1])]), timeout=10)
        except ClusterLostError as error:
            print(error, flush=True)
    """
    process = start_script(tmp_path, program, stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        (session,) = live_sessions()
        act(segment_of(session))
        said, errors = process.communicate("\n", timeout=40)
    finally:
        process.kill()
    assert process.returncode == 0, (process.returncode, errors, said)
    lines = said.splitlines()
    assert "'lost'" in lines[0] and (harm == "unlink" or "fine" not in lines[0]), said
    assert re.search(rf"its shared memory \S+ was {words}", lines[1]), said
    leftovers.assert_none(NOTICED_S)


@pytest.mark.parametrize("harm", HARM_OF_MEMORY)
def test_a_node_that_gives_what_lies_in_harmed_memory_ends_for_it(harm, nothing_left, leftovers, noted):
    """The cluster goes on, and makes what was lost again."""
    act, words = HARM_OF_MEMORY[harm]
    with Cluster(True, head_node_args={"num_cpus": 1}) as cluster:
        node = cluster.add_node(num_cpus=1, resources={"far": 1})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            far = zray.remote(lambda: numpy.ones(1_000_000)).options(resources={"far": 1}).remote()
            zray.wait([far], fetch_local=False, timeout=20)
            act(segment_of(node.session))
            cluster.add_node(num_cpus=1, resources={"far": 1})
            assert zray.get(far, timeout=20).sum() == 1_000_000
            until_ended([node.pid], NOTICED_S)
            assert re.search(rf"its shared memory \S+ was {words}", noted())
    leftovers.assert_none(NOTICED_S)


@pytest.mark.parametrize("whose", ["head", "node"])
def test_a_lasting_one_ends_and_says_why_to_its_programs(whose, nothing_left, leftovers, noted):
    """And only that one: where it is a node's, the cluster goes on."""
    with Cluster(True, head_node_args={"num_cpus": 1, "gcs_shards": 2}) as cluster:
        node = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        harmed = cluster.head_node if whose == "head" else node
        processes = [harmed.pid, *children_of(harmed.pid)]
        with zray.init(address=harmed.address if whose == "head" else cluster.address):
            assert context.runtime.node_pid == cluster.head_node.pid
            assert zray.get(Counter.remote().add.remote(), timeout=20)
            take_away(harmed.session.folder)
            until_ended(processes, NOTICED_S)
            if whose == "head":
                hears_of_it(f"its folder {harmed.session.folder}, or a file in it, was removed")
                until_ended([node.pid])  # it has said goodbye
            else:
                cluster.worker_nodes.remove(node)
                cluster.wait_for_nodes()
                assert zray.get(Counter.remote().add.remote(), timeout=20)
        names = {cluster.head_node.session.name} if whose == "node" else set()
        assert set(statuses()) == names
        removed = f"its folder {harmed.session.folder}, or a file in it, was removed"
        assert f"session {harmed.session.name} (node {harmed.node_id}) has ended: {removed}" in noted()
    leftovers.assert_none(NOTICED_S)


def test_what_a_worker_prints_is_all_that_is_lost_with_the_folder_of_logs(start):
    start(num_cpus=1)
    take_away(context.runtime.paths.logs)
    assert zray.get(Counter.remote().add.remote(), timeout=20)


def test_a_folder_that_cannot_be_looked_at_is_not_gone(start, monkeypatch):
    """That is no proof."""
    from types import SimpleNamespace

    from zray.host.node.health_check import HealthCheck

    start(num_cpus=1)
    session = Session(context.runtime.session)
    lock = os.open(session.lock_path, os.O_RDONLY)
    check = HealthCheck(SimpleNamespace(host="n", session=session, lock=lock))
    assert check._folder_trouble() == ""

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", refuse)
    assert check._folder_trouble() == ""
    os.close(lock)
