"""Names of Ray Tune, Train and AIR that programs import, since 2017."""

import importlib
import subprocess
import sys

import pytest

import zray
from zray import tune
from zray.ray_names import absent

STOPPERS = "CombinedStopper ExperimentPlateauStopper FunctionStopper MaximumIterationStopper NoopStopper Stopper"
STOPPERS += " TimeoutStopper TrialPlateauStopper"
SPACES = "choice grid_search lograndint loguniform qlograndint qloguniform qrandint qrandn quniform randint randn"
SPACES += " sample_from uniform"
CONFIGS = "CheckpointConfig FailureConfig RunConfig ScalingConfig SyncConfig"

# Module: the names that programs import from it.
NAMES = {
    "tune": f"{SPACES} {STOPPERS} {CONFIGS} run Tuner TuneConfig ResumeConfig Experiment report Checkpoint "
    "get_checkpoint with_parameters with_resources Trainable register_trainable register_env run_experiments "
    "ResultGrid Result Callback TuneError TrainingResult function checkpoint_dir track get_context get_trial_id "
    "get_trial_name get_trial_dir get_trial_resources is_session_enabled PlacementGroupFactory ExperimentAnalysis "
    "Analysis ExportFormat create_scheduler create_searcher schedulers search suggest stopper result utils registry",
    "tune.analysis": "ExperimentAnalysis",
    "tune.analysis.experiment_analysis": "ExperimentAnalysis",
    "tune.async_hyperband": "AsyncHyperBandScheduler",
    "tune.callback": "Callback",
    "tune.error": "TuneError",
    "tune.execution.placement_groups": "PlacementGroupFactory",
    "tune.experiment": "Experiment Trial",
    "tune.experiment.experiment": "Experiment",
    "tune.experiment.trial": "Trial",
    "tune.function_runner": "StatusReporter",
    "tune.hyperband": "HyperBandScheduler",
    "tune.integration.keras": "TuneReportCallback TuneReportCheckpointCallback",
    "tune.integration.pytorch_lightning": "TuneReportCallback TuneReportCheckpointCallback",
    "tune.integration.wandb": "WandbLoggerCallback wandb_mixin",
    "tune.median_stopping_rule": "MedianStoppingRule",
    "tune.pbt": "PopulationBasedTraining",
    "tune.registry": "register_env register_trainable get_trainable_cls",
    "tune.resources": "Resources json_to_resources resources_to_json",
    "tune.result": "AUTO_RESULT_KEYS DEFAULT_METRIC TRAINING_ITERATION TIME_TOTAL_S TIME_THIS_ITER_S TIMESTEPS_TOTAL "
    "EPISODES_TOTAL DONE TrainingResult EXPR_RESULT_FILE DEFAULT_RESULTS_DIR",
    "tune.result_grid": "ResultGrid",
    "tune.sample": "Categorical Float Integer Function Domain",
    "tune.schedulers": "TrialScheduler FIFOScheduler HyperBandScheduler AsyncHyperBandScheduler ASHAScheduler "
    "MedianStoppingRule PopulationBasedTraining create_scheduler",
    "tune.schedulers.async_hyperband": "AsyncHyperBandScheduler ASHAScheduler",
    "tune.schedulers.hyperband": "HyperBandScheduler",
    "tune.schedulers.median_stopping_rule": "MedianStoppingRule",
    "tune.schedulers.pbt": "PopulationBasedTraining explore",
    "tune.schedulers.trial_scheduler": "TrialScheduler FIFOScheduler",
    "tune.search": "BasicVariantGenerator ConcurrencyLimiter Repeater Searcher grid_search create_searcher",
    "tune.search.basic_variant": "BasicVariantGenerator",
    "tune.search.concurrency_limiter": "ConcurrencyLimiter",
    "tune.search.hyperopt": "HyperOptSearch",
    "tune.search.hyperopt.hyperopt_search": "HyperOptSearch",
    "tune.search.optuna": "OptunaSearch",
    "tune.search.optuna.optuna_search": "OptunaSearch",
    "tune.search.repeater": "Repeater",
    "tune.search.sample": "Categorical Float Integer Function",
    "tune.search.search_algorithm": "SearchAlgorithm",
    "tune.search.searcher": "Searcher",
    "tune.search.variant_generator": "generate_variants RecursiveDependencyError grid_search",
    "tune.session": "report get_trial_id get_trial_name get_trial_dir",
    "tune.stopper": STOPPERS,
    "tune.suggest": "BasicVariantGenerator ConcurrencyLimiter Repeater Searcher",
    "tune.suggest.basic_variant": "BasicVariantGenerator",
    "tune.suggest.hyperopt": "HyperOptSearch",
    "tune.suggest.optuna": "OptunaSearch",
    "tune.suggest.suggestion": "Searcher ConcurrencyLimiter",
    "tune.suggest.variant_generator": "generate_variants",
    "tune.syncer": "SyncConfig",
    "tune.track": "log init shutdown trial_dir",
    "tune.trainable": "Trainable",
    "tune.trainable.trainable": "Trainable",
    "tune.trainable.util": "with_parameters",
    "tune.trial": "Trial",
    "tune.tune": "run",
    "tune.tune_config": "TuneConfig",
    "tune.tuner": "Tuner",
    "tune.utils": "wait_for_gpu flatten_dict unflatten_dict merge_dicts deep_update validate_save_restore",
    "tune.utils.placement_groups": "PlacementGroupFactory",
    "tune.utils.util": "wait_for_gpu",
    "train": f"{CONFIGS} report get_context get_checkpoint Checkpoint Result",
    "train.torch": "TorchTrainer prepare_model prepare_data_loader get_device",
    "train.lightning": "LightningTrainer",
    "train.xgboost": "XGBoostTrainer",
    "train.data_parallel_trainer": "DataParallelTrainer",
    "air": f"{CONFIGS} Checkpoint Result session",
    "air.config": CONFIGS,
    "air.checkpoint": "Checkpoint",
    "air.session": "report get_checkpoint get_trial_id get_trial_name get_trial_dir get_world_rank get_world_size",
}


