"""Tasks for other nodes: decision to spill, placement, stealing, and results."""
