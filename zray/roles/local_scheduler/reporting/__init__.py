"""Reports of the node: explanations of waits, lists of tasks and actors, notices, output of workers."""