@pytest.mark.parametrize("module", NAMES)
def test_names_of_ray_are_there(module):
    found = importlib.import_module(f"zray.{module}")
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize(
    "module, own, names",
    [
        ("tune.progress_reporter", "tune.progress_reporter", "CLIReporter JupyterNotebookReporter ProgressReporter"),
        (
            "tune.logger",
            "tune.logger",
            "pretty_print LoggerCallback JsonLoggerCallback CSVLoggerCallback TBXLoggerCallback",
        ),
    ],
)
def test_names_of_output_are_there(module, own, names):
    pytest.importorskip(f"zray.{own}", reason=f"zray.{own} is not there yet")
    found = importlib.import_module(f"zray.{module}")
    assert [name for name in names.split() if not hasattr(found, name)] == []


def test_classes_are_the_same_under_all_names():
    from zray.air.checkpoint import Checkpoint
    from zray.tune.experiment.trial import Trial
    from zray.tune.suggest.optuna import OptunaSearch as OptunaSearchOf2021

    from zray.air import RunConfig
    from zray.train import Checkpoint as CheckpointOfTrain
    from zray.tune.search.optuna import OptunaSearch
    from zray.tune.trial import Trial as OwnTrial

    assert RunConfig is tune.RunConfig and Checkpoint is CheckpointOfTrain is tune.Checkpoint
    assert OptunaSearch is OptunaSearchOf2021 and Trial is OwnTrial
    assert importlib.import_module("zray.tune.stopper") is importlib.import_module("zray.tune.stoppers")
    assert sys.modules["zray.tune.stoppers"].__spec__.name == "zray.tune.stoppers"


MODULE = "zray.train.torch.config"  # of a module that stands for several ones


