"""The documentation on a phone, in a headless Chromium: no page is wider than the window, and no table is cut."""

import base64
import functools
import http.server
import json
import re
import shutil
import subprocess
import threading

import pytest

from tests.docs.pages import ROOT

SITE = ROOT / "build" / "site"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTH = 390
OPTIONS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync".split()
QUIET = ["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=120000"]

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt install chromium)"),
    pytest.mark.skipif(not SITE.is_dir(), reason="no site in build/site: scripts/docs makes it"),
    pytest.mark.timeout(180),
]

# A page in a frame as wide as a phone: what reaches beyond it, but for what a box of its own scrolls.
LOOK = """
<html><body><pre id="found"></pre><iframe id="frame" width="WIDTH" height="800"></iframe><script>
const pages = PAGES, frame = document.getElementById("frame"), found = {};
function scrolls(element) { return ["auto", "scroll"].includes(getComputedStyle(element).overflowX); }
function fits(element) {
  for (let box = element; box; box = box.parentElement) {
    if (box.getBoundingClientRect().right <= WIDTH && (box === element || scrolls(box))) return true;
  }
  return false;
}
function look() {
  const page = frame.contentDocument, wide = [];
  for (const element of page.querySelectorAll("table, pre, img, svg")) {
    if (element.getBoundingClientRect().width && !fits(element)) wide.push(element.outerHTML.slice(0, 80));
  }
  if (page.documentElement.scrollWidth > WIDTH) wide.push("the page");
  found[pages.shift()] = wide;
  next();
}
function next() {
  if (!pages.length) { document.getElementById("found").textContent = btoa(JSON.stringify(found)); return; }
  frame.onload = () => setTimeout(look, 20);
  frame.src = "/" + pages[0];
}
next();
</script></body></html>
"""


class Pages(http.server.SimpleHTTPRequestHandler):
    """Serves the site, and the page that looks at all others."""

    look = b""

    def do_GET(self):
        if self.path != "/look":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.look)

    def log_message(self, *arguments):
        """Print nothing."""


def test_pages_and_their_tables_fit_a_phone(tmp_path):
    names = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if path.name != "404.html")
    text = LOOK.replace("WIDTH", str(WIDTH)).replace("PAGES", json.dumps(names))
    handler = type("Handler", (Pages,), {"look": text.encode()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [CHROMIUM, *OPTIONS, *QUIET, f"--user-data-dir={tmp_path}", "--dump-dom"]
        address = f"http://127.0.0.1:{server.server_address[1]}/look"
        shown = subprocess.run([*command, address], capture_output=True, text=True, timeout=150).stdout
        server.shutdown()
    found = json.loads(base64.b64decode(re.search(r'<pre id="found">([^<]+)</pre>', shown)[1]))
    assert sorted(found) == names
    assert {page: wide for page, wide in found.items() if wide} == {}
