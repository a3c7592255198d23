"""Checkpoints of algorithms: weights and filters in a file of msgpack, and the rest of the state in a pickle."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import torch

from ..tune.saving import complete_save
from .devices import on_cpu
from .global_random import Streams
from .keywords import check_keywords
from .other_environments import differing
from .spellings import logger
from .weight_files import FILE, blanks, check_finite_parts, read_modules, write_weights

__all__ = ["STATE", "Checkpoints", "read_state"]

STATE = "algorithm_state.pkl"
# Algorithms whose learners have states of their own form; classes of users may be derived from them.
_LEARNERS = frozenset(("PPO", "A2C", "A3C", "DQN", "SAC", "ES"))
# The parts that the pickle of a checkpoint of each version has.
_PARTS = ("filter", "learner", "rng", "episodes", "steps_sampled", "groups", "config", "algorithm")


def read_state(folder: str) -> dict[str, Any]:
    """The state of an algorithm in the folder of a checkpoint.

    Raises:
        FileNotFoundError: the folder lacks a file.
        ValueError: a file is damaged, is another program's, or needs a module that is not here.
    """
    path = os.path.join(complete_save(folder), STATE)
    if not os.path.exists(path):
        raise FileNotFoundError(_no_checkpoint(folder))
    advice = f"Start from an earlier checkpoint; {FILE} beside it has the weights alone (read_weights)"
    try:
        with open(path, "rb") as file:
            state = pickle.load(file)
    except OSError:
        raise
    except Exception as error:
        wrong = "is damaged"
        if isinstance(error, (ImportError, AttributeError)):
            wrong, advice = "cannot be read", "Make the module importable, as in the program that saved it"
        raise ValueError(
            f"The file {path} of a checkpoint {wrong}: {type(error).__name__}: {error}.  {advice}."
        ) from error
    lacks = [name for name in _PARTS if name not in state] if isinstance(state, dict) else _PARTS
    if lacks:
        raise ValueError(
            f"The file {path} holds no checkpoint of an algorithm but {type(state).__name__} without "
            f"{', '.join(lacks)}: another program has written it.  {advice}."
        )
    state["weights_file"] = os.path.join(folder, STATE if "weights" in state else FILE)
    if "weights" not in state:  # former checkpoints have them, and whole filters, in the pickle
        state["weights"], state["filter"] = read_modules(folder, state["filter"])
    return state


def _no_checkpoint(folder: str) -> str:
    """The message about a folder without the state of an algorithm."""
    advice = "Pass the path that algo.save() returned, or the path of a result's checkpoint."
    if not os.path.isdir(folder):
        wrong = "is no folder of a checkpoint, but a file" if os.path.exists(folder) else "does not exist"
        return f"The path {folder} {wrong}: there is no algorithm to restore.  {advice}"
    inner = sorted(each for each in os.listdir(folder) if os.path.exists(os.path.join(folder, each, STATE)))
    near = f"  Checkpoints are in it: {', '.join(inner[-3:])}." if inner else f"  {advice}"
    return f"The folder {folder} is no checkpoint of an algorithm: no {STATE} is in it.{near}"


def _shapes_of(weights: dict[str, Any], prefix: str = "") -> dict[str, tuple[int, ...]]:
    """The shapes of weights by name; those of several policies by both names."""
    found: dict[str, tuple[int, ...]] = {}
    for name, value in weights.items():
        if isinstance(value, dict):
            found.update(_shapes_of(value, f"{prefix}{name}/"))
        else:
            found[f"{prefix}{name}"] = np.shape(value)
    return found


def number_of(trial_id: str | None) -> int | None:
    """The number of a trial in its experiment; None: no trial.  Ids of experiments are random without a seed."""
    number = str(trial_id).rpartition("_")[2]
    return int(number) if number.isdecimal() else None


def _whole(sequence: np.random.SeedSequence) -> int:
    return int(sequence.generate_state(1)[0])


def packed(kind: type) -> tuple[str, bytes, str]:
    """The name of a class; its pickle, by value for one of the program's own file; and why there is no pickle."""
    import cloudpickle

    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        return name, cloudpickle.dumps(kind), ""
    except Exception as error:  # a class may refer to anything
        return name, b"", f"{type(error).__name__}: {error}"


