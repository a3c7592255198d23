"""Names of `ray.tune.suggest.suggestion`, where searchers were until 2022."""

from .concurrency_limiter import ConcurrencyLimiter
from .repeater import Repeater
from .searcher import Searcher

__all__ = ["ConcurrencyLimiter", "Repeater", "Searcher"]
