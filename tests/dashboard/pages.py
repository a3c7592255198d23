"""Requests to a dashboard: answers and events of streams."""

import http.client
import json
import re
from contextlib import contextmanager


class Server:
    """A dashboard at the address that it has printed."""

    def __init__(self, address):
        found = re.search(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]+)", address)
        assert found, address
        self.address, self.port, self.token = found[0], int(found[1]), found[2]

    def request(self, path, method="GET", token=None, **headers):
        """A connection with a request on its way, and the answer that begins."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        token = self.token if token is None else token
        headers = {"Authorization": f"Bearer {token}", **headers}
        connection.request(method, path, headers={name: value for name, value in headers.items() if value})
        return connection, connection.getresponse()

    def get(self, path, **headers):
        """(status, body) of an answer."""
        connection, answer = self.request(path, **headers)
        try:
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def json(self, path):
        status, text = self.get(path)
        assert status == 200, (status, text)
        return json.loads(text)

    @contextmanager
    def events(self, words):
        """The events of a stream, as (kind, data)."""
        connection, answer = self.request(f"/z/stream?{words}")
        assert answer.status == 200, answer.read()
        try:
            yield read_events(answer)
        finally:
            connection.close()


def read_events(answer):
    fields = {}
    for line in answer:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif fields:
            yield fields["event"], json.loads(fields["data"])
            fields = {}
