"""The site that `scripts/docs` builds from docs/; scripts/test builds it ahead of the tests."""

import ast
import html
import json
import re

import pytest

from tests.scripts import ROOT

SITE = ROOT / "build" / "site"
pytestmark = [
    pytest.mark.slow,  # those tests run behind the build
    pytest.mark.skipif(not SITE.exists(), reason="no site in build/site: scripts/docs makes it"),
]


def pages():
    return [page for page in SITE.glob("**/*.html") if page.parent.name not in ("reproduce",) and page.stem != "404"]


def test_pages_load_nothing_from_other_hosts():
    for page in SITE.glob("**/*.html"):
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="(https?://[^"]+)"', page.read_text())
        assert not loaded, page.name


def test_each_page_has_search_contents_and_both_colour_schemes():
    for page in pages():
        text = page.read_text()
        assert 'data-md-component="search"' in text, page.name
        assert 'data-md-color-scheme="slate"' in text, page.name


def test_search_finds_guides_and_leaves_the_protocol_out():
    documents = json.loads((SITE / "search" / "search_index.json").read_text())["docs"]
    places = {document["location"].partition("#")[0] for document in documents}
    assert {"tune.html", "api-tune.html", "api-rllib.html", "faq.html", "install.html"} <= places
    assert "protocol.html" not in places


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("api-tune", ["Tuner", "ASHAScheduler", "OptunaSearch", "PopulationBasedTraining", "ResultGrid", "Callback"]),
        ("api-rllib", ["PPOConfig", "DQNConfig", "Algorithm", "MultiAgentEnv"]),
        ("api-util", ["ActorPool", "Queue", "Pool", "Executor"]),
    ],
)
def test_api_pages_of_libraries_show_their_classes(page, names):
    text = (SITE / f"{page}.html").read_text()
    for name in names:
        assert re.search(rf'<h3 id="zray\.[\w.]*\.{name}"', text), name


@pytest.mark.parametrize("page", ["api", "api-tune", "api-rllib", "api-util"])
def test_arguments_on_api_pages_have_rows_of_their_own_with_defaults(page):
    text = (SITE / f"{page}.html").read_text()
    assert "NOT_GIVEN" not in text
    assert not re.findall(r"<code>\w+, \w+</code>", text)


def test_examples_page_shows_the_code_of_each_example():
    text = html.unescape(re.sub(r"<[^>]+>", "", (SITE / "examples.html").read_text()))
    lines = re.findall(r"^ +(examples/\w+\.py)$", (ROOT / "docs" / "examples.md").read_text(), re.M)
    assert len(lines) > 20
    for line in lines:
        assert (ROOT / line).read_text().splitlines()[-1] in text, line


@pytest.mark.parametrize("page", ["api-tune", "api-rllib"])
def test_examples_on_api_pages_are_python(page):
    text = (SITE / f"{page}.html").read_text()
    shown = re.findall(r'<details class="example" open>.*?<div class="highlight">(.*?)</pre>', text, re.DOTALL)
    assert len(shown) > 10
    for code in shown:
        plain = html.unescape(re.sub(r"<[^>]+>", "", code))
        compile(plain, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
