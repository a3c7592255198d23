"""Wrappers of environments of other libraries."""

from ....on_import import shadows

shadows.name_absent(__name__)
