"""Links to the other hosts of a cluster, and to the processes of a node.

    host_links, host_link    the links to all other hosts, a link to one host
    listener, dialer, tcp_connections    the own port, an attempt to connect, the connections below
    heartbeat_channel, probe    is the other side alive
    route_selection, relay_tunnel    direct, or through the head
    process_links    drivers and workers of this node
    violations, compatibility    limits for protocol violations, versions

Layer: above `process` and `security`.
"""
