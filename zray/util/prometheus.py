"""Metrics of a session in Prometheus' text format, and an endpoint that serves them.

Numbers of all processes are added up; of a gauge, the one that was set last is shown.  Prometheus' own library
writes the text, so that no name, tag or description can break it.

Source: Prometheus, Exposition formats (text-based format 0.0.4).
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ..api.cluster_info import available_resources, cluster_resources
from ..api.metrics import Facts, recorded_metrics
from ..exceptions import GetTimeoutError
from . import state

# Bounds of an answer: a Prometheus with more of them has no room for others.
SERIES_OF_METRIC_MAX, SERIES_MAX = 1_000, 10_000
VALUE_CHARACTERS_MAX = 128
# Functions and classes that have a name of their own; others are "(other)".
NAMES_MAX = 100
OTHER = "(other)"
# Rows of tasks and of actors that a scrape looks at, of the node's lists.
ROWS_MAX = 10_000
TOKEN_VARIABLE, TOKEN_CHARACTERS_MIN = "ZRAY_METRICS_TOKEN", 32
REQUEST_SECONDS = 10.0
LEFT_OUT = "zray_metrics_left_out"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Series = tuple[Facts, Sequence[float]]


def collected() -> list[Any]:
    """Return the metrics of the session, as families of prometheus_client.

    Raises:
        ImportError: as `library`.
    """
    core = library()
    recorded = recorded_metrics()
    merged = Merged([*recorded.series, *_of_tasks(), *_of_actors(), *_of_resources()])
    families = [_family(core, rows) for rows in merged.by_name.values()]
    text = "Series that are too many or not alike, by metric; and updates of further ones in their processes."
    lost = core.GaugeMetricFamily(LEFT_OUT, text, labels=["metric"])
    for name, count in merged.left_out.items():
        lost.add_metric([name], count)
    if recorded.left_out or not merged.left_out:
        lost.add_metric(["(in processes)"], recorded.left_out)
    return [*families, lost]


def text_of(families: list[Any]) -> bytes:
    """Return families in the text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Collected:
        def collect(self) -> list[Any]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())  # type: ignore[arg-type]
    return generate_latest(registry)


class Merged:
    """Series of several processes, added up.

    by_name: the series of each metric, by their tags.  left_out: by metric, the number of series beyond the bounds, or
    of another kind than an earlier metric of the same name.
    """

    def __init__(self, series: list[Series]) -> None:
        self.by_name: dict[str, dict[tuple[tuple[str, str], ...], Series]] = {}
        self.left_out: dict[str, int] = {}
        self._count = 0
        self._owners: dict[str, str] = {}  # names of samples, and their metrics
        for each in series:
            self._add(each)

    def _add(self, series: Series) -> None:
        facts, numbers = series
        rows = self.by_name.get(facts.name, {})
        found = rows.get(facts.tags)
        alike = next(iter(rows.values()))[0] if rows else facts
        is_full = found is None and (len(rows) >= SERIES_OF_METRIC_MAX or self._count >= SERIES_MAX)
        is_long = any(len(value) > VALUE_CHARACTERS_MAX for _, value in facts.tags)
        names = dict.fromkeys(_samples(facts), facts.name)
        is_taken = any(self._owners.get(name, facts.name) != facts.name for name in names)
        is_other = (alike.kind, alike.boundaries) != (facts.kind, facts.boundaries)
        if is_full or is_long or is_taken or is_other:
            name = facts.name if facts.name in self.left_out or len(self.left_out) < NAMES_MAX else OTHER
            self.left_out[name] = self.left_out.get(name, 0) + 1
            return
        self._owners.update(names)
        self._count += found is None
        rows = self.by_name.setdefault(facts.name, rows)
        rows[facts.tags] = (facts, numbers if found is None else _sum(facts.kind, found[1], numbers))


def _sum(kind: str, first: Sequence[float], second: Sequence[float]) -> Sequence[float]:
    if kind == "gauge":
        return max(first, second, key=lambda numbers: numbers[1])
    return [a + b for a, b in zip(first, second, strict=True)]


