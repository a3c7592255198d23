"""Large data of a trainable: stored once, and read by all trials."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
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

    def __init__(self, function: Callable[..., Any], parameters: Parameters) -> None:
        self.function, self.parameters = function, parameters
        functools.update_wrapper(self, function)
        signature = inspect.signature(function)
        rest = [each for name, each in signature.parameters.items() if name not in parameters.names]
        self.__signature__ = signature.replace(parameters=rest)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs, **self.parameters.get())


def with_parameters(trainable: Any, **values: Any) -> Any:
    """A trainable with arguments that are stored once, however many trials read them.

    Args:
        trainable: a function, as `def train(config, data)`; or a class, whose `setup(config, data)` gets them.
        values: the arguments, by name.  Large arrays are read-only, as those of `zray.get`: other trials read the
            same memory.  Copy one before a write, and before `torch.as_tensor`: `data.copy()`.

    Returns:
        A trainable of the configuration alone.

    Raises:
        TypeError: the function does not have an argument of a name.

    Example:
        tune.Tuner(tune.with_parameters(train, data=np.ones((10_000, 1_000))))
    """
    from .registry import trainable_of

    _, found = trainable_of(trainable)
    parameters = Parameters(values)
    target = _setup_of(found) if isinstance(found, type) else found
    _check_arguments(target, getattr(found, "__name__", "the trainable"), parameters.names)
    if isinstance(found, type):
        return _class_with_parameters(found, parameters)
    made = FunctionWithParameters(found, parameters)
    return made


def _setup_of(cls: type) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(cls, "_setup", None) or cls.setup  # type: ignore[attr-defined]
    return found


def _check_arguments(target: Callable[..., Any], place: str, names: list[str]) -> None:
    taken = inspect.signature(target).parameters
    if any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return
    for name in names:
        if name not in taken:
            raise TypeError(
                f"with_parameters passes {name!r}, and {place} takes ({', '.join(taken)}).  Add the argument {name!r}."
            )


def _class_with_parameters(base: Any, parameters: Parameters) -> type:
    def setup(self: Any, config: dict[str, Any]) -> None:
        _setup_of(base)(self, config, **parameters.get())

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
        made = FunctionWithParameters(trainable.function, trainable.parameters.placed())
    elif isinstance(trainable, functools.partial) and isinstance(trainable.func, FunctionWithParameters):
        return functools.partial(placed(trainable.func), *trainable.args, **trainable.keywords)
    elif isinstance(trainable, type) and hasattr(trainable, "_with_parameters"):
        base, parameters = trainable._with_parameters
        return _class_with_parameters(base, parameters.placed())
    else:
        return trainable
    return made


shadows.name_absent(__name__)
