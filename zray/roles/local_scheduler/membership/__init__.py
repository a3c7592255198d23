"""Membership of the node: lease, suspension after its loss, drain."""
