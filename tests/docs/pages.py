"""The pages of docs/ as tests read them: code blocks, headings, links, tables."""

import inspect
import re

from tests.scripts import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("design/*.md")])
# A comment in front of a block says why the block is not run.
BLOCK = re.compile(r"^(?:<!-- not run: (?P<why>.+?) -->\n+)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)
NOT_A_WORD_OF_A_HEADING = re.compile(r"[^\w\s-]")


def blocks(page):
    """(language, code, reason not to run it or None, what stands between it and the block before) of each block."""
    text, end, found = page.read_text(), 0, []
    for match in BLOCK.finditer(text):
        found.append((match["language"], match["code"], match["why"], text[end : match.start()]))
        end = match.end()
    return found


def programs(page):
    """(code, expected output or None) of the Python blocks that run; a text block right behind one is its output."""
    found = []
    is_followed = False
    for language, code, why, between in blocks(page):
        if language == "text" and is_followed and not between.strip():
            found[-1] = (found[-1][0], code)
        is_followed = language == "python" and why is None
        if is_followed:
            found.append((code, None))
    return found


def prose(page):
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def anchors(page):
    """The names of a page's headings, as the site has them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?)\s*$", prose(page), re.M):
        plain = NOT_A_WORD_OF_A_HEADING.sub("", heading.replace("`", "")).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", plain))
    return found


def links(page):
    """(file or "", anchor or "") of each link that stays in the documentation."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield path, anchor


def arguments(docstring):
    """{name: text} of the arguments that a docstring explains, each in one line without its last period."""
    part = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.cleandoc(docstring or ""), re.M | re.S)
    found = {}
    for item in re.split(r"^    (?=\w)", part[1] if part else "", flags=re.M)[1:]:
        names, _, text = " ".join(item.split()).partition(": ")
        found.update(dict.fromkeys(names.split(", "), text.removesuffix(".").replace("|", r"\|")))
    return found


def shown(default):
    """A default as the tables have it."""
    return "required" if default is inspect.Parameter.empty else f"`{default!r}`".replace("'", '"')


def rows(page, heading):
    """The cells of each row of the first table below a heading, without the table's head."""
    text = prose(page)
    begin = re.search(rf"^#+ +{re.escape(heading)} *$", text, re.M)
    assert begin, f"{page.name} has no heading {heading!r}"
    part = re.split(r"^#", text[begin.end() :], maxsplit=1, flags=re.M)[0]
    found = []
    for line in part.splitlines():
        if line.startswith("|"):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found[2:]
