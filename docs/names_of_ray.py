"""Public modules and names of Ray outside of RLlib, in the versions 1.13, 2.2, 2.9 and 2.60: a list.

`scripts/compatibility` makes the table of absent names from it, and tests/docs/test_names_of_ray.py walks it.
docs/names_of_rllib.py is the list of RLlib.
"""

from __future__ import annotations

__all__ = ["NAMES"]

_CONFIGS = "CheckpointConfig FailureConfig RunConfig ScalingConfig"
_STOPPERS = (
    "CombinedStopper ExperimentPlateauStopper FunctionStopper MaximumIterationStopper NoopStopper Stopper "
    "TimeoutStopper TrialPlateauStopper"
)
_SPACES = (
    "choice grid_search lograndint loguniform qlograndint qloguniform qrandint qrandn quniform randint randn "
    "sample_from uniform"
)
_SEARCHERS = {
    "ax": "AxSearch",
    "bayesopt": "BayesOptSearch",
    "bohb": "TuneBOHB",
    "dragonfly": "DragonflySearch",
    "flaml": "BlendSearch CFO",
    "hebo": "HEBOSearch",
    "hyperopt": "HyperOptSearch",
    "nevergrad": "NevergradSearch",
    "optuna": "OptunaSearch",
    "sigopt": "SigOptSearch",
    "skopt": "SkOptSearch",
    "zoopt": "ZOOptSearch",
}

