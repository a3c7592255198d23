"""A head whose records are on a real server of Redis or Valkey: restarts, silence, refusals, and the password."""

import os
import shutil
import signal
import socket
from pathlib import Path

import pytest

import zray
from tests.gates import until
from tests.host.test_head_restarts import Restartable, connect_to
from tests.store.redis_servers import needs_server, running
from zray.cluster_utils import Cluster
from zray.exceptions import ClusterLostError
from zray.host.client import control
from zray.host.process.process_utils import children_of
from zray.host.security import token_input

pytestmark = [needs_server, pytest.mark.slow]
PASSWORD = "s3cret-word"


@pytest.fixture
def password(monkeypatch):
    """In the environment, as a user gives it."""
    monkeypatch.setattr(token_input, "_store_password", "")
    monkeypatch.setenv(token_input.STORE_PASSWORD_VARIABLE, PASSWORD)


class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


def counter(**options):
    made = zray.remote(Counter).options(resources={"far": 0.1}, num_cpus=0, **options).remote()
    return made, made.add.remote()


def stalls(made):
    head = made.cluster.head_node
    with control.Control(head.session, head.pid) as link:
        return link.status().stalls


def family(pid):
    """A process and all its descendants."""
    found = [pid]
    for each in found:
        found += children_of(each)
    return found


def check_secret(made, path):
    """The password is in no argument and no environment of the head's processes, in no log, and in no file of its."""
    head = made.cluster.head_node
    for pid in family(head.pid):
        for name in ("cmdline", "environ"):
            said = Path(f"/proc/{pid}/{name}").read_bytes()
            assert PASSWORD.encode() not in said and PASSWORD.encode().hex().encode() not in said
    files = [*Path(head.session.logs).iterdir(), *Path(path).rglob("*"), *Path(head.session.folder).iterdir()]
    for file in files:
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), file


def come_back_later(made, server):
    """A server whose data is gone, and is restored then: its shards' processes start again and again meanwhile."""
    aside = f"{server.data}-aside"
    server.kill()
    os.rename(server.data, aside)
    os.mkdir(server.data)
    server.start()
    before = len(stalls(made))
    _, lost = counter()
    until(lambda: len(stalls(made)) > before)
    assert "cannot start again" in stalls(made)[0] and "were acknowledged, so it was emptied" in stalls(made)[0]
    server.kill()
    os.rename(server.data, f"{aside}-empty")
    os.rename(aside, server.data)
    server.start()
    until(lambda: len(stalls(made)) == before)
    assert zray.get(lost, timeout=20) == 1


@pytest.mark.parametrize("plan", [{}, {"gcs_shards": 2, "gcs_replicas": 2}], ids=["in the head", "in processes"])
def test_a_head_goes_on_with_the_records_on_its_server(nothing_left, tmp_path, password, plan):
    how = "everysec" if plan else "always"
    with running(requirepass=PASSWORD) as server, Cluster() as cluster:
        address = server.address(durability=how)
        made = Restartable(cluster, tmp_path / "state", gcs_store=address.text, **plan)
        connect_to(made.here)
        try:
            kept, first = counter(name="kept", lifetime="detached", namespace="it")
            assert zray.get(first, timeout=20) == 1
            check_secret(made, tmp_path / "state")
            made.restart()
            found = zray.get_actor("kept", namespace="it")
            assert zray.get(found.add.remote(), timeout=20) == 2
            assert stalls(made) == [address.notice] * bool(plan)
            task = zray.remote(len).options(resources={"far": 0.1}, num_cpus=0)
            assert zray.get(task.remote("code"), timeout=20) == 4
            server.signal(signal.SIGSTOP)
            _, new = counter()
            until(lambda: len(stalls(made)) > bool(plan))
            assert "cannot write its log: the server does not answer for 2 s (unix://" in stalls(made)[0]
            assert zray.get([found.add.remote(), task.remote("it")], timeout=20) == [3, 2]
            assert len(zray.nodes()) == 3
            server.signal(signal.SIGCONT)
            assert zray.get(new, timeout=20) == 1
            until(lambda: len(stalls(made)) == bool(plan))
            keys = server.order("KEYS", "zray:*:log", password=PASSWORD)
            if plan:
                come_back_later(made, server)
                assert zray.get(counter()[1], timeout=20) == 1 and zray.get(found.add.remote(), timeout=20) == 4
            assert len(keys) == plan.get("gcs_shards", 1) * plan.get("gcs_replicas", 1)
        finally:
            zray.shutdown()


