"""Tasks that another node is to run: decision to spill, placement, stealing, and results that come back."""
