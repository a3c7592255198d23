"""The session of this process, under the names in Ray's private modules."""

import logging

from ..api import get, init, is_initialized, put, shutdown, wait
from ..session_facts import Context as BaseContext

__all__ = ["BaseContext", "RayContext", "get", "init", "is_initialized", "logger", "put", "shutdown", "wait"]

RayContext = BaseContext
logger = logging.getLogger("zray")
