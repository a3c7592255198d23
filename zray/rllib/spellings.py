"""Names of options since 2017, in one table: today's name, the owning method, the default, and former names.

`translated` takes options in any spelling, and gives today's.  Options of an algorithm have their defaults in the
`defaults` of the configuration; a row of this table names their former spellings.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .other_options import ABSENT, FIXED, IGNORED, NEUTRAL, OF_REPLAY, OTHERS, TF
from .ranges import SHARE, Range, check, is_searched
from .schedules import checked_schedule

__all__ = ["ABSENT", "CONVERTED", "IGNORED", "OPTIONS", "common_defaults", "translated", "unknown"]

logger = logging.getLogger("zray.rllib")


class _Unset:
    """The default of an option that is not given, short in help()."""

    def __repr__(self) -> str:
        return "<default>"


UNSET = _Unset()
_STEPS = Range(0, 1e18)


class Option(NamedTuple):
    """An option.

    owner: the method of the configuration that takes the option.  default: for all algorithms; UNSET: no default.
    former: other spellings of the same option.
    """

    owner: str
    default: Any = UNSET
    former: tuple[str, ...] = ()


OPTIONS: dict[str, Option] = {
    # environment
    "env": Option("environment", None),
    "env_config": Option("environment", {}),
    "clip_rewards": Option("environment", None),
    "preprocessor_pref": Option("env_runners", "deepmind"),
    "normalize_actions": Option("environment", True),
    "clip_actions": Option("environment", True),
    "horizon": Option("environment", None, ("max_episode_steps",)),
    "observation_space": Option("environment", None),
    "action_space": Option("environment", None),
    "disable_env_checking": Option("environment", False),
    # env_runners
    "num_env_runners": Option("env_runners", 0, ("num_rollout_workers", "num_workers")),
    "num_envs_per_env_runner": Option("env_runners", 4, ("num_envs_per_worker",)),
    "num_groups": Option("env_runners", 2),
    "rollout_fragment_length": Option("env_runners", 128, ("sample_batch_size", "batch_size")),
    "batch_mode": Option("env_runners", "truncate_episodes"),
    "observation_filter": Option("env_runners", "NoFilter"),
    "explore": Option("env_runners", True),
    "num_cpus_per_env_runner": Option("env_runners", 1, ("num_cpus_per_worker",)),
    "num_gpus_per_env_runner": Option("env_runners", 0, ("num_gpus_per_worker",)),
    "custom_resources_per_env_runner": Option("env_runners", {}, ("custom_resources_per_worker",)),
    "sample_timeout_s": Option("env_runners", 300.0),
    # training
    "gamma": Option("training", 0.99),
    "lr": Option("training", 3e-4, ("sgd_stepsize",)),
    "grad_clip": Option("training", 0.5, ("grad_norm_clipping",)),
    "model": Option("training", {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}, ("model_config",)),
    "train_batch_size": Option("training", UNSET, ("timesteps_per_batch", "train_batch_size_per_learner")),
    "minibatch_size": Option("training", UNSET, ("sgd_minibatch_size", "sgd_batchsize")),
    "num_epochs": Option("training", UNSET, ("num_sgd_iter",)),
    "lambda_": Option("training", UNSET, ("lambda",)),
    "vf_loss_coeff": Option("training", UNSET, ("vf_coeff",)),
    "prioritized": Option("training", UNSET, ("prioritized_replay",)),
    "prioritized_alpha": Option("training", UNSET, ("prioritized_replay_alpha",)),
    "prioritized_beta": Option("training", UNSET, ("prioritized_replay_beta",)),
    "capacity": Option("training", UNSET, ("buffer_size", "replay_buffer_capacity")),
    "num_replay_buffer_shards": Option("training", UNSET),
    "training_intensity": Option("training", UNSET),
    "learning_starts": Option("training", UNSET, ("num_steps_sampled_before_learning_starts",)),
    # multi_agent
    "policies": Option("multi_agent", None),
    "policy_mapping_fn": Option("multi_agent", None),
    "policies_to_train": Option("multi_agent", None),
    # evaluation
    "evaluation_interval": Option("evaluation", 0),
    "evaluation_duration": Option("evaluation", 10, ("evaluation_num_episodes",)),
    "evaluation_duration_unit": Option("evaluation", "episodes"),
    "evaluation_sample_timeout_s": Option("evaluation", 120.0),
    "evaluation_config": Option("evaluation", {}),
    # the rest
    "min_sample_timesteps_per_iteration": Option(
        "reporting", 0, ("timesteps_per_iteration", "min_env_steps_per_iteration", "min_timesteps_per_iteration")
    ),
    "metrics_num_episodes_for_smoothing": Option("reporting", 100, ("metrics_smoothing_episodes",)),
    "callbacks": Option("callbacks", None, ("callbacks_class",)),
    "seed": Option("debugging", None),
    "log_level": Option("debugging", "WARN"),
    "restart_failed_sub_environments": Option("fault_tolerance", False),
    "framework": Option("framework", "torch"),
    "num_gpus": Option("resources", 0, ("num_gpus_per_learner",)),
}


def _check_keys(option: str, value: Mapping[str, Any], known: tuple[str, ...], ignored: Mapping[str, str]) -> None:
    """Check the keys of an option that is a dict.  Keys that change nothing are reported once.

    Raises:
        TypeError: a key is unknown.
    """
    for name in value:
        if name in ignored:
            if not _is_neutral(name, value[name]):
                once(f"{option}[{name!r}]", ignored[name])
        elif name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            raise TypeError(f"{option} has no key {name!r}.  " + (f"Near: {near[0]!r}." if near else f"Keys: {known}."))


def _is_neutral(name: str, value: Any, kind: str = "") -> bool:
    """Return whether a value of an option that changes nothing asks for nothing else."""
    neutral = NEUTRAL.get(f"{kind}.{name}", NEUTRAL.get(name, (False, {}, [])))
    same = (value is each or (type(value) is not bool or not each) and value == each for each in neutral)
    return value is None or any(same)


def _epsilon(value: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """`exploration_config`: a schedule of epsilon; other kinds of exploration belong to the algorithm."""
    names = ("type", "initial_epsilon", "final_epsilon", "epsilon_timesteps", "warmup_timesteps")
    is_greedy = "epsilon" in options
    kind = value.get("type") or ("EpsilonGreedy" if is_greedy else "StochasticSampling")
    kind = str(kind if isinstance(kind, str) else kind.__name__).rpartition(".")[2]
    if kind not in ("EpsilonGreedy", "StochasticSampling"):
        raise NotImplementedError(
            f"zray does not have the exploration {kind!r} of rllib yet.  Give `epsilon` for DQN, `entropy_coeff` for "
            "PPO, or explore=False."
        )
    if is_greedy != (kind == "EpsilonGreedy"):
        how = "DQN explores by epsilon" if is_greedy else "algorithms but DQN draw from a distribution of actions"
        what = "Give EpsilonGreedy, or `epsilon`" if is_greedy else "Leave exploration_config out"
        raise NotImplementedError(f"The exploration {kind!r} is that of other algorithms: {how}.  {what}.")
    known = names if is_greedy else names[:1]
    _check_keys("exploration_config", value, known, {"framework": "", "random_timesteps": "actions are drawn at once"})
    if not is_greedy:
        return {}
    first, begin = value.get("initial_epsilon", 1.0), value.get("warmup_timesteps", 0)
    last, steps = value.get("final_epsilon", 0.05), value.get("epsilon_timesteps", 10_000)
    for name, each, wanted in zip(names[1:], (first, last, steps, begin), (SHARE, SHARE, _STEPS, _STEPS), strict=True):
        check(f"The option exploration_config[{name!r}]", each, wanted)
    return {"epsilon": [[int(begin), float(first)], [int(begin + steps), float(last)]]}


def _replay(value: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """`replay_buffer_config`: capacity, and whether by priority."""
    found = {}
    names = {
        "num_replay_buffer_shards": "num_replay_buffer_shards",
        "prioritized_replay": "prioritized",
        "capacity": "capacity",
        "learning_starts": "learning_starts",
        "prioritized_replay_alpha": "prioritized_alpha",
        "alpha": "prioritized_alpha",
        "prioritized_replay_beta": "prioritized_beta",
        "beta": "prioritized_beta",
    }
    _check_keys("replay_buffer_config", value, ("type", *names), OF_REPLAY)
    for name, today in names.items():
        if name not in value:
            continue
        if today in options:
            found[today] = value[name]
        else:
            once(f"replay_buffer_config[{name!r}]", "the algorithm has no such option")
    kind = value.get("type")
    if kind is not None and "prioritized" in options:
        found["prioritized"] = "Prioritized" in (kind if isinstance(kind, str) else kind.__name__)
    return found


def _last_epsilon(value: float, options: Mapping[str, Any]) -> dict[str, Any]:
    (first, start), (last, _) = options["epsilon"][0], options["epsilon"][-1]
    return {"epsilon": [[first, start], [last, value]]}


def _first_epsilon(value: float, options: Mapping[str, Any]) -> dict[str, Any]:
    (first, _), *later = options["epsilon"]
    return {"epsilon": [[first, value], *later]}


def _fraction(value: float, options: Mapping[str, Any]) -> dict[str, Any]:
    (first, start), (_, end) = options["epsilon"][0], options["epsilon"][-1]
    return {"epsilon": [[first, start], [value if is_searched(value) else int(value), end]]}


def _agents(value: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("policies", "policy_mapping_fn", "policies_to_train")
    _check_keys("multiagent", value, names, IGNORED)
    return {name: value[name] for name in names if name in value}


def _optimizer(value: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `optimizer`, a dict, that are options of the algorithm; the other entries are
    named once.
    """
    for name in value:
        if name not in options:
            once(f"optimizer[{name!r}]", "the algorithm has no such option")
    return {name: each for name, each in value.items() if name in options}


