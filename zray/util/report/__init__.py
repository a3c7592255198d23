"""Report of a run: one page that says why a program is slow, from its event records."""
