"""Access to the dashboard: each route, each method, with and without the token, under which name."""

import http.client
import re
import socket

import pytest

from tests.dashboard.made import MadeSession, served
from zray.dashboard.access import Guard, checked_host
from zray.dashboard.application import Dashboard
from zray.dashboard.page import assembled

PATHS = [route.path for route in Dashboard(MadeSession(), assembled()).application().routes]
METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW")


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch, served(MadeSession(), patch) as found:
        yield found


def words_of(path):
    ids = {"/z/task": "id=10000000", "/z/log": "filename=worker-0.log"}
    ids |= dict.fromkeys(("/z/node", "/z/actor", "/z/object"), "id=a0000000")
    return f"{path}?{ids.get(path, 'view=nodes')}"


@pytest.mark.parametrize("path", PATHS)
def test_each_route_needs_the_token_and_answers_get_alone(server, path):
    asked = words_of(path)
    connection, answer = server.request(asked)
    connection.close()
    assert answer.status == 200
    expected = 200 if path == "/" else 401
    assert server.get(asked, token="")[0] == server.get(asked, token=server.token[:-1])[0] == expected
    assert server.get(asked, token=f"{server.token}x")[0] == expected
    assert server.get(f"{asked}&token={server.token}", token="")[0] == expected
    assert server.get(asked, token="", Cookie=f"token={server.token}")[0] == expected
    assert {server.get(asked, method=method)[0] for method in METHODS} == {405}


def test_addresses_beside_the_routes_are_not_found_and_paths_lead_nowhere(server):
    assert {server.get(path)[0] for path in ("/nothing", "/z/../etc/passwd", "/static/base.js", "//", "/z/")} == {404}
    assert {server.get(path, token="")[0] for path in ("/nothing", "/z/nodes/", "/%2e%2e/etc/passwd")} == {401}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST:{port}", 200),
        ("[::1]:{port}", 200),
        ("127.0.0.1", 403),
        ("localhost:1", 403),
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example:{port}", 403),
        ("127.0.0.1:{port}@evil.example", 403),
        ("127.0.0.1:{port}, evil.example", 403),
    ],
)
def test_page_under_another_name_is_refused(server, host, status):
    """A name that an attacker points at this machine (DNS rebinding) is another origin, and gets nothing."""
    host = host.format(port=server.port)
    assert server.get("/z/nodes", Host=host)[0] == status
    assert server.get("/", Host=host, token="")[0] == status


def test_pages_of_others_are_refused(server):
    own = f"http://127.0.0.1:{server.port}"
    for origin, status in ((own, 200), (own.replace("127.0.0.1", "localhost"), 200), ("null", 403)):
        assert server.get("/z/nodes", Origin=origin)[0] == status
    for origin in ("http://evil.example", f"https://127.0.0.1:{server.port}", "http://127.0.0.1:1"):
        assert server.get("/z/nodes", Origin=origin)[0] == 403
    for site, status in (("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403)):
        assert server.get("/z/nodes", **{"Sec-Fetch-Site": site})[0] == status
    # A link in a notebook opens the page; no page of others embeds it.
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert server.get("/", token="", **link)[0] == 200 and server.get("/z/nodes", **link)[0] == 403
    assert server.get("/", token="", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})[0] == 403


def test_answers_have_headers_that_keep_them_to_the_page(server):
    for path in ("/", "/z/nodes", "/nothing"):
        connection, answer = server.request(path)
        headers = {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers and not [name for name in headers if name.startswith("access-control")]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert "http" not in policy and "*" not in policy
    connection, answer = server.request("/z/nodes", token="")
    assert answer.getheader("www-authenticate") == "Bearer"
    connection.close()


def test_bytes_that_are_no_request_do_not_disturb(server):
    for data in (b"\x00\xff\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"x" * (1 << 20) + b"\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stranger:
            try:
                stranger.sendall(data)
                assert b" 400 " in stranger.recv(1_000)
            except ConnectionError:
                pass
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stranger:
        stranger.sendall(b"GET /z/nodes HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert b" 40" in stranger.recv(1_000)
    assert server.get("/z/nodes")[0] == 200


def test_words_of_a_request_are_bounded(server):
    for words in ("a=1&" * 41, "name=" + "x" * 1_001, "filter_keys=state", "seconds=many", "seconds=nan"):
        assert server.get(f"/z/overview?{words}")[0] == 400, words[:20]
    assert server.get("/z/task?id=../../etc")[0] == server.get("/z/task?id=abc")[0] == 400
    assert server.get("/z/stream?view=secrets")[0] == 404


def test_hosts_of_this_machine_alone_are_taken():
    assert [checked_host(host) for host in ("127.0.0.1", "localhost", "127.0.0.2", "::1")] == [
        "127.0.0.1",
        "127.0.0.1",
        "127.0.0.2",
        "::1",
    ]
    for host in ("0.0.0.0", "10.0.0.1", "::"):
        with pytest.raises(ValueError, match="ssh -L"):
            checked_host(host)
    with pytest.raises(ValueError, match="address"):
        checked_host("example.org")


def test_connection_that_is_no_request_of_http_gets_nothing():
    async def application(scope, receive, send):
        raise AssertionError("not guarded")

    import asyncio

    asyncio.run(Guard(application, "t", "127.0.0.1", 1, "")({"type": "websocket"}, None, None))


def test_websocket_is_refused(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "a" * 16}
    connection.request("GET", "/z/nodes", headers=headers)
    assert connection.getresponse().status == 401
    connection.close()


def test_token_has_256_bits():
    from zray.dashboard.server import new_token

    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100 and all(re.fullmatch(r"[\w-]{43}", token) for token in tokens)
