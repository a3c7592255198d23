"""Modules of Ray with their content in a module of another name: a finder with a table.

`zray.tune.suggest.optuna` is the module `zray.tune.search.optuna` itself, so that classes are the same under all names.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MODULES", "install"]

# Names behind `zray.`, and where they are found.
MODULES = {
    "air.checkpoint": "tune.checkpoint",
    "air.config": "tune.config",
    "air.constants": "tune.result",
    "air.result": "tune.results",
    "train.context": "air.session",
    "train.session": "air.session",
    **dict.fromkeys(
        (
            "train.backend",
            "train.base_trainer",
            "train.batch_predictor",
            "train.callbacks",
            "train.collective",
            "train.data_parallel_trainer",
            "train.error",
            "train.gbdt_trainer",
            "train.horovod",
            "train.huggingface",
            "train.huggingface.transformers",
            "train.jax",
            "train.lightgbm",
            "train.lightning",
            "train.mosaic",
            "train.predictor",
            "train.rl",
            "train.sklearn",
            "train.tensorflow",
            "train.tensorflow.keras",
            "train.torch",
            "train.torch.xla",
            "train.trainer",
            "train.xgboost",
        ),
        "train.trainers",
    ),
    "tune.analysis": "tune.results",
    "tune.analysis.experiment_analysis": "tune.results",
    "tune.async_hyperband": "tune.schedulers.asha",  # this and the other schedulers below tune: until April 2018
    "tune.context": "tune.session",
    "tune.error": "tune.errors",
    "tune.execution": "tune.resources",
    "tune.execution.placement_groups": "tune.resources",
    "tune.experiment": "tune.experiments",
    "tune.experiment.experiment": "tune.experiments",
    "tune.experiment.trial": "tune.trial",
    "tune.function_runner": "tune.functions",
    "tune.hyperband": "tune.schedulers.hyperband",
    **dict.fromkeys(
        (
            "tune.integration.docker",
            "tune.integration.horovod",
            "tune.integration.keras",
            "tune.integration.kubernetes",
            "tune.integration.lightgbm",
            "tune.integration.mlflow",
            "tune.integration.mxnet",
            "tune.integration.pytorch_lightning",
            "tune.integration.ray_train",
            "tune.integration.tensorflow",
            "tune.integration.torch",
            "tune.integration.wandb",
            "tune.integration.xgboost",
        ),
        "tune.integration",
    ),
    **{f"tune.logger.{name}": "tune.logger" for name in ("csv", "json", "logger", "noop", "tensorboardx", "unified")},
    "tune.median_stopping_rule": "tune.schedulers.median_stopping",
    "tune.pbt": "tune.schedulers.pbt",
    "tune.result_grid": "tune.results",
    "tune.sample": "tune.spaces",
    "tune.schedulers.async_hyperband": "tune.schedulers.asha",
    "tune.schedulers.median_stopping_rule": "tune.schedulers.median_stopping",
    "tune.search.hyperopt.hyperopt_search": "tune.search.hyperopt",
    "tune.search.optuna.optuna_search": "tune.search.optuna",
    "tune.search.sample": "tune.spaces",
    "tune.search.search_algorithm": "tune.search.searcher",
    "tune.search.search_generator": "tune.search.searcher",
    "tune.search.variant_generator": "tune.variants",
    "tune.stopper": "tune.stoppers",
    **{
        f"tune.stopper.{name}": "tune.stoppers"
        for name in ("experiment_plateau", "function_stopper", "maximum_iteration", "noop", "stopper", "timeout")
    },
    "tune.stopper.trial_plateau": "tune.stoppers",
    "tune.suggest.search": "tune.search.searcher",
    "tune.suggest.suggestion": "tune.search.suggestion",
    "tune.syncer": "tune.config",
    "tune.trainable.function_trainable": "tune.functions",
    "tune.trainable.trainable": "tune.trainable",
    "tune.trainable.util": "tune.parameters",
    "tune.trial_scheduler": "tune.schedulers.trial_scheduler",
    "tune.tune": "tune.experiments",
    "tune.tune_config": "tune.config",
    "tune.utils.placement_groups": "tune.resources",
    "tune.utils.util": "tune.utils",
    "tune.variant_generator": "tune.variants",
}
# Whole packages under another name.
PACKAGES = {"tune.suggest": "tune.search"}


def target_of(name: str) -> str | None:
    """Return the full name of the module behind an alias; None: no alias."""
    if not name.startswith("zray."):
        return None
    own = name[len("zray.") :]
    if own in MODULES:
        return f"zray.{MODULES[own]}"
    for package, place in PACKAGES.items():
        if own == package or own.startswith(f"{package}."):
            return f"zray.{place}{own[len(package) :]}"
    return None


class AliasFinder:
    """Finder ahead of the others in sys.meta_path: those would load a file of a renamed package for a second time."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The specification of an alias; None: another finder may know the name."""
        place = target_of(name)
        return ModuleSpec(name, AliasLoader(place), is_package=True) if place is not None else None  # type: ignore[arg-type]


class AliasLoader:
    """Loader that puts a module in the place of another name."""

    def __init__(self, place: str) -> None:
        self.place = place

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None: the usual empty module, which `exec_module` replaces."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Import the module of the other name.  The import system takes what it finds in sys.modules afterwards."""
        assert module.__spec__ is not None
        found = importlib.import_module(self.place)
        if not hasattr(found, "__path__"):
            found.__path__ = []  # it may have aliases below it, which Python asks finders for in packages alone
        sys.modules[module.__spec__.name] = found


def install() -> None:
    """Let imports find the aliases.  A second call does nothing."""
    if AliasFinder not in sys.meta_path:
        sys.meta_path.insert(0, AliasFinder)  # type: ignore[arg-type]
