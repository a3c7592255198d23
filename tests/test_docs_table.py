"""The table of figures in docs/benchmarks.md can be filled from a report, and has one number for each figure."""

import re

import pytest

from benchmarks.docs_table import BESIDE, PAGE, filled, found_in, with_subjects
from tests.docs.pages import rows
from tests.scripts import ROOT

REPORT = {
    "figures": {
        "a": {"what": "tasks", "measured": 123456.7, "unit": "1/s", "ratio": 0.41, "floor_name": "async_10k"},
        "b": {"what": "start", "measured": 0.0912, "unit": "s", "ratio": None, "floor_name": None},
    },
    "machine": {"processor": "P", "cores": 2, "memory_bytes": 8 << 30, "system": "Linux 6"},
    "python": "3.12.1",
    "commit": None,
}


def test_table_is_filled_between_its_markers():
    page = PAGE.read_text()
    text = filled(page, REPORT)
    assert "| tasks | 123,457 1/s | 0.41 x async_10k |\n| start | 0.0912 s |  |\n" in text
    assert "Measured on P, 2 cores, 8 GiB, Linux 6; Python 3.12.1, commit unknown.\n<!-- /table -->" in text
    assert filled(text, REPORT) == text
    assert "Measured 2026-11-26 on P, 2 cores" in filled(page, {**REPORT, "date": "2026-11-26"})
    assert text.partition("<!-- table -->")[0] == page.partition("<!-- table -->")[0]
    with pytest.raises(ValueError, match="no <!-- table -->"):
        filled("nothing", REPORT)


def test_number_of_a_figure_stands_in_one_table():
    beside = "| tasks | 1/s | 80,000 | 1,700 (47x) |\n| queued | s | 2 | 9 (4.5x) |\n| the same | MB | 3 | 4 (1.3x) |\n"
    page = f"<!-- table -->\n<!-- /table -->\n{BESIDE}\n{beside}"
    names = ("tasks", "start", "queued", "the same", "more queued", "the same")
    figures = [dict(REPORT["figures"]["b"], what=name) for name in names]
    figures[0] |= {"ratio": 0.41, "floor_name": "async_10k"}
    text = filled(page, {**REPORT, "figures": dict(enumerate(figures))}).partition("\n\n")[0]
    assert re.findall(r"^\| (.*) \|$", text, re.M)[1:] == [
        "tasks |  | 0.41 x async_10k",
        "start | 0.0912 s | ",
        "more queued | 0.0912 s | ",
        "the same | 0.0912 s | ",
    ]


# Figures of the README: their names on the page, and how many of the page's units are in one of the README's.
README_FIGURES = {
    "import, init, first result": ("import, init, first result", 1),
    "10,000 no-op tasks, then fetched": ("10,000 no-op tasks, then fetched", 1),
    "chain of 1,000 tasks, submitted at once": ("chain of 1,000 tasks", 1),
    "one task, submitted and fetched, p50": ("one task, p50", 1000),
    "10,000 actor calls in flight": ("10,000 calls in flight", 1),
    "100 actors, created and called once": ("100 actors created, called once", 1),
    "put of 100 B": ("put of 100 B", 1),
    "100 MB, put and read by 20 tasks": ("100 MB put, read by 20 tasks", 1),
    "100,000 queued tasks, peak memory": ("the same, peak PSS of all", 1),
    "memory while idle, without the program": ("idle, all but the driver: PSS", 1),
    "1,000 trials of Tune on reused actors": ("1,000 trials of one report, on reused actors", 1),
    "1,000 trials of Tune, a process each": ("the same, a new actor for each trial", 1),
}


def number(text):
    return float(re.match(r"[\d,.]+", text)[0].replace(",", ""))


def test_page_and_readme_have_one_number_for_one_figure():
    ours = rows(PAGE, "Figures of one machine")
    subjects = zip(with_subjects(cells[0] for cells in ours), ours, strict=True)
    assert not [cells for subject, cells in subjects if cells[1] and subject in found_in(PAGE.read_text())]
    beside = {cells[0]: cells[2:4] for cells in rows(PAGE, "Beside other libraries") if len(cells) == 8}
    beside |= {cells[0]: cells[1:3] for cells in rows(PAGE, "Tune")}
    for what, *values in rows(ROOT / "README.md", "Figures"):
        name, factor = README_FIGURES[what]
        for shown, measured in zip(values, beside[name], strict=True):
            assert number(shown) * factor == pytest.approx(number(measured), rel=0.03), what


def test_each_section_of_the_page_has_the_day_of_its_figures():
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.M)[1:]
    for section in sections:
        if re.search(r"^\|.*\| [\d,.]+ ", section, re.M) and not section.startswith("Workloads"):
            assert re.search(r"2026-\d\d-\d\d", section), section.partition("\n")[0]
