"""A headless Chromium that looks at a page in a frame as wide as a phone, from a server of the test's own."""

import base64
import functools
import http.server
import json
import re
import shutil
import subprocess
import threading

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt install chromium)")
OPTIONS = "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync".split()
QUIET = "--disable-background-networking --disable-component-update --enable-logging=stderr".split()
WAIT = "--virtual-time-budget=20000"

# The page is ready when it says so; then SCRIPT looks at it, and what it returns is shown as JSON in base64.
LOOK = """
<html><body><pre id="found"></pre><iframe id="frame" width="WIDTH" height="800" src="/PAGE"></iframe><script>
const frame = document.getElementById("frame");
function look() {
  const page = frame.contentDocument, root = page && page.documentElement;
  if (!root || !(READY)) { setTimeout(look, 20); return; }
  const found = ((page, window) => { SCRIPT })(page, frame.contentWindow);
  document.getElementById("found").textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
}
frame.onload = look;
</script></body></html>
"""
# Elements that reach beyond the frame, but for what a box of its own scrolls.
CUT = """
const width = window.innerWidth, cut = [];
const scrolls = (box) => ["auto", "scroll"].includes(window.getComputedStyle(box).overflowX);
const right = (box) => box.getBoundingClientRect().right;
for (const element of page.querySelectorAll("body *")) {
  let box = element;
  while (box && !(right(box) <= width + 0.5 && (box === element || scrolls(box)))) box = box.parentElement;
  if (!box && element.getBoundingClientRect().width) cut.push(element.outerHTML.slice(0, 80));
}
if (page.documentElement.scrollWidth > width) cut.push("the page");
"""


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, *arguments):
        """Print nothing."""


def look_at(path, script, profile, width=390, ready="true", is_dark=False):
    """Open a page, and run a script on it.

    Args:
        path: of the page.
        script: a function body of `page` and `window`, which returns what JSON can say.
        profile: a folder for Chromium.
        width: of the page.
        ready: condition for the page to be looked at, of `root` and `page`.

    Returns:
        (what the script returned, messages of the console).
    """
    text = LOOK
    for name, part in (("WIDTH", str(width)), ("PAGE", path.name), ("READY", ready), ("SCRIPT", script)):
        text = text.replace(name, part)
    (path.parent / "look.html").write_text(text)
    handler = functools.partial(Files, directory=str(path.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        dark = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
        command = [CHROMIUM, *OPTIONS, *QUIET, WAIT, *dark, f"--user-data-dir={profile}", "--dump-dom"]
        address = f"http://127.0.0.1:{server.server_address[1]}/look.html"
        shown = subprocess.run([*command, address], capture_output=True, text=True, timeout=50)
        server.shutdown()
    found = re.search(r'<pre id="found">([^<]+)</pre>', shown.stdout)
    console = re.findall(r"CONSOLE.*", shown.stderr)
    assert found, f"the page was not ready: {console}"
    return json.loads(base64.b64decode(found[1])), console
