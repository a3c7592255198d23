"""Wrappers of environments of other libraries."""

from .... import shadows

shadows.name_absent(__name__)
