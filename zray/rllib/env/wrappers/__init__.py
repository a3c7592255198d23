"""Wrappers of environments of other libraries."""
