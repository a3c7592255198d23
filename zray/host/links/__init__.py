"""Links: to the other hosts of a cluster, and to the processes of a node.

    host_links, host_link    all other hosts, one of them
    listener, dialer, tcp_connections    our port, one attempt to connect, the connections below
    heartbeat_channel, probe    is the other side alive
    route_selection, relay_tunnel    direct, or through the head
    process_links    drivers and workers of this node
    violations, compatibility    what costs a peer its connection, versions

Layer: above `process` and `security`.
"""