# Modules behind `ray.`, and their names; "" is the module `ray`.
NAMES = {
    "": "available_resources cancel cluster_resources get get_actor get_gpu_ids get_runtime_context init "
    "is_initialized kill method nodes put remote shutdown timeline wait ObjectRef ObjectID ObjectRefGenerator "
    "DynamicObjectRefGenerator ActorID ActorClassID FunctionID JobID NodeID PlacementGroupID TaskID UniqueID WorkerID "
    "ClientBuilder LoggingConfig Language LOCAL_MODE SCRIPT_MODE WORKER_MODE actor air autoscaler client cloudpickle "
    "cpp_function "
    "cross_language dag dashboard data exceptions experimental internal java_actor_class java_function "
    "job_submission llm runtime_env serve show_in_dashboard train tune util widgets workflow __version__",
    "actor": "ActorClass ActorHandle ActorMethod exit_actor method",
    "autoscaler.sdk": "request_resources",
    "client_builder": "ClientBuilder ClientContext",
    "cluster_utils": "Cluster AutoscalingCluster",
    "cross_language": "java_actor_class java_function cpp_function",
    "dag": "DAGNode ClassNode FunctionNode InputNode InputAttributeNode MultiOutputNode",
    "exceptions": "ActorDiedError ActorPlacementGroupRemoved ActorUnavailableError ActorUnschedulableError "
    "AsyncioActorExit AuthenticationError CrossLanguageError GetTimeoutError LocalRayletDiedError NodeDiedError "
    "ObjectFetchTimedOutError ObjectFreedError ObjectLostError ObjectReconstructionFailedError "
    "ObjectReconstructionFailedLineageEvictedError ObjectReconstructionFailedMaxAttemptsExceededError "
    "ObjectStoreFullError OufOfBandObjectRefSerializationException OutOfDiskError OutOfMemoryError OwnerDiedError "
    "PendingCallsLimitExceeded PlasmaObjectNotAvailable RayActorError RayChannelError RayChannelTimeoutError "
    "RayError RaySystemError RayTaskError ReferenceCountingAssertionError RuntimeEnvSetupError TaskCancelledError "
    "TaskPlacementGroupRemoved TaskUnschedulableError UserCodeException WorkerCrashedError",
    "experimental": "get_object_locations get_local_object_locations tqdm_ray",
    "experimental.channel": "Channel ChannelInterface",
    "experimental.collective": "allreduce create_collective_group",
    "experimental.dynamic_resources": "set_resource",
    "experimental.internal_kv": "_internal_kv_get _internal_kv_put",
    "experimental.locations": "get_object_locations",
    "experimental.queue": "Queue",
    "experimental.compiled_dag_ref": "CompiledDAGRef",
    "experimental.packaging": "",
    "experimental.tf_utils": "TensorFlowVariables",
    "experimental.shuffle": "simple_shuffle",
    "experimental.state.api": "list_actors list_nodes list_tasks",
    "experimental.tqdm_ray": "tqdm",
    "ids": "ActorID NodeID ObjectID TaskID",
    "internal": "free",
    "internal.internal_api": "free",
    "job_config": "JobConfig",
    "job_submission": "JobDetails JobInfo JobStatus JobSubmissionClient",
    "dashboard": "",
    "dashboard.modules.job.sdk": "JobSubmissionClient",
    "dashboard.utils": "",
    "data": "Dataset from_items range read_csv read_parquet",
    "llm": "",
    "operator": "",
    "profiling": "profile",
    "projects": "",
    "ray_constants": "",
    "remote_function": "RemoteFunction",
    "runtime_context": "RuntimeContext get_runtime_context",
    "runtime_env": "RuntimeEnv RuntimeEnvConfig",
    "serve": "deployment run",
    "state": "actors nodes timeline",
    "streaming": "StreamingContext",
    "types": "ObjectRef",
    "widgets": "Template",
    "worker": "get put wait",
    "workflow": "run",
    "util": "ActorPool as_completed collective connect deregister_serializer disable_log_once_globally disconnect "
    "enable_periodic_logging get_current_placement_group get_node_instance_id get_node_ip_address "
    "get_placement_group inspect_serializability iter list_named_actors log_once map_unordered pdb placement_group "
    "placement_group_table register_serializer remove_placement_group accelerators",
    "util.accelerators": "NVIDIA_TESLA_A100 NVIDIA_TESLA_V100 NVIDIA_TESLA_T4 NVIDIA_H100 NVIDIA_L4",
    "util.actor_group": "ActorGroup",
    "util.actor_pool": "ActorPool",
    "util.annotations": "Deprecated DeveloperAPI PublicAPI",
    "util.check_serialize": "inspect_serializability",
    "util.client": "ray",
    "util.client_connect": "connect disconnect",
    "util.collective": "allgather allgather_multigpu allreduce allreduce_multigpu barrier broadcast "
    "broadcast_multigpu create_collective_group destroy_collective_group get_collective_group_size get_group_handle "
    "get_rank gloo_available init_collective_group is_backend_available is_group_initialized nccl_available recv "
    "recv_multigpu reduce reduce_multigpu reducescatter reducescatter_multigpu send send_multigpu",
    "util.collective.backend_registry": "get_backend_registry is_registered_collective_backend "
    "register_collective_backend",
    "util.collective.collective": "allreduce barrier broadcast create_collective_group init_collective_group",
    "util.collective.types": "Backend ReduceOp",
    "util.dask": "ray_dask_get ray_dask_get_sync RayDaskCallback disable_dask_on_ray enable_dask_on_ray "
    "dataframe_optimize",
    "util.debug": "log_once enable_periodic_logging",
    "util.iter": "ParallelIterator from_items from_iterators from_range",
    "util.joblib": "register_ray",
    "util.metrics": "Counter Gauge Histogram Metric",
    "util.ml_utils.dict": "flatten_dict",
    "util.multiprocessing": "JoinableQueue Pool TimeoutError",
    "util.multiprocessing.pool": "Pool",
    "util.placement_group": "PlacementGroup VALID_PLACEMENT_GROUP_STRATEGIES check_placement_group_index "
    "get_current_placement_group get_placement_group placement_group placement_group_table remove_placement_group "
    "validate_placement_group",
    "util.queue": "Empty Full Queue",
    "util.rpdb": "set_trace",
    "util.scheduling_strategies": "DoesNotExist Exists In NodeAffinitySchedulingStrategy NodeLabelSchedulingStrategy "
    "NotIn PlacementGroupSchedulingStrategy",
    "util.serialization": "deregister_serializer register_serializer",
    "util.sgd": "TorchTrainer",
    "util.spark": "MAX_NUM_WORKER_NODES setup_global_ray_cluster setup_ray_cluster shutdown_ray_cluster",
    "util.state": "StateApiClient get_actor get_job get_log get_node get_objects get_placement_group get_task "
    "get_worker list_actors list_cluster_events list_jobs list_logs list_nodes list_objects list_placement_groups "
    "list_runtime_envs list_tasks list_workers summarize_actors summarize_objects summarize_tasks",
    "util.tpu": "SlicePlacementGroup slice_placement_group",
    "util.tracing": "",
    "util.tracing.setup_local_tmp_tracing": "setup_tracing",
    "tune": f"{_SPACES} {_STOPPERS} {_CONFIGS} Analysis DurableTrainable CLIReporter Callback Checkpoint Experiment "
    "ExperimentAnalysis "
    "ExportFormat JupyterNotebookReporter PlacementGroupFactory ProgressReporter ResultGrid Result ResumeConfig "
    "SyncConfig Trainable TuneConfig TuneContext TuneError Tuner checkpoint_dir create_scheduler create_searcher "
    "durable function get_checkpoint get_context get_trial_dir get_trial_id get_trial_name get_trial_resources "
    "is_session_enabled register_env register_trainable report run run_experiments session_started with_parameters "
    "with_resources load_checkpoint save_checkpoint",
    "tune.analysis": "Analysis ExperimentAnalysis",
    "tune.analysis.experiment_analysis": "ExperimentAnalysis",
    "tune.callback": "Callback",
    "tune.cloud": "TrialCheckpoint",
    "tune.cluster_info": "is_ray_cluster",
    "tune.context": "TuneContext get_context",
    "tune.error": "TuneError",
    "tune.execution": "",
    "tune.execution.placement_groups": "PlacementGroupFactory",
    "tune.execution.tune_controller": "TuneController",
    "tune.execution.trial_runner": "TrialRunner",
    "tune.execution.ray_trial_executor": "RayTrialExecutor",
    "tune.experiment": "Experiment Trial",
    "tune.experiment.experiment": "Experiment",
    "tune.experiment.trial": "Trial",
    "tune.function_runner": "StatusReporter FunctionRunner",
    "tune.integration.docker": "DockerSyncer",
    "tune.integration.horovod": "DistributedTrainableCreator",
    "tune.integration.keras": "TuneReportCallback TuneReportCheckpointCallback",
    "tune.integration.kubernetes": "KubernetesSyncer",
    "tune.integration.lightgbm": "TuneReportCallback TuneReportCheckpointCallback",
    "tune.integration.mlflow": "MLflowLoggerCallback mlflow_mixin MLflowTrainableMixin",
    "tune.integration.mxnet": "TuneReportCallback TuneCheckpointCallback",
    "tune.integration.pytorch_lightning": "TuneReportCallback TuneReportCheckpointCallback TuneCallback",
    "tune.integration.ray_train": "TuneReportCallback",
    "tune.integration.tensorflow": "DistributedTrainableCreator",
    "tune.integration.torch": "DistributedTrainableCreator is_distributed_trainable",
    "tune.integration.wandb": "WandbLogger WandbLoggerCallback wandb_mixin WandbTrainableMixin",
    "tune.integration.xgboost": "TuneReportCallback TuneReportCheckpointCallback",
    "tune.logger": "CSVLogger CSVLoggerCallback JsonLogger JsonLoggerCallback Logger LoggerCallback MLFLowLogger "
    "NoopLogger TBXLogger TBXLoggerCallback UnifiedLogger pretty_print DEFAULT_LOGGERS "
    "LegacyLoggerCallback",
    "tune.logger.aim": "AimLoggerCallback",
    "tune.logger.comet": "CometLoggerCallback",
    "tune.logger.csv": "CSVLoggerCallback",
    "tune.logger.json": "JsonLoggerCallback",
    "tune.logger.logger": "LoggerCallback pretty_print",
    "tune.logger.mlflow": "MLflowLoggerCallback",
    "tune.logger.noop": "NoopLogger",
    "tune.logger.tensorboardx": "TBXLoggerCallback",
    "tune.logger.unified": "UnifiedLogger",
    "tune.logger.wandb": "WandbLoggerCallback",
    "tune.progress_reporter": "CLIReporter JupyterNotebookReporter ProgressReporter RemoteReporterMixin "
    "TuneReporterBase",
    "tune.ray_trial_executor": "RayTrialExecutor",
    "tune.registry": "get_trainable_cls is_function_trainable register_env register_input register_trainable "
    "validate_trainable",
    "tune.resources": "Resources json_to_resources resources_to_json",
    "tune.result": "AUTO_RESULT_KEYS DEFAULT_METRIC DEFAULT_RESULTS_DIR DONE EPISODES_TOTAL EXPR_ERROR_FILE "
    "EXPR_ERROR_PICKLE_FILE EXPR_PARAM_FILE EXPR_PARAM_PICKLE_FILE EXPR_PROGRESS_FILE EXPR_RESULT_FILE "
    "EPISODE_REWARD_MEAN HOSTNAME NODE_IP PID SHOULD_CHECKPOINT TIME_THIS_ITER_S TIME_TOTAL_S TIMESTEPS_TOTAL "
    "TIMESTEPS_THIS_ITER TRAINING_ITERATION TRIAL_ID TRIAL_INFO",
    "tune.result_grid": "ResultGrid",
    "tune.sample": "Categorical Domain Float Function Integer Quantized",
    "tune.schedulers": "ASHAScheduler AsyncHyperBandScheduler FIFOScheduler HyperBandForBOHB HyperBandScheduler "
    "MedianStoppingRule PB2 PopulationBasedTraining PopulationBasedTrainingReplay ResourceChangingScheduler "
    "SCHEDULER_IMPORT TrialScheduler create_scheduler",
    "tune.schedulers.async_hyperband": "ASHAScheduler AsyncHyperBandScheduler",
    "tune.schedulers.hb_bohb": "HyperBandForBOHB",
    "tune.schedulers.hyperband": "HyperBandScheduler",
    "tune.schedulers.median_stopping_rule": "MedianStoppingRule",
    "tune.schedulers.pb2": "PB2",
    "tune.schedulers.pbt": "PopulationBasedTraining PopulationBasedTrainingReplay explore",
    "tune.schedulers.resource_changing_scheduler": "DistributeResources DistributeResourcesToTopJob "
    "ResourceChangingScheduler",
    "tune.schedulers.trial_scheduler": "FIFOScheduler TrialScheduler",
    "tune.search": "BasicVariantGenerator ConcurrencyLimiter DEFAULT_MODE Repeater SEARCH_ALG_IMPORT SearchAlgorithm "
    "SearchGenerator "
    "Searcher UNDEFINED_METRIC_MODE UNDEFINED_SEARCH_SPACE UNRESOLVED_SEARCH_SPACE create_searcher grid_search",
    "tune.search.basic_variant": "BasicVariantGenerator",
    "tune.search.concurrency_limiter": "ConcurrencyLimiter",
    **{f"tune.search.{module}": names for module, names in _SEARCHERS.items()},
    **{f"tune.search.{module}.{module}_search": names for module, names in _SEARCHERS.items() if module != "bohb"},
    **{f"tune.suggest.{module}": names for module, names in _SEARCHERS.items()},
    "tune.search.bohb.bohb_search": "TuneBOHB",
    "tune.search.repeater": "Repeater",
    "tune.search.sample": "Categorical Domain Float Function Integer LogUniform Normal Quantized Sampler Uniform",
    "tune.search.search_algorithm": "SearchAlgorithm",
    "tune.search.search_generator": "SearchGenerator",
    "tune.search.searcher": "Searcher",
    "tune.search.util": "set_search_properties_backwards_compatible",
    "tune.search.variant_generator": "RecursiveDependencyError format_vars generate_variants grid_search "
    "has_unresolved_values parse_spec_vars",
    "tune.session": "get_trial_dir get_trial_id get_trial_name report",
    "tune.stopper": _STOPPERS,
    "tune.stopper.experiment_plateau": "ExperimentPlateauStopper",
    "tune.stopper.function_stopper": "FunctionStopper",
    "tune.stopper.maximum_iteration": "MaximumIterationStopper",
    "tune.stopper.noop": "NoopStopper",
    "tune.stopper.stopper": "CombinedStopper Stopper",
    "tune.stopper.timeout": "TimeoutStopper",
    "tune.stopper.trial_plateau": "TrialPlateauStopper",
    "tune.suggest": "BasicVariantGenerator ConcurrencyLimiter Repeater Searcher",
    "tune.suggest.suggestion": "ConcurrencyLimiter Searcher",
    "tune.sync_client": "CommandBasedClient",
    "tune.syncer": "SyncConfig Syncer SyncerCallback",
    "tune.track": "init log shutdown trial_dir",
    "tune.trainable": "Trainable TuneReportCheckpoint with_parameters",
    "tune.trainable.function_trainable": "FunctionTrainable wrap_function",
    "tune.trainable.trainable": "Trainable",
    "tune.trainable.util": "TrainableUtil with_parameters",
    "tune.trial": "Trial ExportFormat",
    "tune.trial_runner": "TrialRunner",
    "tune.tune": "run run_experiments",
    "tune.tune_config": "ResumeConfig TuneConfig",
    "tune.tuner": "Tuner",
    "tune.utils": "deep_update diagnose_serialization flatten_dict force_on_current_node merge_dicts "
    "unflatten_dict unflattened_lookup validate_save_restore wait_for_gpu warn_if_slow",
    "tune.utils.log": "Verbosity",
    "tune.utils.mock_trainable": "MyTrainableClass",
    "tune.utils.placement_groups": "PlacementGroupFactory",
    "tune.utils.util": "wait_for_gpu",
    "tune.variant_generator": "generate_variants",
    "tune.web_server": "TuneClient",
    "air": f"{_CONFIGS} Checkpoint DatasetConfig Result session DataBatchType AcquiredResources "
    "ResourceManager ResourceRequest",
    "air.checkpoint": "Checkpoint",
    "air.config": f"{_CONFIGS} DatasetConfig",
    "air.constants": "TRAINING_ITERATION",
    "air.execution": "",
    "air.execution.resources": "ResourceManager",
    "air.integrations.comet": "CometLoggerCallback",
    "air.integrations.keras": "ReportCheckpointCallback Callback",
    "air.integrations.mlflow": "MLflowLoggerCallback setup_mlflow",
    "air.integrations.wandb": "WandbLoggerCallback setup_wandb",
    "air.result": "Result",
    "air.session": "get_checkpoint get_dataset_shard get_local_rank get_local_world_size get_metadata get_node_rank "
    "get_trial_dir get_trial_id get_trial_name get_trial_resources get_world_rank get_world_size report "
    "get_experiment_name",
    "train": f"{_CONFIGS} BackendConfig Checkpoint DataConfig Result SyncConfig "
    "TrainContext Trainer TrainingFailedError TrainingIterator get_checkpoint get_context get_dataset_shard report "
    "world_rank local_rank world_size load_checkpoint save_checkpoint TRAIN_DATASET_KEY ReportedCheckpoint "
    "UserCallback get_all_reported_checkpoints",
    "train.backend": "Backend BackendConfig",
    "train.base_trainer": "BaseTrainer TrainingFailedError",
    "train.batch_predictor": "BatchPredictor",
    "train.callbacks": "JsonLoggerCallback TBXLoggerCallback",
    "train.collective": "barrier broadcast_from_rank_zero",
    "train.context": "TrainContext get_context",
    "train.data_parallel_trainer": "DataParallelTrainer",
    "train.error": "SessionMisuseError",
    "train.gbdt_trainer": "GBDTTrainer",
    "train.horovod": "HorovodConfig HorovodTrainer",
    "train.huggingface": "AccelerateTrainer HuggingFaceTrainer TransformersTrainer",
    "train.huggingface.transformers": "RayTrainReportCallback prepare_trainer",
    "train.jax": "JaxTrainer",
    "train.lightgbm": "LightGBMCheckpoint LightGBMTrainer RayTrainReportCallback",
    "train.lightning": "LightningConfigBuilder LightningTrainer RayDDPStrategy RayDeepSpeedStrategy RayFSDPStrategy "
    "RayLightningEnvironment RayTrainReportCallback prepare_trainer",
    "train.mosaic": "MosaicTrainer",
    "train.predictor": "Predictor",
    "train.rl": "RLTrainer",
    "train.session": "get_checkpoint report",
    "train.sklearn": "SklearnTrainer",
    "train.tensorflow": "TensorflowCheckpoint TensorflowConfig TensorflowTrainer prepare_dataset_shard",
    "train.tensorflow.keras": "ReportCheckpointCallback",
    "train.torch": "TorchCheckpoint TorchConfig TorchPredictor TorchTrainer accelerate backward "
    "enable_reproducibility get_device "
    "get_devices prepare_data_loader prepare_model prepare_optimizer",
    "train.torch.xla": "TorchXLAConfig",
    "train.trainer": "GenDataset TrainingIterator",
    "train.v2": "",
    "train.v2.api.config": "RunConfig",
    "train.xgboost": "RayTrainReportCallback XGBoostCheckpoint XGBoostTrainer",
    "tune.impl": "",
    "tune.commands": "",
    "tune.cli": "",
    "tune.constants": "",
    "tune.automl": "",
    "tune.experimental": "",
    "tune.trial_executor": "",
    "tune.config_parser": "",
    "tune.experiment.config_parser": "make_parser",
    "tune.durable_trainable": "",
    "tune.checkpoint_manager": "",
    "tune.sklearn": "",
    "tune.snapshot": "",
    "tune.trainable.metadata": "",
    "tune.utils.callback": "",
    "tune.utils.mock": "FailureInjectorCallback",
    "tune.utils.release_test_util": "",
    "tune.utils.trainable": "TrainableUtil",
    "tune.utils.visualization": "",
    "train.torch.config": "TorchConfig",
    "train.constants": "TRAIN_DATASET_KEY",
    "air.util": "",
    "util.check_open_ports": "",
    "util.debugpy": "",
    "util.lightgbm": "",
    "util.xgboost": "",
    "util.timer": "",
    "util.state.common": "",
    "util.state.exception": "RayStateApiException",
    "air.util.torch_dist": "init_torch_dist_process_group",
    "air.util.node": "",
    "tune.impl.tuner_internal": "TunerInternal",
}