def _samples(facts: Facts) -> list[str]:
    name = facts.name
    if facts.kind == "counter":
        return [name.removesuffix("_total") + end for end in ("", "_total", "_created")]
    if facts.kind == "histogram":
        return [name + end for end in ("", "_bucket", "_count", "_sum", "_created")]
    return [name]


def _family(core: Any, rows: dict[tuple[tuple[str, str], ...], Series]) -> Any:
    facts = next(iter(rows.values()))[0]
    labels = [*dict.fromkeys(key for tags in rows for key, _ in tags)]
    text = facts.description or facts.name
    if facts.kind == "counter":
        family = core.CounterMetricFamily(facts.name, text, labels=labels)
    elif facts.kind == "gauge":
        family = core.GaugeMetricFamily(facts.name, text, labels=labels)
    else:
        family = core.HistogramMetricFamily(facts.name, text, labels=labels)
    for tags, (_, numbers) in rows.items():
        values = [dict(tags).get(label, "") for label in labels]
        if facts.kind == "histogram":
            *counts, total = numbers
            family.add_metric(values, [*_buckets(facts.boundaries, counts)], total)
        else:
            family.add_metric(values, numbers[0])
    return family


def _buckets(boundaries: Sequence[float], counts: Sequence[float]) -> Iterator[tuple[str, float]]:
    """The cumulative counts that Prometheus has."""
    from prometheus_client.utils import floatToGoString

    total = 0.0
    for boundary, count in zip((*boundaries, float("inf")), counts, strict=True):
        total += count
        yield floatToGoString(boundary), total


def _gauge(metric: str, description: str, number: float, name: str, state: str) -> Series:
    return Facts("gauge", metric, description, (("name", name), ("state", state))), (number, 0.0)


def _of_tasks() -> Iterator[Series]:
    text = "Tasks and calls by state; of ended ones those that the nodes remember."
    yield from _counted("zray_tasks", text, state.list_tasks(limit=ROWS_MAX), "name")


def _of_actors() -> Iterator[Series]:
    text = "Actors by state; of dead ones those that the nodes remember."
    yield from _counted("zray_actors", text, state.list_actors(limit=ROWS_MAX), "class_name")


def _counted(metric: str, text: str, rows: list[Any], key: str) -> Iterator[Series]:
    names: dict[str, str] = {}
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if row[key] not in names:
            names[row[key]] = row[key][:VALUE_CHARACTERS_MAX] if len(names) < NAMES_MAX else OTHER
        pair = names[row[key]], row.state
        counts[pair] = counts.get(pair, 0) + 1
    for (name, state_), count in counts.items():
        yield _gauge(metric, text, count, name, state_)


def _of_resources() -> Iterator[Series]:
    total, free = cluster_resources(), available_resources()
    text = "Resources of all nodes, as tasks and actors ask for them."
    for name in sorted(total, key=lambda name: (name not in ("CPU", "GPU", "memory"), name))[:NAMES_MAX]:
        if not name.startswith("node:"):
            yield _gauge("zray_resources", text, free.get(name, 0.0), name, "AVAILABLE")
            yield _gauge("zray_resources", text, total[name] - free.get(name, 0.0), name, "USED")


def library() -> Any:
    """Return the part of Prometheus' library that has the families.

    Raises:
        ImportError: the library is missing; says how to install it.
    """
    try:
        from prometheus_client import core
    except ImportError:
        text = "Metrics for Prometheus need its library: install zray[metrics], or `pip install prometheus_client`."
        raise ImportError(text) from None
    return core