def test_head_refuses_a_store_that_it_cannot_use(nothing_left, tmp_path):
    state = str(tmp_path / "state")

    def refused(text, **how):
        with pytest.raises((ConnectionError, ValueError), match=text) as caught:
            Cluster(True, head_node_args={"num_cpus": 0, "state_dir": state, **how})
        return str(caught.value)

    refused("gcs_store needs state_dir", gcs_store="redis://localhost", state_dir="")
    with running(appendonly="no") as server:
        address = server.address().text
        refused("set `appendonly yes`", gcs_store=address)
        server.kill()
        assert address in refused("No such file|refused", gcs_store=address)
        server.start(appendonly="yes")
        with Cluster(True, head_node_args={"num_cpus": 0, "state_dir": state, "gcs_store": address}) as cluster:
            write(cluster, server)
        server.order("FLUSHALL")
        refused("it has 0 records of .* were acknowledged")
    log = str(tmp_path / "log")
    with Cluster(True, head_node_args={"num_cpus": 0, "state_dir": log}):
        pass
    refused("cannot move to redis://localhost:6379/0", state_dir=log, gcs_store="redis://localhost")


def write(cluster, server):
    """Have a head write a record."""
    with zray.init(address=cluster.address):
        zray.get(zray.remote(Counter).options(num_cpus=0).remote().add.remote(), timeout=20)
        until(lambda: any(server.order("LLEN", key) for key in server.order("KEYS", "*:log")))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_second_head_is_refused_and_the_one_that_was_cut_off_ends(nothing_left, tmp_path):
    first, second = (str(tmp_path / name) for name in ("first", "second"))
    how = {"num_cpus": 1, "port": free_port()}
    with running() as server, Cluster() as old:
        old.add_node(**how, state_dir=first, gcs_store=server.address().text)
        write(old, server)
        shutil.copytree(first, second)
        how = {**how, "port": free_port(), "state_dir": second}
        with pytest.raises(ConnectionError, match="is in use under zray:.*:gcs-0:0 by the connection [0-9]+ from"):
            Cluster(True, head_node_args=how)
        server.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # as a cut cable, much later
        with Cluster(True, head_node_args=how) as new:
            with zray.init(address=old.address), pytest.raises(ClusterLostError, match="this head has been replaced"):
                zray.get(zray.remote(Counter).remote().add.remote(), timeout=20)
            with zray.init(address=new.address):
                assert zray.get(zray.remote(Counter).remote().add.remote(), timeout=20) == 1


def test_the_password_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(token_input, "_store_password", "")
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    os.chmod(path, 0o644)
    with pytest.raises(zray.exceptions.ZrayError, match="chmod 600"):
        token_input.store_password(str(path))
    os.chmod(path, 0o600)
    assert token_input.store_password(str(path)) == PASSWORD == token_input.store_password()
    monkeypatch.setenv(token_input.STORE_PASSWORD_VARIABLE, "other")
    assert token_input.STORE_PASSWORD_VARIABLE not in token_input.environment_without_it()
    with pytest.raises(ValueError, match="not both"):
        token_input.store_password(str(path))
    with pytest.raises(ValueError, match="cannot be read from .*: No such file"):
        token_input.store_password(str(tmp_path / "absent"))
