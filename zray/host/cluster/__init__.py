"""Membership of a cluster and its head: joining, the head's roles, state on disk.

    membership, registration, rejoin    a node's side of joining
    admission, membership_log, head_state    the head's side, and what it keeps
    head, head_processes, replica_processes, replica_log, service_main    the head's roles, and processes beside a node
    admin_commands, read_only, doctor    what the command line asks

Layer: above `links` and the reactor; `node` builds on it.
"""
