"""Names and options of Ray that zray does not have yet: for each, a sentence that says what to do instead.

docs/compatibility.md shows the same tables.  Whoever builds one of them removes its row here and there.
"""

from __future__ import annotations

GROUPS = "Make the methods async, create one actor for each group, or give `max_concurrency` and lock the state."

TRAINERS = "Train in a function that `tune.Tuner` runs, or create one actor for each worker."
HOOKS = "Call `tune.report` in a callback of your own."
LOGGERS = "Log in the method `on_trial_result` of a `tune.Callback`."
ASK = "Use `OptunaSearch`, or pass an object with `ask` and `tell` to `AskTellSearch`."

# Functions, classes and modules, by full name.
NAMES = {
    "zray.cancel": "End an actor with `zray.kill`; let long tasks ask an actor now and then whether to stop.",
    "zray.timeline": "Return time stamps with the results; `zray microbenchmark` measures the machine.",
    "zray.ObjectRefGenerator": "Give `num_returns=n`, or return a list of refs: `[zray.put(x) for x in values]`.",
    "zray.LoggingConfig": "Configure `logging` in the program and at the start of tasks.",
    "zray.ActorID": "Use the hexadecimal text that `get_runtime_context().get_actor_id()` returns.",
    "zray.client": "Pass the address to `zray.init`.",
    "zray.cross_language": "Start the other program as a process of a task.",
    "zray.util.state.list_objects": "Read `store` in `zray status`; `ObjectStoreFullError` names the largest objects.",
    "zray.util.state.list_workers": "Read `zray status`, and the process titles of `ps`.",
    "zray.util.collective": "Add up in an actor, or in a tree of tasks.",
    "zray.util.dask.RayDaskCallback": "Give a `dask.callbacks.Callback`; dask tasks run as tasks of zray under it too.",
    "zray.util.rpdb": "Run the program with `ZRAY_LOCAL=1`, and call `breakpoint()` in the task.",
    "zray.workflow": "Call `.remote(...)` at once, and save results in files.",
    "zray.job_submission": "Run the program with `ZRAY_ADDRESS` set, on any machine of the cluster.",
    "zray.autoscaler": "Start nodes with `zray start --address`, and end them with `zray drain`.",
    "zray.data": "Run tasks over a list of files.",
    "zray.train.DataParallelTrainer": TRAINERS,
    "zray.train.TorchTrainer": TRAINERS,
    "zray.train.LightningTrainer": TRAINERS,
    "zray.train.TensorflowTrainer": TRAINERS,
    "zray.train.HorovodTrainer": TRAINERS,
    "zray.train.TransformersTrainer": TRAINERS,
    "zray.train.XGBoostTrainer": "Train with `xgboost` in a function that `tune.Tuner` runs.",
    "zray.train.LightGBMTrainer": "Train with `lightgbm` in a function that `tune.Tuner` runs.",
    "zray.train.SklearnTrainer": "Fit the estimator in a function that `tune.Tuner` runs, or in a task.",
    "zray.train.get_dataset_shard": "Pass data by `tune.with_parameters`.",
    "zray.train.prepare_model": "Move the model to its device in the function: `model.to(device)`.",
    "zray.train.prepare_data_loader": "Use the data loader as it is.",
    "zray.train.get_device": 'Write `torch.device("cuda" if zray.get_gpu_ids() else "cpu")`.',
    "zray.tune.integration.TuneReportCallback": HOOKS,
    "zray.tune.integration.TuneReportCheckpointCallback": HOOKS,
    "zray.tune.integration.WandbLoggerCallback": LOGGERS,
    "zray.tune.integration.MLflowLoggerCallback": LOGGERS,
    "zray.tune.integration.wandb_mixin": LOGGERS,
    "zray.tune.integration.mlflow_mixin": LOGGERS,
    "zray.tune.schedulers.PB2": "Use `PopulationBasedTraining`.",
    "zray.tune.schedulers.pb2": "Use `PopulationBasedTraining`.",
    "zray.tune.schedulers.PopulationBasedTrainingReplay": "Read the recorded configurations in `result.json`.",
    "zray.tune.schedulers.HyperBandForBOHB": "Use `HyperBandScheduler` with `OptunaSearch`.",
    "zray.tune.schedulers.hb_bohb": "Use `HyperBandScheduler` with `OptunaSearch`.",
    "zray.tune.schedulers.ResourceChangingScheduler": "Give resources by a function of the configuration: "
    "`tune.with_resources`.",
    "zray.tune.schedulers.resource_changing_scheduler": "Give resources by a function of the configuration: "
    "`tune.with_resources`.",
    "zray.tune.search.ax": ASK,
    "zray.tune.search.bayesopt": "Use `OptunaSearch(sampler=optuna.samplers.GPSampler())`.",
    "zray.tune.search.bohb": "Use `OptunaSearch`, whose default sampler is TPE, with `HyperBandScheduler`.",
    "zray.tune.search.dragonfly": ASK,
    "zray.tune.search.flaml": ASK,
    "zray.tune.search.hebo": ASK,
    "zray.tune.search.nevergrad": "Pass the optimizer of Nevergrad to `AskTellSearch`.",
    "zray.tune.search.sigopt": "Use `OptunaSearch`.",
    "zray.tune.search.skopt": "Pass the `skopt.Optimizer` to `AskTellSearch`.",
    "zray.tune.search.zoopt": "Use `OptunaSearch`.",
    "zray.rllib.algorithms.impala": "Use `PPOConfig` with several `num_env_runners`.",
    "zray.serve": "Call actors from a web server of your choice.",
    "zray.llm": "Call actors that hold the model.",
    "zray.air.integrations": LOGGERS,
}

