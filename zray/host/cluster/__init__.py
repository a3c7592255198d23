"""Membership of a cluster and its head: joining, the head's roles, state on disk.

    membership, registration, rejoin  the side of a node in joining
    admission, membership_log, head_state  the side of the head, and its records on disk
    head, head_processes, replica_processes, replica_log, service_main  the head's roles, and processes beside a node
    admin_commands, read_only, doctor  requests of the command line

Layer: above `links` and the reactor; `node` builds on it.
"""
