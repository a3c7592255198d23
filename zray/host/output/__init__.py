"""Output of workers on its way from files to the driver's terminal.

    worker_output, error_file    a worker's output enters its log
    log_lines, terminal_rows, repeated_lines    a log as lines with labels
    forwarding    from node to node
    log_follower, screen, progress_bar    in the driver
    truncation    the oldest part of a long log is removed

Layer: above `session`.
"""
