"""Trainables, environments and models by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..on_import import shadows
from .errors import TuneError
from .unknown import nearest

__all__ = ["get_trainable_cls", "register_env", "register_trainable"]

_trainables: dict[str, Any] = {}
_environments: dict[str, Callable[..., Any]] = {}
_models: dict[str, type] = {}  # of ModelCatalog.register_custom_model
# In the process of a trial: the ref of the program's environments and models, until they are read.
_unread_names: Any = None


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Give a function or a class a name, by which experiments run it: `tune.run("maze", ...)`.

    Args:
        name: the name; an earlier trainable of this name is replaced.
        trainable: a function of the configuration, or a subclass of Trainable.
        warn: accepted for Ray's programs.

    Raises:
        TypeError: the trainable is neither, or the name is no text.
    """
    del warn
    if not isinstance(name, str):
        raise TypeError(f"A trainable's name is text, not {type(name).__name__}.")
    if not callable(trainable):
        raise TypeError(f"A trainable is a function or a class, and {name!r} is {type(trainable).__name__}.")
    if isinstance(trainable, type):
        try:
            _checked(trainable)
        except TuneError as error:
            raise TypeError(f"{name!r} is registered as no trainable: {error}") from None
    _trainables[name] = trainable


def register_env(name: str, env_creator: Callable[..., Any]) -> None:
    """Give an environment a name: `register_env("maze", lambda env_config: Maze(env_config))`.

    Args:
        name: the name, for `config.environment(name)`; an earlier environment of this name is replaced.
        env_creator: a function of the env_config that returns an environment.

    Raises:
        TypeError: the creator is not callable, or the name is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"An environment's name is text, not {type(name).__name__}.")
    if not callable(env_creator):
        raise TypeError(
            f"An environment is made by a function of its config, and {name!r} is {type(env_creator).__name__}."
        )
    _environments[name] = env_creator


def environment_creator(name: str) -> Callable[..., Any] | None:
    """The creator of a registered environment; None: no such name."""
    if name not in _environments:
        _read_names()
    return _environments.get(name)


def register_model(name: str, model: type) -> None:
    """Give a model of `zray.rllib` a name."""
    _models[name] = model


def model_of(name: str) -> type | None:
    """The model of a name; None: no such name."""
    if name not in _models:
        _read_names()
    return _models.get(name)


def names_of_models() -> list[str]:
    """The names of all models."""
    return list(_models)


def names_for_processes() -> dict[str, dict[str, Any]] | None:
    """Return the environments and models required by the processes of trials; None: none."""
    if not _environments and not _models:
        return None
    return {"environments": dict(_environments), "models": dict(_models)}


def learn_names(ref: Any) -> None:
    """Keep the ref of the program's registered environments and models, in the process of a trial.

    The names are read when one of them is looked for: models may import libraries that a trial does without.
    """
    global _unread_names
    _unread_names = ref


def _read_names() -> None:
    global _unread_names
    if _unread_names is not None:
        import zray

        ref, _unread_names = _unread_names, None  # first: a model may look for a name while it is read
        names = zray.get(ref)
        for registered, found in ((_environments, names["environments"]), (_models, names["models"])):
            for name, value in found.items():
                registered.setdefault(name, value)


def trainable_of(value: Any, *, is_whole: bool = True) -> tuple[str, Any]:
    """Return the name, and the function or class, that a program asks to run.

    Args:
        value: the function, class or name.
        is_whole: False: `with_parameters` may pass arguments later.

    Raises:
        TuneError: a name that is not known, or something that cannot be run.
    """
    if isinstance(value, str):
        if value not in _trainables:
            found = _algorithm(value)
            if found is not None:
                return value, found
            algorithms = _algorithms()
            known = ", ".join(sorted(_trainables)) or "none"
            built = f"  Algorithms of RLlib: {', '.join(algorithms)}." if algorithms else ""
            raise TuneError(
                f"No trainable is registered as {value!r}.{nearest(value, [*algorithms, *_trainables])}  Registered: "
                f"{known}.{built}  Call register_trainable first."
            )
        return value, _checked(_trainables[value], is_whole=is_whole)
    target = getattr(value, "func", value)  # functools.partial
    if not callable(value):
        raise TuneError(f"A trainable is a function, a class or a registered name, not {type(value).__name__}.")
    _checked(value, is_whole=is_whole)
    name = getattr(value, "__name__", None) or getattr(target, "__name__", None) or type(value).__name__
    return ("lambda" if name == "<lambda>" else str(name)), value


def _checked(trainable: Any, *, is_whole: bool = False) -> Any:
    """Return the function or class.  Raises TuneError if it evidently does not run."""
    from .functions import call_form
    from .parameters import check_setup
    from .trainable import Trainable

    if isinstance(trainable, type):
        if not issubclass(trainable, Trainable):
            raise TuneError(
                f"The class {trainable.__name__} is no trainable: derive it from tune.Trainable, and define setup and "
                "step."
            )
        if is_whole:
            check_setup(trainable)
        return trainable
    function = getattr(trainable, "func", trainable)  # functools.partial
    for each in (function, getattr(function, "__call__", None)):  # noqa: B004
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            name = getattr(function, "__name__", type(function).__name__)
            raise TuneError(
                f"A trainable function is no async function, as {name} is: give a function that calls "
                f"asyncio.run({name}(config))."
            )
    try:
        if is_whole:
            call_form(trainable)
    except TypeError as error:
        raise TuneError(str(error)) from None
    return trainable


def check_saving(trainable: Any, frequency: Any, at_end: Any) -> None:
    """Refuse options of class trainables for a function, which saves by itself, and for a class that cannot save.

    Raises:
        ValueError: an option is given, and the trainable is such a one.
    """
    if isinstance(trainable, str):
        trainable = _trainables.get(trainable)
    if trainable is None or not callable(trainable):
        return
    why = "is for class trainables: a function saves when it reports, as tune.report(metrics, checkpoint=...)"
    if isinstance(trainable, type):
        from .trainable import Trainable

        if getattr(trainable, "save_checkpoint", None) is not Trainable.save_checkpoint or hasattr(trainable, "_save"):
            return
        name = trainable.__name__
        why = f"needs a method save_checkpoint, which {name} does not have: define it, and load_checkpoint"
    for name, value in (("checkpoint_at_end", at_end), ("checkpoint_frequency (checkpoint_freq)", frequency)):
        if value:
            raise ValueError(f"{name} {why}.")


def get_trainable_cls(trainable_name: str) -> Any:
    """Return the class or function registered by the name.

    Raises:
        TuneError: none is.
    """
    return trainable_of(trainable_name)[1]


def _rllib() -> Any:
    """The registry of algorithms; None: zray.rllib cannot be imported."""
    from importlib import import_module

    try:
        return import_module("zray.rllib.algorithms.registry")
    except ImportError:
        return None


def _algorithms() -> list[str]:
    """The names of the algorithms of zray.rllib."""
    registry = _rllib()
    return [] if registry is None else list(registry.modules())


def _algorithm(name: str) -> Any:
    """An algorithm of zray.rllib, by its name."""
    registry = _rllib()
    if registry is None:
        return None
    try:
        return registry.get_algorithm_class(name)
    except ImportError:
        raise  # torch or gymnasium is missing: the error names the extra
    except NotImplementedError as error:
        raise TuneError(str(error)) from None
    except Exception:
        return None


shadows.name_absent(__name__)
