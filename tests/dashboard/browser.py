"""A headless Chromium, led through its remote protocol over a pipe: pages, sizes, colours, errors, pictures.

Source: Chrome DevTools Protocol.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --hide-scrollbars".split()
)
QUIET = [
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-color-profile=srgb",
]
DEADLINE_S = 30.0
HIGH = 20  # above the numbers of the browser's pipe


class Browser:
    """A browser with one tab.

    errors: what scripts have thrown or written to the console as errors.  requests: the addresses that were asked for.
    """

    def __init__(self, folder):
        to_read, self.to_write = os.pipe()
        self.to_get, to_put = os.pipe()
        read, put = (fcntl.fcntl(each, fcntl.F_DUPFD, HIGH) for each in (to_read, to_put))
        command = [CHROMIUM, *OPTIONS, *QUIET, "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        shell = ["bash", "-c", f'exec "$@" 3<&{read} 4>&{put}', "bash", *command]
        self.process = subprocess.Popen(
            shell, pass_fds=(read, put), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for descriptor in (to_read, to_put, read, put):
            os.close(descriptor)
        self.number, self.data, self.session = 0, b"", None
        self.errors, self.requests = [], []
        (page,) = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self.to_write)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        os.close(self.to_get)

    def call(self, method, **params):
        """The result of a command."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + DEADLINE_S
        while True:
            found = self.message(end)
            assert found is not None, f"no answer to {method}"
            if found.get("id") == self.number:
                assert "error" not in found, (method, found["error"])
                return found["result"]

    def message(self, end):
        """The next message; None: there is none in time."""
        while b"\0" not in self.data:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.to_get], [], [], left)[0]:
                return None
            piece = os.read(self.to_get, 1 << 20)
            assert piece, "the browser has ended"
            self.data += piece
        text, _, self.data = self.data.partition(b"\0")
        found = json.loads(text)
        self.note(found.get("method"), found.get("params", {}))
        return found

    def note(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str([each.get("value", each.get("description")) for each in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def size(self, width, height, *, is_dark=False):
        """Set the window's size and colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def run(self, script):
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, (script, found["exceptionDetails"])
        return found["result"].get("value")

    def until(self, script, seconds=DEADLINE_S):
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"not true in the page: {script}; errors: {self.errors}"
            self.message(time.monotonic() + 0.05)
        return value

    def picture(self, path, *, is_whole=False):
        """Write a picture of the window, or of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=is_whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(found["data"]))
