"""The client in a driver or a worker: `get`, `wait`, `put` and `.remote()`, and the link to the node.

    runtime, waiting, futures    the blocking side
    connection, send_thread, control    links to a node, of a program and of the command line
    object_writer, array_origins, published_code, task_context    large values, code, ids of children
    interrupts, fork_guard, recursion_guard    Ctrl-C, forked children, Python's stack
    error_hints, slow_wait_report, unfetched_failures, future_outcome    texts for the user

Layer: above `code`; `worker`, `driver` and `local_mode` build on it.
"""
