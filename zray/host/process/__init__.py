"""Processes of zray and the machine they run on: how they are started, named, limited, and seen to end.

    process_utils, spawn, interpreter    facts, the start of a Python process, which Python
    fork_server, launch_fork_server, preloading    the process that forks workers
    node_processes    node processes as a driver or a command sees them
    crash_reports, oom_kills, syslog    why one ended
    machine_resources, visible_gpus, math_threads, malloc_tuning, titles    CPUs, memory, GPUs, names

Layer: above `output`; the fork server alone enters `worker`, in a child that becomes one.
"""
