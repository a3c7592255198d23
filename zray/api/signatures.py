"""Signatures of functions and methods: a wrong call is refused where it is made, not where it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

# How many positional arguments alone will do, where nothing is known.
ANY_COUNT = (0, 1 << 30)
# Methods of Python and of C.
TAKES_SELF = (FunctionType, MethodDescriptorType, WrapperDescriptorType)
# Descriptors whose signature is right only once they are bound to an instance.
BINDS: tuple[Any, ...] = (functools.partialmethod, type(functools.lru_cache(lambda: None)))


def signature_of(
    function: Callable[..., Any], *, skip_self: bool = False
) -> tuple[inspect.Signature | None, tuple[int, int]]:
    """The signature of a function, and how many positional arguments alone suffice (from, to).

    The signature is None where Python knows none: nothing can be checked.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None, (0, 0)
    if skip_self:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return signature, counts_of(signature)


def counts_of(signature: inspect.Signature) -> tuple[int, int]:
    """Count how many positional arguments alone suffice (from, to)."""
    required = maximum = 0
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            maximum += 1
            required += parameter.default is parameter.empty
        elif parameter.kind is parameter.VAR_POSITIONAL:
            maximum = 1 << 30
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            return 1, 0  # never by position alone
    return required, maximum


def check_arguments(signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call that the signature does not allow.

    Raises:
        TypeError: the text names the function and the argument.
    """
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}.remote(): {error}") from None


def implementations_of(cls: type, name: str) -> list[Callable[..., Any]]:
    """The functions that a method with implementations by type calls, bound to no instance; of any other method: [].

    The class's own comes first.
    """
    found = inspect.getattr_static(cls, name, None)
    if not isinstance(found, functools.singledispatchmethod):
        return []
    implementations = dict.fromkeys((found.func, *found.dispatcher.registry.values()))
    # Any object will do: nothing is called.
    return [item.__get__(object(), cls) if hasattr(item, "__get__") else item for item in implementations]


def _parameters_of_all(implementations: list[Callable[..., Any]]) -> tuple[tuple[str, int, bool], ...] | None:
    """As `parameters_of`, where all agree.  The first one's type decides: it is given by position, so not by name."""
    found = []
    for function in implementations:
        signature, _ = signature_of(function)
        if signature is None or not signature.parameters:
            return None
        described = [
            (item.name, int(item.kind), item.default is not item.empty) for item in signature.parameters.values()
        ]
        if described[0][1] != inspect.Parameter.POSITIONAL_OR_KEYWORD:
            return None
        found.append(((described[0][0], int(inspect.Parameter.POSITIONAL_ONLY), False), *described[1:]))
    return found[0] if all(other[1:] == found[0][1:] for other in found) else None


def parameters_of(cls: type, name: str, function: Any) -> tuple[tuple[str, int, bool], ...] | None:
    """(name, kind, whether it has a default) of each parameter that a caller gives; None: nothing can be checked.

    Plain data, so that a handle can be pickled whatever the defaults are.
    """
    implementations = implementations_of(cls, name)
    if implementations:
        return _parameters_of_all(implementations)
    found = inspect.getattr_static(cls, name, None)
    if isinstance(found, BINDS):
        function = found.__get__(object(), cls)  # any object will do: nothing is called
    signature, _ = signature_of(function, skip_self=isinstance(found, TAKES_SELF))
    if signature is None:
        return None
    return tuple((item.name, int(item.kind), item.default is not item.empty) for item in signature.parameters.values())


class _Default:
    """Default of a parameter that only the actor knows."""

    def __repr__(self) -> str:
        return "..."


_DEFAULT = _Default()


@functools.lru_cache(maxsize=1024)
def signature_from(
    parameters: tuple[tuple[str, int, bool], ...] | None,
) -> tuple[inspect.Signature | None, tuple[int, int]]:
    """The signature of described parameters, and how many positional arguments alone suffice."""
    if parameters is None:
        return None, ANY_COUNT
    kinds = {int(kind): kind for kind in inspect._ParameterKind}
    empty = inspect.Parameter.empty
    signature = inspect.Signature(
        [inspect.Parameter(name, kinds[kind], default=_DEFAULT if has else empty) for name, kind, has in parameters]
    )
    return signature, counts_of(signature)
