"""Actors that live on the node: creation, calls, restarts, failover, moves to other nodes and ends."""
