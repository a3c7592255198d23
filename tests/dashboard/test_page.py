"""The page: one file with nothing from elsewhere, and no way for text of users to become elements."""

import base64
import configparser
import hashlib
import re

from tests.scripts import ROOT
from zray.dashboard.page import FOLDER, SCRIPTS, assembled

PAGE = assembled()
HTML = PAGE.html.decode()
SCRIPT = re.search(r"<script>(.*)</script>", HTML, re.DOTALL)[1]
STYLE = re.search(r"<style>(.*)</style>", HTML, re.DOTALL)[1]
# What makes elements, scripts or addresses of text.
MAKERS = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "DOMParser",
    "srcdoc",
)


def test_page_needs_nothing_from_elsewhere():
    assert not re.findall(r"(?:https?:)?//\w[\w.-]*\.\w+", re.sub(r"//( .*)?$", "", HTML, flags=re.M))
    assert not re.findall(r"\b(?:src|srcset)\s*=|@import|url\(", HTML)
    assert re.findall(r'<link [^>]*href="([^"]+)"', HTML) == ["data:,"]
    assert len(PAGE.compressed) < 40_000


def test_text_of_users_becomes_text_alone():
    assert not [each for each in MAKERS if each in SCRIPT]
    assert HTML.count("<script") == 1 and "onclick=" not in HTML and "javascript:" not in HTML


def test_policy_names_the_script_and_the_style_by_their_hashes():
    for text, kind in ((SCRIPT, "script-src"), (STYLE, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in PAGE.policy
    assert "require-trusted-types-for 'script'" in PAGE.policy and "connect-src 'self'" in PAGE.policy


def test_token_is_taken_from_the_address_and_sent_in_a_header():
    assert "history.replaceState" in SCRIPT and "Authorization" in SCRIPT
    assert "document.cookie" not in SCRIPT and "localStorage.setItem(TOKEN" not in SCRIPT


def test_each_file_of_the_page_is_in_it_and_installed():
    assert {path.name for path in FOLDER.iterdir()} == {*SCRIPTS, "page.html", "style.css"}
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert config["options.package_data"]["zray.dashboard"] == "page/*"
    for path in FOLDER.iterdir():
        assert len(path.read_text().splitlines()) <= 600
