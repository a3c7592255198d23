"""Actors, under the name by which programs written for Ray find them."""

from .api.actor_class import ActorClass, exit_actor, method
from .api.actor_handle import ActorHandle, ActorMethod, ActorProxy
from .exceptions import ActorClassInheritanceException

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "ActorProxy",
    "exit_actor",
    "method",
]
