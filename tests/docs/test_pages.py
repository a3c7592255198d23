"""The pages of docs/: programs run and print what stands behind them, links lead somewhere, pages stay short."""

import doctest
import re
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS, PAGES, anchors, links, programs, prose
from tests.scripts import ROOT, run_script

MARK = "--- block --- "
SLOW = {"actors", "cluster", "compatibility", "errors", "fault-tolerance"}
RUN = [
    pytest.param(page, marks=[pytest.mark.slow] if page.stem in SLOW else [], id=page.stem)
    for page in PAGES
    if programs(page)
]
# References may be long.
REFERENCES = {
    "api",
    "api-rllib",
    "api-tune",
    "api-util",
    "benchmarks",
    "changelog",
    "commands",
    "faq",
    "options",
    "protocol",
    "security",
}
WORDS_MAX = 1_200
PICTURE_BYTES_MAX = 30_000
READERS = """
dashboard debug determinism jobs logs memory metrics replay report stack state timeline top whatif why
""".split()


@pytest.mark.parametrize("page", RUN)
def test_programs_of_a_page_run_in_order_and_print_as_shown(page, tmp_path, on_disk):
    found = programs(page)
    result = run_script(tmp_path, "".join(f"print({MARK!r}, flush=True)\n{code}\n" for code, _ in found), timeout_s=55)
    assert result.returncode == 0, result.stderr
    outputs = result.stdout.split(f"{MARK}\n")[1:]
    assert len(outputs) == len(found)
    for (code, expected), output in zip(found, outputs, strict=True):
        if expected is not None:
            matches = doctest.OutputChecker().check_output(expected, output, doctest.ELLIPSIS)
            assert matches, f"{code}\nexpected:\n{expected}\ngot:\n{output}\n{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_to_files_and_headings(page):
    for path, anchor in links(page):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {path}"
        if anchor and target.suffix == ".md" and not target.stem.startswith("api"):
            assert anchor in anchors(target), f"{page.name}: {path}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in REFERENCES], ids=lambda page: page.stem)
def test_page_has_at_most_1200_words(page):
    lines = [line for line in prose(page).splitlines() if not line.startswith("|")]
    assert len(re.findall(r"[A-Za-z][A-Za-z']*", "\n".join(lines))) <= WORDS_MAX


def test_site_has_each_page_in_its_navigation():
    nav = (ROOT / "mkdocs.yml").read_text()
    assert set(re.findall(r": ([\w/-]+\.md)$", nav, re.M)) == {str(page.relative_to(DOCS)) for page in PAGES}


@pytest.mark.parametrize("page", READERS)
def test_page_of_a_reader_shows_a_picture_of_it_and_says_what_is_on_it(page):
    shown = dict(re.findall(r"^!\[([^\]]+)\]\(([^)]+)\)", (DOCS / f"{page}.md").read_text(), re.M))
    assert shown
    assert all(len(words.split()) > 3 for words in shown)


@pytest.mark.parametrize("picture", sorted(DOCS.glob("pictures/*.svg")), ids=lambda picture: picture.stem)
def test_picture_of_a_terminal_is_small_and_loads_nothing(picture):
    text = picture.read_text()
    ElementTree.fromstring(text)
    assert len(text) < PICTURE_BYTES_MAX
    assert "url(http" not in text
    assert "/tmp/" not in text
    assert f"(pictures/{picture.name})" in (DOCS / f"{picture.stem}.md").read_text()


def test_cpu_build_of_torch_has_a_command():
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in (DOCS / "install.md").read_text()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_commands_install_zray_from_a_clone_or_a_wheel(page):
    """No package index has zray."""
    for command in re.findall(r"pip install ([^`\n]+)", page.read_text()):
        assert "zray" not in command or "dist/zray-" in command, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_empty_line_stands_before_each_heading(page):
    assert not re.findall(r"\S\n(#+ .*)", prose(page))
