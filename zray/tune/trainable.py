"""The class `Trainable`: training in steps, with checkpoints.  Names of 2018 and of today."""

from __future__ import annotations

import contextlib
import glob
import inspect
import os
import pickle
import socket
import tempfile
import time
from collections.abc import Set
from typing import Any

from ..on_import import shadows
from .checkpoint import CLASS_DICT_FILE, Checkpoint
from .naming import date_of
from .parameters import with_parameters
from .pickles import dump, load
from .saving import complete_save, saving_aside
from .storage import loose_folder, pack, refusal, temporary_prefix, unpack

__all__ = ["Trainable", "with_parameters"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []

METADATA = ".tune_metadata"

# What a restore takes from a checkpoint beside the state.
_COUNTERS = ("_iteration", "_restored_iteration", "_time_total_s", "_timesteps_total", "_episodes_total")


class Trainable:
    """A training that is done in steps.

    Subclasses define `setup`, `step`, `save_checkpoint`, `load_checkpoint`, and perhaps `reset_config` and `cleanup`;
    those of 2018 define `_setup`, `_train`, `_save`, `_restore` and `_stop`.

    Args:
        config: the parameters of the trial.
        logger_creator, storage: accepted for Ray's programs; results are recorded by the experiment.

    Example:
        class Quadratic(tune.Trainable):
            def setup(self, config):
                self.x = config["x"]

            def step(self):
                self.x *= 0.9
                return {"loss": self.x**2}

            def save_checkpoint(self, folder):
                return {"x": self.x}

            def load_checkpoint(self, state):
                self.x = state["x"]
    """

    _library_keys: frozenset[str] = frozenset()  # of a result, which a library returns from `step` itself
    _returned_keys: Set[str] = frozenset()  # which the last `step` returned

    def __init__(self, config: dict[str, Any] | None = None, logger_creator: Any = None, storage: Any = None) -> None:
        del logger_creator, storage
        self.config: dict[str, Any] = config or {}
        self._iteration = 0
        self._time_total_s = 0.0
        self._timesteps_total: int | None = None
        self._episodes_total: int | None = None
        self._restored_iteration = 0
        self._experiment_id = os.urandom(8).hex()
        self._logdir = getattr(self, "_logdir", "")
        self._trial_facts: dict[str, Any] = getattr(self, "_trial_facts", {})
        self._call_setup()

    def _call_setup(self) -> None:
        if type(self).setup is Trainable.setup and hasattr(self, "_setup"):
            old = self._setup
            old(self.config) if inspect.signature(old).parameters else old()
        else:
            self.setup(self.config)

    # --- what subclasses define ---

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare the training, once for each object.

        Args:
            config: the parameters of the trial; `with_parameters` adds keyword arguments.
        """

    def step(self) -> dict[str, Any]:
        """Train a little, as one epoch.

        Returns:
            The metrics, as a dict; `{"done": True}` among them ends the trial.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method step: define it, and return a dict of metrics.")

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | str | None:
        """Save the state.

        Args:
            checkpoint_dir: an empty folder for files.

        Returns:
            None or the folder, where the state is in files; or the state itself, as a dict that can be pickled.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method save_checkpoint: define it to pause, to resume or to save trials."
        )

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Restore the state.

        Args:
            checkpoint: what `save_checkpoint` returned: the dict, or the path of the folder.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method load_checkpoint: define it to restore trials.")

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another configuration without a new object; called for `reuse_actors=True` and by PBT.

        Args:
            new_config: the parameters of the next trial.

        Returns:
            True: done.  False: not possible, and a new object is made.
        """
        return False

    def cleanup(self) -> None:
        """Give back what `setup` has taken."""

    def log_result(self, result: dict[str, Any]) -> None:
        """Log a result in a way of one's own."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """The resources of a trial, if the user gives none."""
        return None

    @classmethod
    def resource_help(cls, config: dict[str, Any]) -> str:
        """A hint about the resources of a trial."""
        return ""

    # --- what is called ---

    def train(self) -> dict[str, Any]:
        """Train one step.

        Returns:
            The metrics of `step`, and keys that are filled in: training_iteration, time_this_iter_s, time_total_s
            (seconds), date, pid, hostname, config, done, ...

        Raises:
            TypeError: `step` returned no dict.
        """
        begin = time.monotonic()
        is_old = type(self).step is Trainable.step and hasattr(self, "_train")
        result = getattr(self, "_train")() if is_old else self.step()  # noqa: B009
        if hasattr(result, "_asdict"):  # TrainingResult of 2018
            result = {key: value for key, value in result._asdict().items() if value is not None}
        if not isinstance(result, dict):
            raise TypeError(
                f"{type(self).__name__}.{'_train' if is_old else 'step'} returns a dict of metrics, not "
                f"{type(result).__name__}."
            )
        result = dict(result)
        self._returned_keys = result.keys() - self._library_keys
        self._iteration += 1
        elapsed = result.setdefault("time_this_iter_s", time.monotonic() - begin)
        self._time_total_s += elapsed
        for this, total in (("timesteps_this_iter", "_timesteps_total"), ("episodes_this_iter", "_episodes_total")):
            if result.get(this) is not None:
                setattr(self, total, (getattr(self, total) or 0) + result[this])
        if result.get("timesteps_total") is not None:
            self._timesteps_total = result["timesteps_total"]
        now = time.time()
        filled = {
            "training_iteration": self._iteration,
            "time_total_s": self._time_total_s,
            "timestamp": int(now),
            "date": date_of(now),
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "done": False,
            "config": self.config,
            "iterations_since_restore": self._iteration - self._restored_iteration,
        }
        if self._timesteps_total is not None:
            filled["timesteps_total"] = self._timesteps_total
        if self._episodes_total is not None:
            filled["episodes_total"] = self._episodes_total
        for key, value in filled.items():
            result.setdefault(key, value)
        if result.get("mean_loss") is not None:
            result.setdefault("neg_mean_loss", -result["mean_loss"])
        self.log_result(result)
        return result

    def save(self, checkpoint_dir: str | None = None, prevent_upload: bool = False) -> Any:
        """Save the state into a folder.

        Args:
            checkpoint_dir: the folder; None: a new one in the trial's folder.
            prevent_upload: accepted for Ray's programs.

        Returns:
            The path of the checkpoint, for `restore`; it is a `Checkpoint` too.

        Raises:
            OSError: the folder cannot be written; a checkpoint that was there is as it was before.
        """
        if checkpoint_dir is None:
            checkpoint_dir = os.path.join(self.logdir, f"checkpoint_{self._iteration:06d}")
        checkpoint_dir = os.fspath(checkpoint_dir)
        try:
            with saving_aside(checkpoint_dir) as folder:
                self._save_into(folder)
        except OSError as error:
            raise refusal(checkpoint_dir, error, is_own=True) from error
        return CheckpointPath(checkpoint_dir)

    def _save_into(self, checkpoint_dir: str) -> None:
        """Write all files of a checkpoint into an empty folder."""
        is_old = type(self).save_checkpoint is Trainable.save_checkpoint and hasattr(self, "_save")
        saved = getattr(self, "_save")(checkpoint_dir) if is_old else self.save_checkpoint(checkpoint_dir)  # noqa: B009
        metadata: dict[str, Any] = {
            "iteration": self._iteration,
            "time_total_s": self._time_total_s,
            "timesteps_total": self._timesteps_total,
            "episodes_total": self._episodes_total,
            "relative_path": "",
            "is_dict": isinstance(saved, dict),
        }
        if isinstance(saved, dict):
            with open(os.path.join(checkpoint_dir, CLASS_DICT_FILE), "wb") as file:
                dump(saved, file)
        elif saved is not None:
            relative = os.path.relpath(os.path.join(checkpoint_dir, os.fspath(saved)), checkpoint_dir)
            if relative.startswith(".."):
                raise ValueError(
                    f"{type(self).__name__}.save_checkpoint returned {saved}, which is not in the given folder "
                    f"{checkpoint_dir}."
                )
            metadata["relative_path"] = "" if relative == "." else relative
        with open(os.path.join(checkpoint_dir, METADATA), "wb") as file:
            pickle.dump(metadata, file)

    def restore(self, checkpoint_path: Any) -> None:
        """Restore the state, the iteration and the times from a folder of `save`.

        Args:
            checkpoint_path: what `save` returned, the path of the folder, or a `Checkpoint`.

        Raises:
            FileNotFoundError: nothing is there.
        """
        path = complete_save(getattr(checkpoint_path, "path", None) or os.fspath(checkpoint_path))
        # In 2018 a checkpoint might be what the names of files begin with.
        near = (each for each in glob.iglob(f"{glob.escape(path)}*") if not each.endswith(".unfinished"))
        if not os.path.exists(path) and not any(near):
            raise FileNotFoundError(
                f"The path {path} does not exist: there is no checkpoint of {type(self).__name__} to restore.  Pass "
                "the path that save() returned."
            )
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        metadata: dict[str, Any] = {"relative_path": "", "is_dict": False}
        before = {name: getattr(self, name) for name in _COUNTERS}
        if os.path.exists(os.path.join(folder, METADATA)):
            metadata = load(os.path.join(folder, METADATA))
            self._iteration = self._restored_iteration = metadata["iteration"]
            self._time_total_s = metadata["time_total_s"]
            self._timesteps_total = metadata["timesteps_total"]
            self._episodes_total = metadata["episodes_total"]
        state: Any = os.path.join(folder, metadata["relative_path"]) if metadata["relative_path"] else path
        if metadata["is_dict"]:
            state = load(os.path.join(folder, CLASS_DICT_FILE))
        try:
            if type(self).load_checkpoint is Trainable.load_checkpoint and hasattr(self, "_restore"):
                self._restore(state)
            else:
                self.load_checkpoint(state)
        except BaseException:  # a checkpoint that is refused leaves no trace
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def save_to_object(self) -> bytes:
        """The checkpoint as bytes, for `restore_from_object`."""
        with tempfile.TemporaryDirectory(prefix=temporary_prefix("trainable")) as folder:
            self.save(folder)
            return pack(folder)

    def restore_from_object(self, data: bytes) -> None:
        """Restore the state from the bytes of `save_to_object`."""
        with tempfile.TemporaryDirectory(prefix=temporary_prefix("trainable")) as folder:
            unpack(data, folder)
            self.restore(folder)

    def stop(self) -> None:
        """End the training.  A temporary folder made for the training is removed if empty."""
        if type(self).cleanup is Trainable.cleanup and hasattr(self, "_stop"):
            self._stop()
        else:
            self.cleanup()
        if made := getattr(self, "_made_logdir", ""):
            with contextlib.suppress(OSError):
                os.rmdir(made)

    def reset(self, new_config: dict[str, Any], logger_creator: Any = None, storage: Any = None) -> bool:
        """Begin anew with another configuration, if `reset_config` can."""
        if not self.reset_config(new_config):
            return False
        self.config = new_config
        self._iteration = self._restored_iteration = 0
        self._time_total_s = 0.0
        self._timesteps_total = self._episodes_total = None
        return True

    # --- facts ---

    @property
    def iteration(self) -> int:
        """The number of steps so far."""
        return self._iteration

    @property
    def training_iteration(self) -> int:
        """The number of steps so far."""
        return self._iteration

    @property
    def logdir(self) -> str:
        """The trial's folder."""
        if not self._logdir:
            self._logdir = self._made_logdir = loose_folder()
        return self._logdir

    @property
    def trial_id(self) -> str:
        """The trial's id; "default" outside of an experiment."""
        return str(self._trial_facts.get("trial_id", "default"))

    @property
    def trial_name(self) -> str:
        """The trial's name; "default" outside of an experiment."""
        return str(self._trial_facts.get("trial_name", "default"))

    @property
    def trial_resources(self) -> Any:
        """The trial's resources, by name."""
        return self._trial_facts.get("trial_resources", {})

    def get_config(self) -> dict[str, Any]:
        """The parameters of the trial."""
        return self.config

    def get_auto_filled_metrics(self) -> dict[str, Any]:
        """The keys that are filled in, now."""
        now = time.time()
        return {"training_iteration": self._iteration, "time_total_s": self._time_total_s, "date": date_of(now)}


class CheckpointPath(str):
    """The path of a checkpoint: text, as `Trainable.save` returned for years, and with the names of a `Checkpoint`."""

    @property
    def path(self) -> str:
        """The folder."""
        return str(self)

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint."""
        return Checkpoint(str(self))

    def to_directory(self, path: str | None = None) -> str:
        """Copy the files into a folder."""
        return self.checkpoint.to_directory(path)

    def as_directory(self) -> Any:
        """The folder, to read from."""
        return self.checkpoint.as_directory()


shadows.name_absent(__name__)