def class_of(state: dict[str, Any], asked: Any = None) -> Any:
    """The class of a saved algorithm.

    Args:
        asked: the class whose `from_checkpoint` is called; a program's own class counts above the saved one.

    Raises:
        ValueError: the class cannot be had.
    """
    is_own = asked is not None and not asked.__module__.startswith("zray.")
    if "class" not in state:  # absent in former checkpoints
        return asked if is_own else state["config"].algo_class
    name, pickled, wrong = state["class"]
    found: Any = None
    if pickled:
        try:
            found = pickle.loads(pickled)
        except Exception as error:  # a module that is absent, or has changed
            wrong = f"{type(error).__name__}: {error}"
    if is_own and not (found is not None and issubclass(found, asked)):
        return asked
    if found is None:
        raise ValueError(
            f"The checkpoint is of the class {name}, which cannot be had: {wrong}.  Make its module importable, or "
            f"call from_checkpoint of the class: {name.rpartition('.')[2]}.from_checkpoint(path)."
        )
    return found


def _check_kin(name: str, kind: type) -> None:
    """Refuse the state of the algorithm `name` for a class with another learner."""
    if name in _LEARNERS and name not in {base.__name__ for base in kind.__mro__}:
        raise ValueError(
            f"The checkpoint is of {name}, and this algorithm is {kind.__name__}: build a {name}, or use "
            "Algorithm.from_checkpoint, which does so."
        )