@pytest.mark.parametrize(
    "name",
    [name for name in absent.NAMES if name.startswith(("zray.train.", "zray.tune.int")) and name != MODULE],
)
def test_use_of_a_trainer_says_what_to_do_instead(name):
    module, _, attribute = name.rpartition(".")
    with pytest.raises(NotImplementedError) as raised:
        getattr(importlib.import_module(module), attribute)("train")
    assert absent.NAMES[name] in str(raised.value)


def test_import_of_a_module_of_trainers_says_what_to_do_instead():
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(MODULE)
    assert MODULE in str(raised.value) and absent.NAMES[MODULE] in str(raised.value)


@pytest.mark.parametrize("name", ["ax", "bayesopt", "bohb", "hebo", "nevergrad", "skopt", "zoopt"])
@pytest.mark.parametrize("package", ["search", "suggest"])
def test_import_of_an_absent_searcher_says_what_to_do_instead(package, name):
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(f"zray.tune.{package}.{name}")
    assert absent.NAMES[f"zray.tune.search.{name}"] in str(raised.value)


def test_import_takes_no_heavy_module():
    program = (
        "import sys, zray.tune, zray.train, zray.air, zray.tune.suggest, zray.tune.schedulers, zray.air.session; "
        "zray.tune.Tuner, zray.tune.run, zray.tune.run_experiments; "
        "print([name for name in ('optuna', 'torch', 'pandas', 'tensorboardX', 'hyperopt') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


def test_unknown_names_are_refused_by_errors_of_pythons_classes():
    with pytest.raises(AttributeError, match="^module 'zray.tune' has no attribute 'nope'$"):
        _ = tune.nope
    with pytest.raises(AttributeError, match="^module 'zray.train.trainers' has no attribute 'nope'$"):
        _ = importlib.import_module("zray.train.torch").nope
    with pytest.raises(
        ModuleNotFoundError, match="^cannot import name 'nope' from 'zray.tune': zray has no such module"
    ):
        importlib.import_module("zray.tune.nope")
    with pytest.raises(ModuleNotFoundError, match="^zray.util.tqdm is no module, .*`from zray.util import tqdm`.$"):
        importlib.import_module("zray.util.tqdm")


def test_scaling_config_is_bundles():
    found = zray.train.ScalingConfig(num_workers=2, use_gpu=True, resources_per_worker={"CPU": 2})
    expected = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 2, "GPU": 1}, {"CPU": 2, "GPU": 1}])
    assert found.as_placement_group_factory() == expected
    assert tune.with_resources(lambda config: None, found)._tune_resources is found


def test_wait_for_gpu_names_a_gpu_that_is_in_use(monkeypatch):
    import types

    from zray.tune import utils

    answers = iter(["900, 1000", "5, 1000"])
    run = lambda *args, **options: types.SimpleNamespace(stdout=next(answers), stderr="")  # noqa: E731
    monkeypatch.setattr("subprocess.run", run)
    assert utils.wait_for_gpu(0, retry=2, delay_s=0)
    answers = iter(["900, 1000"] * 2)
    with pytest.raises(RuntimeError, match="GPU 1 still has 90% of its memory in use after 2 looks"):
        utils.wait_for_gpu(1, retry=2, delay_s=0)


def test_helpers_of_nested_dicts():
    from zray.tune.utils import deep_update, flatten_dict, merge_dicts, unflatten_dict

    nested = {"a": {"b": 1, "c": {}}, "d": 2}
    assert flatten_dict(nested) == {"a/b": 1, "a/c": {}, "d": 2}
    assert unflatten_dict(flatten_dict(nested)) == nested
    assert merge_dicts(nested, {"a": {"e": 3}}) == {"a": {"b": 1, "c": {}, "e": 3}, "d": 2}
    with pytest.raises(KeyError, match="Unknown config parameter 'x'"):
        deep_update(nested, {"x": 1})
