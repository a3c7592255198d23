"""Cost of the core: CPU time, bytes and counts of one tree beside those of another, measured in turns."""
