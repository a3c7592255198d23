"""A session on this machine: its folder, its names, and how it is found.

    session, session_info    the folder, and what node.json holds
    discovery    sessions that a program can join
    log_marks    names and streams in the logs of a session's workers

Layer: the lowest with `security`.
"""