class Checkpoints:
    """Saves an algorithm, and lets an algorithm go on from what was saved."""

    def save_checkpoint(self: Any, checkpoint_dir: str) -> None:
        """Write everything that the next iterations depend on into a folder, which is made."""
        if getattr(self.rollouts, "num_workers", 0) and not self.rollouts.actors:
            self.check_is_live()  # the environments were in processes that have ended
        os.makedirs(checkpoint_dir, exist_ok=True)
        state = {
            "filter": blanks(self.policy.filter),
            "learner": on_cpu(self.learner_state()),
            "rng": self.rng,
            "streams": self.streams.states,
            "episodes": list(self.episodes),
            "steps_sampled": self.steps_sampled,
            "agent_steps_sampled": self.agent_steps_sampled,
            "groups": self.rollouts.state(),
            "config": self.algorithm_config,
            "algorithm": type(self).__name__,
            "class": packed(self.own_class),
            "threads": torch.get_num_threads(),
            "trial": self.trial_id,
        }
        import cloudpickle

        with open(os.path.join(checkpoint_dir, STATE), "wb") as file:
            cloudpickle.dump(state, file)
        policies = {name: self.get_policy(name) for name in self.policy_ids()}
        weights = {name: policy.get_weights() for name, policy in policies.items()}
        write_weights(checkpoint_dir, weights, {name: policy.filter for name, policy in policies.items()})

    def _check_state(self: Any, state: dict[str, Any]) -> None:
        """Refuse the state of something else, before anything is changed.

        Raises:
            ValueError: it is another algorithm's, its weights have other shapes, or a number is not finite.
        """
        _check_kin(state["algorithm"], type(self))
        own, saved = _shapes_of(self.policy.get_weights()), _shapes_of(state["weights"])
        unlike = [
            f"{part} {saved.get(part, 'absent')} there, {own.get(part, 'absent')} here"
            for part in dict.fromkeys((*saved, *own))
            if saved.get(part) != own.get(part)
        ]
        if unlike:
            more = " ..." if len(unlike) > 3 else ""
            raise ValueError(
                f"The networks of the checkpoint have other shapes than those of this algorithm: "
                f"{'; '.join(unlike[:3])}{more}.  Give the same model, observations and actions as then."
            )
        several = isinstance(state["filter"], dict)
        for name in self.policy_ids():
            weights, found = ((part[name] if several else part) for part in (state["weights"], state["filter"]))
            check_finite_parts(state["weights_file"], name, self.get_policy(name), weights, found)

    def load_checkpoint(self: Any, checkpoint: Any) -> None:
        """Go on from a checkpoint."""
        state = read_state(str(checkpoint))
        self._check_state(state)
        self.policy.set_weights(state["weights"])
        self.policy.filter = state["filter"]
        self.set_learner_state(state["learner"])
        self.rng = state["rng"]
        self.streams.states = state.get("streams", self.streams.states)
        self.episodes.clear()
        self.episodes.extend(state["episodes"])
        self.steps_sampled = state["steps_sampled"]
        self.agent_steps_sampled = state.get("agent_steps_sampled", 0)
        other = differing(state["config"], self.algorithm_config)
        if other:
            logger.warning(
                "The checkpoint has another %s than this algorithm: training goes on with the weights of the "
                "checkpoint, in new episodes of the environments of this algorithm.",
                " and another ".join(other),
            )
        else:
            self.rollouts.set_state(state["groups"])
        saved, own = (number_of(each) for each in (state.get("trial"), self.trial_id))
        if None not in (saved, own) and saved != own:  # as by PBT: two trials with the same numbers explore the same
            self.reseed(self.config["seed"], own, self.steps_sampled)
        self._tell("on_checkpoint_loaded")

    def reseed(self: Any, *seeds: int) -> None:
        """Draw other random numbers from here on: actions, first states, minibatches.  The weights stay.

        Args:
            seeds: numbers, at least 0, from which all that is drawn follows.
        """
        parts = iter(np.random.SeedSequence([*seeds, 9_000_011]).spawn(4 + 2 * len(self.policy_ids())))
        learners = [self, *getattr(self, "members", {}).values()]
        for learner in learners:
            learner.rng = np.random.default_rng(next(parts))
        for learner in learners:
            if hasattr(getattr(learner, "memory", None), "reseed"):
                learner.memory.reseed(_whole(next(parts)))
        self.streams.states = Streams(_whole(next(parts))).states
        self.rollouts.reseed(_whole(next(parts)))

    def export_policy_model(self: Any, export_dir: str, policy_id: str = "default_policy", onnx: Any = None) -> None:
        """Write the model of a policy as `model.pt` into a folder, which is made."""
        self.get_policy(policy_id).export_model(export_dir, onnx)

    def export_policy_checkpoint(self: Any, export_dir: str, policy_id: str = "default_policy", **former: Any) -> None:
        """Write a policy into a folder, which is made; `Policy.from_checkpoint` reads it."""
        self.get_policy(policy_id).export_checkpoint(export_dir, **former)

    def export_model(self: Any, export_formats: Any, export_dir: str | None = None) -> dict[str, str]:
        """Write the policy, and return the folder of each form.

        Args:
            export_formats: forms, as ["model", "checkpoint"].
            export_dir: the folder; None: that of the trial.

        Raises:
            ValueError: another form.
        """
        writers = {"model": self.export_policy_model, "checkpoint": self.export_policy_checkpoint}
        formats = [export_formats] if isinstance(export_formats, str) else list(export_formats)
        for each in formats:
            if each not in writers:
                raise ValueError(f"The forms of export_model are 'model' and 'checkpoint', not {each!r}.")
        folders = {each: os.path.join(export_dir or self.logdir, each) for each in formats}
        for each, folder in folders.items():
            writers[each](folder)
        return folders

    def get_state(self: Any, *args: Any, **ignored: Any) -> dict[str, Any]:
        """The weights, the state of the learner and the iteration; a checkpoint has the environments too."""
        return {"learner_group": self.learner_group.get_state(), "training_iteration": self.iteration}

    def set_state(self: Any, state: dict[str, Any]) -> None:
        """Take a state of `get_state`."""
        self.learner_group.set_state(state["learner_group"])
        self._iteration = state["training_iteration"]

    def save_to_path(self: Any, path: Any = None) -> str:
        """Save into a folder, and return its path."""
        return str(self.save(None if path is None else os.fspath(path)))

    def restore_from_path(self: Any, path: Any) -> None:
        """Go on from the checkpoint in a folder."""
        self.restore(path)

    @classmethod
    def from_checkpoint(cls, path: Any = None, *, checkpoint: Any = None, **former: Any) -> Any:
        """Make the algorithm of the checkpoint in the folder `path`; the next iterations are those after the save.

        Its class is that of the saved algorithm.  A class of the program that is called, as `My.from_checkpoint`, is
        used in any case.  `checkpoint` is Ray's name of `path`, which may be a Checkpoint too.

        Raises:
            ValueError: the checkpoint cannot be read, or its class cannot be had.
            NotImplementedError: some of the policies are asked for.
        """
        instead = "Build the algorithm, and take weights: algo.set_weights(other.get_weights([...]))."
        check_keywords(
            "from_checkpoint",
            former,
            policy_ids=instead,
            policy_mapping_fn=instead,
            policies_to_train=instead,
        )
        path = checkpoint if path is None else path
        if path is None:
            raise TypeError("from_checkpoint takes the path of a checkpoint.")
        folder = str(getattr(path, "path", path))
        state = read_state(folder)
        found = class_of(state, cls)
        _check_kin(state["algorithm"], found)
        made = found(state["config"].copy())
        made.restore(folder)
        return made
