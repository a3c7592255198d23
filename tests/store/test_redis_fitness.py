"""Which servers keep records, which are refused with what to set, and which addresses name one."""

import os
import subprocess

import pytest

from tests.docs.pages import DOCS
from tests.store.redis_servers import RedisServer, needs_server, running
from zray.store.durable import StoreAway, StoreFull, StoreUnfit
from zray.store.redis_address import checked, parse
from zray.store.redis_server import why_unfit
from zray.store.redis_store import RedisStore

GOOD = {
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "maxmemory-policy": "noeviction",
}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("redis://localhost", "redis://localhost:6379/0"),
        ("redis://10.0.0.1:7000/3", "redis://10.0.0.1:7000/3"),
        ("REDIS://[::1]:7000/", "redis://[::1]:7000/0"),
        ("rediss://me@store/1?ca=/etc/ca.pem", "rediss://me@store:6379/1?ca=/etc/ca.pem"),
        ("unix:///run/redis.sock?db=2&durability=everysec", "unix:///run/redis.sock?db=2&durability=everysec"),
    ],
)
def test_addresses_have_one_form(given, text):
    address = parse(given)
    assert address.text == text and parse(text) == address
    assert bool(address.notice) is ("everysec" in given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("localhost:6379", "must be redis://HOST:PORT/DB"),
        ("http://localhost", "must be redis://HOST:PORT/DB"),
        ("redis://", "must be redis://HOST:PORT/DB"),
        ("redis://localhost:70000", "Port out of range"),
        ("redis://localhost/main", "its database by a number, not 'main'"),
        ("redis://localhost/-1", "its database by a number"),
        ("unix://run/redis.sock", "a socket by its whole path"),
        ("redis://localhost?ca=/x", "no option 'ca' of a redis address"),
        ("redis://localhost?durabilty=always", "no option 'durabilty'"),
        ("redis://localhost?durability=no", "durability=always (the default) or everysec, not 'no'"),
        ("redis://" + "x" * 2_000, "at most 1000 characters"),
    ],
)
def test_bad_addresses_are_refused(given, said):
    with pytest.raises(ValueError, match="gcs_store") as caught:
        checked(given, "/state")
    assert said in str(caught.value)


@pytest.mark.parametrize("given", ["redis://me:secret@localhost", "redis://:secret@localhost:1/2"])
def test_a_password_in_an_address_is_refused_and_not_repeated(given):
    with pytest.raises(ValueError, match="ZRAY_GCS_STORE_PASSWORD") as caught:
        checked(given, "/state")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        "redis+sentinel://localhost",
        "redis+cluster://localhost",
        "rediss://localhost?cert=/x",
        "redis://localhost?durability=waitaof",
    ],
)
def test_address_of_a_kind_that_is_not_built_is_refused_in_a_sentence(given):
    with pytest.raises(NotImplementedError, match=r"^[^.]+ (is|are) not built: [^.]+\.$"):
        parse(given)


def test_a_store_needs_a_state_folder():
    with pytest.raises(ValueError, match="gcs_store needs state_dir"):
        checked("redis://localhost", "")


@pytest.mark.parametrize(
    ("info", "settings", "said"),
    [
        ({"redis_version": "6.0.16"}, {}, "its version is 6.0.16: Redis 6.2, Valkey or newer is needed"),
        ({}, {}, "its version is not known"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, {"appendfsync": "no"}, "appendfsync is no"),
        ({"redis_version": "7.2.4", "redis_mode": "sentinel"}, {}, "a sentinel"),
    ],
)
def test_reasons_that_no_server_here_can_show(info, settings, said):
    (trouble,) = why_unfit(info, {**GOOD, **settings}, "always")
    assert said in trouble


@needs_server
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"appendonly": "no"}, "set `appendonly yes`"),
        (
            {"appendfsync": "everysec"},
            "set `appendfsync always`, or accept the loss of a second by ?durability=everysec",
        ),
        ({"no_appendfsync_on_rewrite": "yes"}, "set `no-appendfsync-on-rewrite no`"),
        ({"maxmemory_policy": "allkeys-lru"}, "(allkeys-lru): set `maxmemory-policy noeviction`"),
        ({"replicaof": ["127.0.0.1", "1"]}, "it is a replica: name its master"),
        ({"cluster_enabled": "yes"}, "name a server with `cluster-enabled no`"),
    ],
)
def test_a_server_that_may_lose_records_is_refused_with_what_to_set(tmp_path, settings, said):
    with running(**settings) as server:
        with pytest.raises(StoreUnfit, match="not fit to keep the control state") as caught:
            server.store(tmp_path / "a")
        assert said in str(caught.value) and ";" not in str(caught.value)
        assert server.order("DBSIZE") == 0