# Options of remote functions, actor classes and methods.
OPTIONS = {
    "accelerator_type": "Give nodes a label (`zray start --labels gpu=a100`), and tasks "
    '`label_selector={"gpu": "a100"}`.',
    "concurrency_groups": GROUPS,
    "concurrency_group": GROUPS,
}

INIT_ARGUMENTS = {
    "include_dashboard": "Run `zray status` in a terminal, and leave the argument out.",
    "_temp_dir": "Set the environment variable `ZRAY_TMPDIR`.",
}

RUNTIME_ENV_FIELDS = {
    "conda": "Activate the environment where `zray start` runs, on all nodes.",
    "py_executable": "Start nodes with the Python that tasks need.",
    "container": "Run `zray start` in the container.",
    "image_uri": "Run `zray start` in the container.",
    "java_jars": "Start Java as a process of a task.",
    "nsight": "Start the profiler as a process of a task.",
    "mpi": "Start `mpirun` in a task.",
    "worker_process_setup_hook": "Call the function at the beginning of tasks.",
}

PLACEMENT_GROUP_ARGUMENTS = {
    "bundle_label_selector": "Give `label_selector` to the tasks, without a group.",
    "_max_cpu_fraction_per_node": "Reserve smaller bundles.",
    "_soft_target_node_id": "Give tasks a `NodeAffinitySchedulingStrategy`, without a group.",
}

ABILITIES = {
    "streaming generators": "Give `num_returns=n`, or return a list of refs: `[zray.put(x) for x in values]`.",
    "async generators of actors": "Return a list, or put the values into a queue that is an actor.",
    "`PYTHONHASHSEED` in `env_vars`": "Set it in the environment of `zray start --head`, or of the program.",
    "addresses in `working_dir` and `py_modules`": "Download the archive, and name the file on this machine.",
}

COMMANDS = {
    "job": "Run the program with `ZRAY_ADDRESS` set.",
    "list": "Read `zray status --format json`.",
    "get": "Read `zray status --format json`.",
    "summary": "Read `zray status --format json`.",
    "logs": "Read the files in the folder that `zray status` shows.",
    "memory": "Read `store` in `zray status`; `ObjectStoreFullError` names the largest objects.",
    "stack": "Run a sampler such as `py-spy`, with the pids that `zray status` shows.",
    "debug": "Run the program with `ZRAY_LOCAL=1`, and call `breakpoint()` in the task.",
    "timeline": "Return time stamps with the results; `zray microbenchmark` measures the machine.",
    "dashboard": "Run `zray status`.",
    "up": "Start nodes over ssh, as docs/cluster.md shows.",
    "down": "Run `zray stop` over ssh.",
    "submit": "Run the program with `ZRAY_ADDRESS` set.",
    "attach": "Use ssh.",
    "exec": "Use ssh.",
}


def not_built(table: dict[str, str], name: str, subject: str = "") -> NotImplementedError:
    """The error for a row of a table.  subject: what the error names in place of the row's name."""
    return NotImplementedError(_said(subject or name, table[name]))


def attribute_error(module: str, name: str) -> AttributeError:
    """The error for an attribute that a module of zray does not have."""
    full = f"{module}.{name}"
    reason = f": {_said(full, NAMES[full])}" if full in NAMES else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{reason}")


def placeholder(name: str, module: str) -> type:
    """The class for a name that programs import, and whose use is an error.

    Args:
        name: the row's name.
        module: the module that is asked for it.

    Raises:
        AttributeError: no row has the name.
    """
    if name not in NAMES:
        raise attribute_error(module, name.rpartition(".")[2])

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        raise not_built(NAMES, name)

    return type(name.rpartition(".")[2], (), {"__init__": refuse, "__module__": module, "__doc__": NAMES[name]})


def refuse_import(name: str) -> None:
    """Raise the error for an absent module; do nothing for any other name.

    The error's own `name` is None: `from zray import tune` would replace an error of that name by one without a reason.

    Raises:
        ModuleNotFoundError: the module is a row of the table.
    """
    if name in NAMES:
        raise ModuleNotFoundError(_said(name, NAMES[name]))


def _said(subject: str, advice: str) -> str:
    return f"zray does not have {subject} yet.  {advice}"
