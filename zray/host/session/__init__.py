"""A session on this machine: its folder, its names, and how programs find it.

    session, session_info    the folder, and the content of node.json
    discovery    sessions that a program can join
    kept_logs    the folder of logs that outlive their session
    log_marks    names and streams in the logs of a session's workers

Layer: the lowest with `security`.
"""