@needs_server
def test_a_second_of_loss_can_be_accepted_and_nothing_more(tmp_path):
    with running(appendfsync="everysec") as server:
        address = server.address(durability="everysec")
        RedisStore(str(tmp_path / "a"), address, "zray:test:0").close()
        server.order("CONFIG", "SET", "appendfsync", "no")
        with pytest.raises(StoreUnfit, match="appendfsync is no"):
            RedisStore(str(tmp_path / "a"), address, "zray:test:0")
        assert "up to a second of acknowledged records is lost" in address.notice


@needs_server
def test_a_server_that_comes_back_unfit_is_waited_for(tmp_path):
    with running() as server:
        store = server.store(tmp_path / "a")
        store.append([b"one"])
        server.kill()
        with pytest.raises(StoreAway, match="No such file|Connection refused"):
            store.append([b"two"])
        server.start(appendfsync="everysec")
        with pytest.raises(StoreFull, match="appendfsync is everysec") as caught:
            store.append([b"two"])
        assert caught.value.until == "it is set so, and" and not caught.value.why.startswith("unix:")
        server.order("CONFIG", "SET", "appendfsync", "always")
        assert store.append([b"two"]) == 2
        store.close()


@needs_server
def test_an_old_client_library_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("redis.__version__", "5.3.0")
    with pytest.raises(StoreUnfit, match="needs the package redis 6 or newer, but 5.3.0 is installed"):
        RedisStore(str(tmp_path / "a"), parse("redis://localhost"), "zray:test:0")


@needs_server
def test_a_password_is_needed_where_the_server_wants_one(tmp_path):
    with running(requirepass="se cret") as server:
        for password in ("", "wrong"):
            with pytest.raises(StoreAway, match="ZRAY_GCS_STORE_PASSWORD") as caught:
                server.store(tmp_path / "a", password=password)
            assert not password or password not in str(caught.value)
        store = server.store(tmp_path / "a", password="se cret")
        assert store.append([b"one"]) == 1
        store.close()


@needs_server
def test_the_rights_that_a_user_needs(tmp_path):
    """The rights are those of docs/gcs-store.md."""
    page = (DOCS / "gcs-store.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("ACL SETUSER zray"))
    with running() as server:
        server.order(*line.replace("PASSWORD", "word").split())
        address = server.address()._replace(user="zray")
        store = RedisStore(str(tmp_path / "a"), address, "zray:test:0", "word")
        store.append([b"one"])
        store.begin_snapshot()
        store.add_to_snapshot(b"state")
        store.end_snapshot()
        assert [entry.payload for entry in store.snapshot()] == [b"state"] and list(store.records()) == []
        server.order("ACL", "SETUSER", "zray", "-rpush")
        with pytest.raises(StoreFull, match="run") as caught:
            store.append([b"two"])
        assert caught.value.why == "the server forbids this user a command"
        store.close()


@needs_server
def test_a_server_that_hides_its_settings_is_refused(tmp_path):
    with running() as server:
        server.order("ACL", "SETUSER", "default", "-config")
        with pytest.raises(StoreUnfit, match="allow this user `CONFIG GET`"):
            server.store(tmp_path / "a")


@needs_server
def test_a_server_behind_tls(tmp_path):
    names = {name: str(tmp_path / name) for name in ("key", "crt")}
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", names["key"], "-out", names["crt"], "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("openssl makes no certificate here")
    files = {"tls_cert_file": names["crt"], "tls_key_file": names["key"], "tls_ca_cert_file": names["crt"]}
    server = RedisServer(tls_port=str(20_000 + os.getpid() % 10_000), tls_auth_clients="no", **files)
    try:
        try:
            server.start()
        except AssertionError as error:
            if "tls" in str(error).lower():
                pytest.skip("this server was built without TLS")
            raise
        where = f"rediss://127.0.0.1:{server.settings['tls-port']}/1"
        store = RedisStore(str(tmp_path / "a"), parse(f"{where}?ca={names['crt']}"), "zray:test:0")
        assert store.append([b"one"]) == 1
        store.close()
        with pytest.raises(StoreAway, match="CERTIFICATE_VERIFY_FAILED"):
            RedisStore(str(tmp_path / "a"), parse(where), "zray:test:0")
    finally:
        server.close()
