"""Numbers for masks of actions on torch."""

from ...on_import import shadows

__all__ = ["FLOAT_MAX", "FLOAT_MIN"]

# Large, and yet a number: the exponent of their difference is 0, and not NaN as with infinity.
FLOAT_MIN = -3.4e38
FLOAT_MAX = 3.4e38

shadows.name_absent(__name__)
