"""Experiments in a YAML or JSON file, in the format of 2018.

    my_experiment:
        run: program.py:train
        stop: {training_iteration: 100}
        resources: {cpu: 2}
        repeat: 3
        config:
            lr: {grid_search: [0.1, 0.01]}
            momentum: {eval: "random.uniform(0.8, 0.99)"}
            width: "lambda spec: 2 ** spec.config.depth"

`eval` and lambdas run code.  The command line reads a file that its user names, and nothing else reads one.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from .errors import TuneError
from .evaluated import Evaluated
from .registry import trainable_of
from .spaces import sample_from

__all__ = ["check_metric", "read_spec"]

FORMS = (
    "Write `program.py:function` for a function or class of a program beside the file, `module:function` for one of a "
    "module, or a registered name."
)


def read_spec(path: str) -> dict[str, dict[str, Any]]:
    """The experiments of a file.

    Raises:
        TuneError: the file is no dict of experiments, or something in it cannot be found or evaluated.
        ImportError: PyYAML is not installed.
    """
    with open(path) as file:
        text = file.read()
    try:
        found = json.loads(text) if path.endswith(".json") else _yaml(text)
    except ImportError:
        raise
    except Exception as error:
        raise TuneError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, Mapping) or not all(isinstance(spec, Mapping) for spec in found.values()):
        raise TuneError(f"{path} is no dict of experiments: it begins with a name, and `run:` below it.")
    experiments = {}
    for name, spec in found.items():
        if "run" not in spec:
            raise TuneError(f"Experiment {name!r} in {path} has no `run`: name a trainable.")
        own = dict(spec)
        own["run"] = trainable_at(str(spec["run"]), os.path.dirname(os.path.abspath(path)))
        if "config" in own:
            own["config"] = _evaluated(own["config"] or {}, f"{name}/config")
        experiments[str(name)] = own
    return experiments


def check_metric(experiments: Mapping[str, Mapping[str, Any]], scheduler: Any, path: str) -> None:
    """Check before the first trial whether schedulers and searchers have the required metric and mode.

    Args:
        experiments: of the file.
        scheduler: the scheduler of those that name none.
        path: of the file, for the error.

    Raises:
        TuneError: one is missing; says what to write into the file.
        ValueError: no scheduler has the name.
    """
    from .schedulers import create_scheduler

    for name, spec in experiments.items():
        named, search = spec.get("scheduler"), spec.get("search_alg")
        chosen = create_scheduler(named) if isinstance(named, str) else scheduler
        metric, mode = spec.get("metric") or chosen.metric, spec.get("mode") or chosen.mode
        askers = [f"`scheduler: {named}`" if named else type(chosen).__name__] if chosen.needs_metric else []
        if str(search).lower() in ("optuna", "hyperopt"):
            askers.append(f"`search_alg: {search}`")
        if metric and not mode and (askers or isinstance(metric, str)):
            wrong, place = f"The metric {metric!r} has no mode.  Write", "metric"
        elif askers and not mode:
            wrong, place = f"{askers[0]} needs a metric and a mode.  Write `metric: loss` and", "run"
        else:  # a mode alone is that of the bare number that trials report
            continue
        raise TuneError(f"Experiment {name!r} in {path}: {wrong} `mode: min` (or `max`) beside `{place}:`.")


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ImportError(
            "YAML files need PyYAML: install zray[tune], or `pip install pyyaml`; a file that ends in .json does not."
        ) from None
    return yaml.safe_load(text)


def _evaluated(value: Any, path: str) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"eval"} and isinstance(value["eval"], str):
            return sample_from(Evaluated(value["eval"], path))
        return {key: _evaluated(item, f"{path}/{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_evaluated(item, path) for item in value]
    if isinstance(value, str) and value.lstrip().startswith("lambda ") and ":" in value:
        return sample_from(Evaluated(value, path))
    return value


def trainable_at(name: str, folder: str) -> Any:
    """Return the trainable named by `run`: a registered name, `module:attribute`, or `program.py:attribute`.

    Args:
        folder: of the file, where modules and programs are looked for first.

    Raises:
        TuneError: there is no such thing.
    """
    place, separator, attribute = name.rpartition(":")
    if not separator:
        try:
            return trainable_of(name)[0]
        except TuneError as error:
            said = str(error).partition("  Call register_trainable")[0]
            raise TuneError(f"`run: {name}` names nothing that can be run: {said}  {FORMS}") from None
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        if place.endswith(".py"):
            program = os.path.join(folder, os.path.expanduser(place))
            module_name = os.path.splitext(os.path.basename(program))[0]
            spec = importlib.util.spec_from_file_location(module_name, program)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
        return getattr(module, attribute)
    except (ImportError, FileNotFoundError, AttributeError) as error:
        raise TuneError(f"`run: {name}` names nothing that can be run: {error}.  {FORMS}") from error
