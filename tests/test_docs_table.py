"""The table of figures in docs/benchmarks.md can be filled from a report."""

import pytest

from benchmarks.docs_table import PAGE, filled

REPORT = {
    "figures": {
        "a": {"what": "tasks", "measured": 123456.7, "unit": "1/s", "ratio": 0.41, "floor_name": "async_10k"},
        "b": {"what": "import", "measured": 0.0912, "unit": "s", "ratio": None, "floor_name": None},
    },
    "machine": {"processor": "P", "cores": 2, "memory_bytes": 8 << 30, "system": "Linux 6"},
    "python": "3.12.1",
    "commit": None,
}


def test_table_is_filled_between_its_markers():
    page = PAGE.read_text()
    text = filled(page, REPORT)
    assert "| tasks | 123,457 1/s | 0.41 x async_10k |\n| import | 0.0912 s |  |\n" in text
    assert "Measured on P, 2 cores, 8 GiB, Linux 6; Python 3.12.1, commit unknown.\n<!-- /table -->" in text
    assert filled(text, REPORT) == text
    assert "Measured 2026-11-26 on P, 2 cores" in filled(page, {**REPORT, "date": "2026-11-26"})
    assert text.partition("<!-- table -->")[0] == page.partition("<!-- table -->")[0]
    with pytest.raises(ValueError, match="no <!-- table -->"):
        filled("nothing", REPORT)
