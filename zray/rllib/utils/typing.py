"""Names of types that programs annotate with."""

from typing import Any

from ..doors import names_of

__all__ = ["AgentID", "EnvID", "ModelConfigDict", "MultiAgentDict", "PolicyID", "TensorType"]

__getattr__ = names_of(__name__)

AgentID = Any
EnvID = int | str
ModelConfigDict = dict[str, Any]
MultiAgentDict = dict[Any, Any]
PolicyID = str
TensorType = Any
