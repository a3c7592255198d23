"""Facts on the caller, under the name by which programs written for Ray find them."""

from .api.runtime_context import RuntimeContext, get_runtime_context

__all__ = ["RuntimeContext", "get_runtime_context"]
