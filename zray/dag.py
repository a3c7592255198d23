"""Lazy graphs, under the name by which programs written for Ray find them."""

from .api.dag import (
    ClassMethodNode,
    ClassNode,
    CompiledDAG,
    DAGInputData,
    DAGNode,
    FunctionNode,
    InputAttributeNode,
    InputNode,
    MultiOutputNode,
)
from .on_import import shadows

__all__ = [
    "ClassMethodNode",
    "ClassNode",
    "CompiledDAG",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
]

shadows.name_absent(__name__)
