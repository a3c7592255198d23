"""Output of workers on its way from their files to the driver's terminal.

    worker_output, error_file    what a worker prints gets into its log
    log_lines, terminal_rows, repeated_lines    a log as lines with labels
    forwarding    from node to node
    log_follower, screen, progress_bar    in the driver
    truncation    the oldest part of a long log goes

Layer: above `session`.
"""
