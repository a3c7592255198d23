"""Large data of a trainable: stored once, and read by all trials."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import zray

from ..on_import import shadows
from .errors import TuneError

__all__ = ["placed", "with_parameters"]


class Parameters:
    """Values of `with_parameters`.

    The program holds the values themselves.  The experiment's folder holds their names only, and trials hold refs.
    """

    def __init__(self, values: Mapping[str, Any], refs: Mapping[str, Any] | None = None) -> None:
        self.names = sorted({*values, *(refs or {})})
        self.values: dict[str, Any] = dict(values)
        self.refs = dict(refs or {})

    def placed(self) -> Parameters:
        """The same parameters as refs of this session."""
        return Parameters({}, {**self.refs, **{name: zray.put(value) for name, value in self.values.items()}})

    def get(self) -> dict[str, Any]:
        """The values; large arrays are read in place.

        Raises:
            TuneError: they were not kept.
        """
        lost = [name for name in self.names if name not in self.values and name not in self.refs]
        if lost:
            raise TuneError(
                f"The values of with_parameters ({', '.join(lost)}) are not kept in the experiment's folder.  Pass the "
                "trainable with its parameters to Tuner.restore(path, trainable)."
            )
        for name, ref in self.refs.items():
            if name not in self.values:
                self.values[name] = zray.get(ref)
        return dict(self.values)

    def __getstate__(self) -> dict[str, Any]:
        return {"names": self.names, "values": {}, "refs": self.refs}


class FunctionWithParameters:
    """A function with some of its arguments given."""

    def __init__(self, function: Callable[..., Any], parameters: Parameters, name: str) -> None:
        functools.update_wrapper(self, function)  # first: an object may have attributes of these names
        self.function, self.parameters, self.__name__ = function, parameters, name
        self.__signature__ = _signature_of_rest(function, parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **{**self.parameters.get(), **kwargs})


def with_parameters(trainable: Any, **values: Any) -> Any:
    """A trainable with arguments that are stored once, however many trials read them.

    Args:
        trainable: a function, as `def train(config, data)`; or a class, whose `setup(config, data)` gets them.
        values: the arguments, by name.  Large arrays are read-only, as those of `zray.get`: other trials read the
            same memory.  Copy one before a write, and before `torch.as_tensor`: `data.copy()`.

    Returns:
        A trainable of the configuration alone.

    Raises:
        TypeError: the function does not have an argument of a name, or the name is that of the configuration.

    Example:
        tune.Tuner(tune.with_parameters(train, data=np.ones((10_000, 1_000))))
    """
    from .registry import trainable_of

    name, found = trainable_of(trainable, is_whole=False)
    parameters = Parameters(values)
    if isinstance(found, type):
        _check_arguments(_setup_of(found), name, parameters.names, ("self", "config"))
        return _class_with_parameters(found, parameters)
    _check_arguments(found, name, parameters.names, ("config",))
    return FunctionWithParameters(found, parameters, name)


def required_of(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return the parameters without which a call fails."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each for each in parameters if each.default is each.empty and each.kind not in several]


def how_to_pass(names: Sequence[str]) -> str:
    """Return a sentence on arguments that nothing passes; empty: there are none."""
    values = ", ".join(f"{name}=..." for name in names)
    return f"  Pass {' and '.join(names)} too: tune.with_parameters(trainable, {values})." if names else ""


def check_setup(cls: Any) -> None:
    """Refuse a class whose `setup` requires more than the configuration.

    Raises:
        TuneError: the class is such a one.
    """
    taken = list(inspect.signature(_setup_of(cls)).parameters.values())
    names = [each.name for each in required_of(taken[2:])]
    if names:
        raise TuneError(
            f"The setup of a class trainable takes (self, config), and {cls.__name__} takes "
            f"({', '.join(each.name for each in taken)}).{how_to_pass(names)}"
        )


def _setup_of(cls: Any) -> Callable[..., Any]:
    from .trainable import Trainable

    is_old = cls.setup is Trainable.setup and hasattr(cls, "_setup")
    found: Callable[..., Any] = cls._setup if is_old else cls.setup
    return found


def _check_arguments(target: Callable[..., Any], place: str, names: list[str], first: tuple[str, ...]) -> None:
    signature = inspect.signature(target)
    takes = f"{place} takes ({', '.join(signature.parameters)})"
    if not any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()):
        for name in names:
            if name not in signature.parameters:
                raise TypeError(f"with_parameters passes {name!r}, and {takes}.  Add the argument {name!r}.")
    try:
        signature.bind_partial(*first, **dict.fromkeys(names))
    except TypeError as error:
        raise TypeError(
            f"with_parameters passes values by name behind ({', '.join(first)}), and {takes}: {error}."
        ) from None


def _signature_of_rest(function: Callable[..., Any], parameters: Parameters) -> inspect.Signature:
    """Return the signature without the arguments that are given."""
    signature = inspect.signature(function)
    rest = [each for name, each in signature.parameters.items() if name not in parameters.names]
    return signature.replace(parameters=rest)


def _class_with_parameters(base: Any, parameters: Parameters) -> type:
    def setup(self: Any, config: dict[str, Any], **more: Any) -> None:
        _setup_of(base)(self, config, **{**parameters.get(), **more})

    setup.__signature__ = _signature_of_rest(_setup_of(base), parameters)  # type: ignore[attr-defined]
    members = {
        "setup": setup,
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__qualname__": base.__qualname__,
    }
    made = type(base.__name__, (base,), members)
    made._with_parameters = (base, parameters)  # type: ignore[attr-defined]
    return made


def placed(trainable: Any) -> Any:
    """Return the trainable with its parameters stored in the current session."""
    if isinstance(trainable, FunctionWithParameters):
        function, parameters = placed(trainable.function), trainable.parameters.placed()
        return FunctionWithParameters(function, parameters, trainable.__name__)
    if isinstance(trainable, functools.partial) and isinstance(trainable.func, FunctionWithParameters):
        return functools.partial(placed(trainable.func), *trainable.args, **trainable.keywords)
    if isinstance(trainable, type) and hasattr(trainable, "_with_parameters"):
        base, parameters = trainable._with_parameters
        return _class_with_parameters(placed(base), parameters.placed())
    return trainable


shadows.name_absent(__name__)