def _fixed(name: str, value: Any) -> dict[str, Any]:
    """Check an option with a fixed value: nothing is taken.

    Raises:
        NotImplementedError: the value is another.
    """
    values, advice = FIXED[name]
    if value not in values:
        if not advice.startswith("="):
            raise NotImplementedError(f"zray does not have {name}={value!r} of rllib yet.  {advice}")
        once(name, advice[1:])
    return {}


def _rates(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of SAC, with the rates of Ray's: `actor_lr`, `critic_lr`, or a dict of both.

    Raises:
        NotImplementedError: actor and critic have different rates.
    """
    rest = dict(given)
    for name in ("optimization", "optimization_config"):
        for key, value in (rest.pop(name, None) or {}).items():
            rest[{"entropy_learning_rate": "alpha_lr"}.get(key, key.replace("learning_rate", "lr"))] = value
    rates = {rest.pop(name) for name in ("actor_lr", "critic_lr") if name in rest}
    if len(rates) > 1:
        raise NotImplementedError("zray does not have different rates of actor and critic yet: give one as lr.")
    return {**rest, **({"lr": rates.pop()} if rates else {})}


def _layers(value: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `policy_model_config` and `q_model_config` of SAC: a single model for both."""
    layers = {key: value[key] for key in ("fcnet_hiddens", "fcnet_activation") if key in value}
    if layers:
        once("policy_model_config, q_model_config", "policy and values have the same layers, those of the last of them")
    return {"model": layers} if layers else {}


def _pytorch(value: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"framework": "torch" if value else options.get("framework", "torch")}


def _specified(value: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """`rl_module_spec`: the options of the model."""
    if value is not None and not hasattr(value, "model_config"):
        raise TypeError(
            f"rl_module_spec is an RLModuleSpec, as RLModuleSpec(model_config={{'use_lstm': True}}), not {value!r}."
        )
    model = getattr(value, "model_config", None) or {}
    if not isinstance(model, Mapping):  # DefaultModelConfig
        model = {name: each for name, each in vars(model).items() if each is not None}
    return {"model": dict(model)} if model else {}


def _filtered(value: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"observation_filter": value or "NoFilter"}


# Options that are computed from a former one: name -> function of (value, options) that gives today's.
CONVERTED: dict[str, Callable[[Any, Mapping[str, Any]], dict[str, Any]]] = {
    "use_gae": lambda value, options: {} if value else {"lambda_": 1.0},
    "exploration_config": _epsilon,
    "epsilon_timesteps": _fraction,
    "final_epsilon": _last_epsilon,
    "exploration_final_eps": _last_epsilon,
    "replay_buffer_config": _replay,
    "multiagent": _agents,
    "use_pytorch": _pytorch,
    "optimizer": _optimizer,
    "rl_module_spec": _specified,
    "use_kl_loss": lambda value, options: {} if value else {"kl_coeff": 0.0},
    "initial_epsilon": _first_epsilon,
    **dict.fromkeys(("policy_model_config", "q_model_config", "policy_model", "Q_model"), _layers),
    "filter_observations": _filtered,
    "vf_share_layers": lambda value, options: {"model": {"vf_share_layers": value}},
}


# The ranges of numbers that are converted.
_RANGES: dict[str, Range] = {
    **dict.fromkeys(("initial_epsilon", "final_epsilon", "exploration_final_eps", "exploration_fraction"), SHARE),
    **dict.fromkeys(("epsilon_timesteps", "schedule_max_timesteps"), _STEPS),
}
# Former options that are computed from one which not all algorithms have.
_NEEDED = {
    **dict.fromkeys(("initial_epsilon", "epsilon_timesteps", "final_epsilon", "exploration_final_eps"), "epsilon"),
    "use_gae": "lambda_",
    "use_kl_loss": "kl_coeff",
}


def _without(name: str, kind: str) -> dict[str, Any]:
    """Report an option that the algorithm does not have, in a line of the log: nothing is taken."""
    once(name, f"{kind or 'the algorithm'} has no such option")
    return {}


def common_defaults() -> dict[str, Any]:
    """Return the options of all algorithms, with defaults."""
    return {name: option.default for name, option in OPTIONS.items() if option.default is not UNSET}


_FORMER = {former: name for name, option in OPTIONS.items() for former in option.former}
_said: set[str] = set()


def once(name: str, reason: str, what: str = "changes nothing") -> None:
    """Log a line once in the life of the process: an option is taken, without the effect that a user may expect.

    Args:
        name: of the option.
        reason: why the effect is missing; empty: nothing is said.
        what: the missing effect.
    """
    if reason and name not in _said:
        _said.add(name)
        logger.warning("The option %r %s: %s.", name, what, reason)


def today_name(name: str, options: Mapping[str, Any]) -> str:
    """Return today's name of an option; the name itself, where the algorithm has the option or no other
    name is known.
    """
    return name if name in options else _FORMER.get(name, name)


def translated(given: Mapping[str, Any], options: Mapping[str, Any], place: str, kind: str = "") -> dict[str, Any]:
    """Return options in today's spelling.

    Args:
        given: options in any spelling.
        options: the options of the algorithm, with values.
        place: the taker of the options, for messages: "PPOConfig.training".
        kind: the algorithm's name.

    Raises:
        TypeError: an option is unknown.
        NotImplementedError: an option does not exist yet.
    """
    found: dict[str, Any] = {}
    whole = {**options}
    rest = dict(given)
    for name, wanted in _RANGES.items():
        if name in rest and not is_searched(rest[name]):
            check(f"The option {name!r} of {kind or place}", rest[name], wanted)
    if "schedule_max_timesteps" in rest or "exploration_fraction" in rest:  # 2018: the product is a number of steps
        steps = rest.pop("schedule_max_timesteps", 100_000) * rest.pop("exploration_fraction", 0.1)
        rest["epsilon_timesteps"] = steps
    if "tau" in options:
        rest = _rates(rest)
    for name in ("lr", "entropy_coeff"):
        rest.update(_scheduled(name, rest, options))
    for name, value in rest.items():
        if name == "rollout_fragment_length" and value == "auto":
            made = {}  # a default of Ray: the steps follow from train_batch_size, where there is one
        elif name in options:
            made = {name: value}
        elif name in CONVERTED:
            made = (
                CONVERTED[name](value, whole) if _NEEDED.get(name, name) in (name, *options) else _without(name, kind)
            )
        elif name in ABSENT:
            if value not in (None, "sampler", {}, []):
                raise NotImplementedError(f"zray does not have the option {name!r} of rllib yet.  {ABSENT[name]}")
            made = {}
        elif name.endswith("_schedule") and value is None:
            made = {}
        elif name in FIXED:
            made = _fixed(name, value)
        elif name in IGNORED:
            if not _is_neutral(name, value, kind):
                once(name, IGNORED[name])
            made = {}
        elif (today := _FORMER.get(name, name)) in OPTIONS:
            if today not in options:
                _without(name, kind)
            made = {today: value}
        else:
            raise TypeError(unknown(place, name, options))
        for key, each in made.items():
            found[key] = whole[key] = _value(key, each, kind)
    return found


def _value(name: str, value: Any, kind: str) -> Any:
    if name == "entropy_coeff" and kind in ("A2C", "A3C") and isinstance(value, (int, float)) and value < 0:
        return -value  # until 2018 the loss had the entropy with this sign
    if name == "epsilon" and SHARE.is_number(value):
        return [[0, float(value)]]
    if name in ("observation_space", "action_space") and value is not None:
        once(name, "the spaces are those of the environment")
    if name == "batch_mode" and value not in ("truncate_episodes", "complete_episodes"):
        raise ValueError(f'batch_mode is "truncate_episodes" or "complete_episodes", not {value!r}.')
    if name == "evaluation_duration_unit" and value not in ("episodes", "timesteps"):
        raise ValueError(f'evaluation_duration_unit is "episodes" or "timesteps", not {value!r}.')
    if name == "framework":
        if value in ("tf", "tf2", "tfe"):
            once("framework", TF)
        elif value not in ("torch", None):
            raise ValueError(f'The framework is "torch", not {value!r}.')
        return "torch"
    if name in ("evaluation_interval", "min_sample_timesteps_per_iteration"):
        return value or 0
    return value


def _scheduled(name: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schedule of an option, given under its own name or in the place of a number: [[steps, value], ...]."""
    schedule = given.get(f"{name}_schedule") or given.get(name)
    if not isinstance(schedule, (list, tuple)):
        return {}
    points = checked_schedule(f"{name}_schedule", schedule)
    if f"{name}_schedule" in options:
        return {name: points[0][1], f"{name}_schedule": points}
    if all(point[1] == points[0][1] for point in points):
        return {name: points[0][1], f"{name}_schedule": None}
    raise NotImplementedError(f"zray does not have {name}_schedule of this algorithm yet: give a number as {name}.")


def _algorithms_with(name: str) -> list[str]:
    """Return the algorithms with an option of their own."""
    from .algorithms.registry import get_algorithm_class
    from .doors import ALGORITHMS

    return [each for each in ALGORITHMS.values() if name in get_algorithm_class(each).config_class.defaults]


def unknown(place: str, name: str, options: Mapping[str, Any]) -> str:
    """Return the message for an unknown option: the nearest option, and the owning method."""
    today = {*options, *OPTIONS}
    meant = OTHERS.get(name, "").split()
    for own in meant:
        if own in options:
            owner = OPTIONS[own].owner if own in OPTIONS else "training"
            form = f", as {options[own]}" if isinstance(options[own], list) else ""
            return f"{place} has no option {name!r}.  It is {own!r} here, of {owner}(){form}."
    if meant and (names := _algorithms_with(meant[0])):
        return f"{place} has no option {name!r}.  It is {meant[0]!r} of {' and '.join(names)}."
    if names := _algorithms_with(name):
        return f"{place} has no option {name!r}.  It is one of {' and '.join(names)}."
    near = difflib.get_close_matches(name, sorted(today), 1) or difflib.get_close_matches(name, sorted(_FORMER), 1)
    text = f"{place} has no option {name!r}."
    if near:
        own = _FORMER.get(near[0], near[0])
        owner = OPTIONS[own].owner if own in OPTIONS else "training"
        same = f", which is {own!r} today," if own != near[0] else ","
        text += f"  Near: {near[0]!r}{same} of {owner}()."
    return text
