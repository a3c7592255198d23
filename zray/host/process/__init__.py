"""Processes of zray and their machine: start, names, limits, ends.

    process_utils, spawn, interpreter    facts, the start of a Python process, the choice of Python
    fork_server, launch_fork_server, preloading    the process that forks workers
    node_processes    node processes as seen by a driver or a command
    crash_reports, oom_kills, syslog    why a process ended
    machine_resources, visible_gpus, math_threads, malloc_tuning, titles    CPUs, memory, GPUs, names

Layer: above `output`; the fork server alone enters `worker`, in a child that becomes a worker.
"""
