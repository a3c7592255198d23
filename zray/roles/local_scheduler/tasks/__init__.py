"""Tasks that run on the node: submission, dispatch, workers, lent CPUs, code, cancel, fate sharing."""