class Endpoint:
    """An HTTP server for Prometheus: `/metrics`, and nothing else.

    Only GET is answered.  Without a token it listens on a loopback address alone, and answers under that name, so that
    no page of a browser reaches it by a name of its own.

    Args:
        port: the port; 0: any.
        host: the address to listen on.
        token: what requests have behind "Bearer " in the header Authorization; None: no token is needed.
        content: returns the text.  Its GetTimeoutError is an answer 503; another error of it ends the endpoint.
        listening: a socket that listens at an IPv4 address, in place of the port.

    Raises:
        ValueError: another address than a loopback one without a token, or a token that is short.
        OSError: the port is taken.
    """

    def __init__(
        self,
        port: int,
        host: str,
        token: str | None,
        content: Callable[[], bytes],
        listening: socket.socket | None = None,
    ) -> None:
        check_access(host, token)
        self.token, self.content = token, content
        self.lock = threading.Lock()  # one look at the session at a time
        self.names = {host, "127.0.0.1", "localhost"}
        self.failure: Exception | None = None
        if listening is None:
            self.server: WSGIServer = make_server(host, port, self.answer, _Server, _Handler)
        else:
            self.server = _Server((host, port), _Handler, bind_and_activate=False)
            self.server.take(listening)
            self.server.set_app(self.answer)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{self.server.server_address[0]!s}:{self.server.server_port}/metrics"

    def serve(self) -> None:
        """Answer requests until the session has ended."""
        self.server.serve_forever(poll_interval=0.2)

    def answer(self, request: dict[str, Any], begin: Callable[..., Any]) -> list[bytes]:
        """Answer a request, as a program of WSGI."""
        found = self._refusal(request)
        status, body = found if found is not None else self._text()
        headers = [
            ("Content-Type", CONTENT_TYPE),
            ("Content-Length", str(len(body))),
            ("X-Content-Type-Options", "nosniff"),
            ("Cache-Control", "no-store"),
        ]
        if status.startswith("401"):
            headers.append(("WWW-Authenticate", "Bearer"))
        begin(status, headers)
        return [body]

    def _refusal(self, request: dict[str, Any]) -> tuple[str, bytes] | None:
        """Why a request is refused, as status and sentence; None: it is not."""
        if request["REQUEST_METHOD"] != "GET":
            return "405 Method Not Allowed", b"This endpoint answers GET only.\n"
        if self.token is None:
            if request.get("HTTP_HOST", "").partition(":")[0] not in self.names:
                return "403 Forbidden", b"This endpoint answers under its own address only.\n"
        else:
            given = request.get("HTTP_AUTHORIZATION", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, b"Bearer " + self.token.encode()):
                return "401 Unauthorized", b"The token is missing or wrong.\n"
        return None if request["PATH_INFO"] == "/metrics" else ("404 Not Found", b"There is /metrics only.\n")

    def _text(self) -> tuple[str, bytes]:
        try:
            with self.lock:
                return "200 OK", self.content()
        except GetTimeoutError:
            return "503 Service Unavailable", b"The session did not answer in time.\n"
        except Exception as error:
            self.failure = error
            threading.Thread(target=self.server.shutdown, daemon=True).start()
            return "503 Service Unavailable", b"The session did not answer; the terminal of `zray metrics` says why.\n"


def check_access(host: str, token: str | None) -> None:
    """Check the address and the token of an endpoint.

    Raises:
        ValueError: as Endpoint.
    """
    try:
        is_loopback = ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        raise ValueError(f"The host is an IPv4 address, as 127.0.0.1, not {host!r}.") from None
    if token is not None and len(token) < TOKEN_CHARACTERS_MIN:
        raise ValueError(f"The token has {len(token)} characters; it needs {TOKEN_CHARACTERS_MIN} or more.")
    if not is_loopback and token is None:
        raise ValueError(
            f"{host} is reached from other machines: set a token, or listen on 127.0.0.1 and use "
            "`ssh -L 9464:127.0.0.1:9464`."
        )


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def take(self, listening: socket.socket) -> None:
        """Use a socket that listens already."""
        self.socket.close()
        self.socket = listening
        self.server_address = listening.getsockname()
        self.server_name, self.server_port = listening.getsockname()[:2]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about a client that hangs up."""


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def address_string(self) -> str:
        return str(self.client_address[0])  # without a question to a name server

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: a scrape comes every few seconds."""
