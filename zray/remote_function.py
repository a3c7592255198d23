"""Remote functions, under the name by which programs written for Ray find them."""

from .api.remote_function import RemoteFunction

__all__ = ["RemoteFunction"]
