"""Signatures and docstrings of remote functions and actors, as help(), inspect.signature() and notebooks ask for them.

`f.remote` stays a plain method, since it is called a million times a second and inspected now and then.  The signature
is therefore looked up when somebody asks.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from ..object_ref import ObjectRef
from .signatures import TAKES_SELF, implementations_of, signature_from, signature_of

ANYTHING = [
    inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
    inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
]


class SignatureOfCall(inspect.Signature):
    """`__signature__` of a method `remote`: for a bound method, the signature that its object knows.

    inspect.signature() reads the attribute from the function, which all objects share, and makes a signature for the
    bound method of that with replace().  The bound method itself is a variable of the caller's caller.  Where an
    interpreter does this in another way, the signature is (*args, **kwargs).
    """

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        asking = sys._getframe(1).f_back
        method = asking.f_locals.get("obj") if asking is not None else None
        if isinstance(method, MethodType):
            known = getattr(type(method.__self__), "_signature_of_call", None)
            if known is not None:
                found: inspect.Signature = known(method.__self__)
                return found
        return inspect.Signature(**{"parameters": ANYTHING, **changes})


def shows_signature(method: Callable[..., Any]) -> None:
    """Have inspect.signature() of bound methods ask the object's `_signature_of_call`."""
    method.__signature__ = SignatureOfCall(ANYTHING)  # type: ignore[attr-defined]


class OfInstance:
    """An attribute that each instance computes when asked, and that the class itself has another value of."""

    def __init__(self, compute: Callable[[Any], Any], of_class: Any) -> None:
        self._compute = compute
        self._of_class = of_class

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._of_class if instance is None else self._compute(instance)


def returning(signature: inspect.Signature, count: int) -> inspect.Signature:
    """The same parameters; the result is a ref, a list of refs, a generator of refs (-1), or nothing."""
    result: Any = {1: ObjectRef, 0: None, -1: Iterator[ObjectRef]}.get(count, list[ObjectRef])
    return signature.replace(return_annotation=result)


def signature_of_function(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function as it is written; (*args, **kwargs) where Python knows none."""
    return signature_of(function)[0] or inspect.Signature(ANYTHING)


def signature_of_constructor(cls: type) -> inspect.Signature:
    """The parameters that `Class(...)` takes; (*args, **kwargs) where Python knows none."""
    constructor: Any = cls.__init__  # type: ignore[misc]
    if constructor is object.__init__:
        return inspect.Signature()
    return signature_of(constructor, skip_self=True)[0] or inspect.Signature(ANYTHING)


def signature_of_method(cls: type | None, name: str, parameters: Any) -> inspect.Signature:
    """The signature of an actor's method; (*args, **kwargs) where nothing is known.

    Args:
        cls: the actor's class, where this program has created the actor; else None.
        parameters: what the handle knows by itself, see signatures.parameters_of.
    """
    function = getattr(cls, name, None)
    if function is None or implementations_of(cls, name):  # type: ignore[arg-type]
        signature = signature_from(parameters)[0]
    else:
        takes_self = isinstance(inspect.getattr_static(cls, name, None), TAKES_SELF)
        signature = signature_of(function, skip_self=takes_self)[0]
    return signature or inspect.Signature(ANYTHING)
