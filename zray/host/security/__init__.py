"""Keys of a cluster, who passes the handshake, and how a token comes to a process.

    keyring    key pairs, their files, the ring of admitted keys, join tokens
    zap        the check of each connection's key
    token_input    a token from the environment, a file or standard input

Layer: the lowest; above `zmq_calls` only.
"""
