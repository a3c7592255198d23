"""The actor of a trial: it runs a function or a class, and answers with batches of results."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import shutil
import sys
import traceback
from typing import TYPE_CHECKING, Any

from . import naming, session, storage
from .checkpoint import Checkpoint, check_folder, persist
from .functions import FunctionRun
from .metrics import recordable
from .output import TrialOutput
from .registry import learn_names
from .resources import PlacementGroupFactory  # noqa: F401  an assignment holds one, so each process needs the module

if TYPE_CHECKING:
    from .trainable import Trainable

__all__ = ["Assignment", "Batch", "TrialActor", "actor_class_of", "is_class"]

# Each trial may have a process of its own: the fork server imports this module once for all of them.
IS_PRELOADED = True

# A call of `next` comes back after this time without a result, so that a stop is heeded.
POLL_SECONDS = 2.0
# A function that does not report ends with its process after this time.
STOP_SECONDS = 2.0
# An error is recorded in four files: its text and one line of it have so many characters, its pickle so many bytes.
ERROR_MAX, LINE_MAX, PICKLE_MAX = 64 << 10, 16 << 10, 256 << 10


class Assignment(dict[str, Any]):
    """The facts of a trial for an actor, as a plain dict.

    trainable: the function or class.  config.  facts: names, ids, folder.  checkpoint: its folder, or "".
    packed: the checkpoint's files, where folders are not shared.  iteration, time_total_s: where the trial goes on.
    changes_folder: whether the working directory is the trial's folder.  program: its host name and process id.
    saves: the number of checkpoints so far.  frequency: class trainables save after so many steps; 0: when asked.
    """


# results: (iteration, metrics, seconds, total seconds, path of a checkpoint, files of it where folders are not shared)
Batch = dict[str, Any]


def is_class(trainable: Any) -> bool:
    """Whether a trainable is a class with steps, not a function."""
    return isinstance(trainable, type)


def actor_class_of(trainable: Any) -> type[TrialActor]:
    """Return the class of a trial's actor: a library has its own, whose module the fork server imports."""
    named = getattr(trainable, "_trial_actor_class", None)
    return named() if is_class(trainable) and named is not None else TrialActor


class TrialActor:
    """Runs one trial after the other; is made remote with the resources of the trial."""

    def __init__(self) -> None:
        self._function: FunctionRun | None = None
        self._object: Trainable | None = None
        self._assignment: dict[str, Any] = {}
        self._trainable: Any = None
        self._iteration = 0
        self._time_total_s = 0.0
        self._saves = 0
        self._identity = ""  # of the experiment that `_is_shared` is about
        self._is_shared = True
        self._output: TrialOutput | None = None
        self._made_folder = ""  # on a machine that does not see the program's
        self._home = ""  # the working directory before the first trial; empty: no trial has changed it

    def __repr__(self) -> str:
        """The label of the lines that the trial prints."""
        return str(self._assignment["facts"]["trial_name"]) if self._assignment else type(self).__name__

    def facts(self) -> dict[str, Any]:
        """The marks of results.  The program adds the address, if no two nodes have the same host name."""
        facts: dict[str, Any] = {"pid": os.getpid(), "hostname": os.uname().nodename}
        if self._assignment.get("asks_address"):
            from zray.util import get_node_ip_address

            facts["node_ip"] = get_node_ip_address()
        return facts

    def begin(self, assignment: dict[str, Any], trainable: Any, names: list[Any] | None = None) -> Batch:
        """Begin with a trial, and answer with its first results.

        Args:
            names: the ref of environments and models that the program has registered, in a list.
        """
        try:
            if names is not None:
                learn_names(names[0])
            batch = self._begin(assignment, trainable)
        except Exception as error:
            batch = _failure(error)
        return self._with_output(batch)

    def _with_output(self, batch: Batch) -> Batch:
        """The answer, with the output that the program has to write."""
        if self._output is not None and (texts := self._close_output() if batch["is_over"] else self._output.take()):
            batch["output"] = texts
        return batch

    def _begin(self, assignment: dict[str, Any], trainable: Any) -> Batch:
        self._remove_local_folder()
        self._assignment = assignment
        self._iteration, self._time_total_s = assignment["iteration"], assignment["time_total_s"]
        self._saves = assignment["saves"]
        identity = assignment["identity"]
        if identity != self._identity:
            self._identity, self._is_shared = identity, storage.is_shared(assignment["experiment_dir"], identity)
        path = assignment["checkpoint"]
        if path and not self._is_shared:
            if assignment["packed"] is None:
                return {"needs_checkpoint": True, "results": [], "is_over": False}
            path = os.path.join(self._local_folder(), "received")
            storage.unpack(bytes(assignment["packed"]), path)
        checkpoint = Checkpoint(path) if path else None
        facts = {**assignment["facts"], "trial_dir": self._folder()}
        os.makedirs(self._folder(), exist_ok=True)
        if assignment["changes_folder"]:
            self._enter_folder(assignment["program"])
        self._close_output()
        if assignment["outputs"] is not None:
            self._output = TrialOutput(self._folder() if self._is_shared else None, assignment["outputs"])
        if is_class(trainable):
            self._begin_class(trainable, assignment["config"], facts, path)
        else:
            if checkpoint is not None:
                check_folder(checkpoint.path)
            is_here = assignment["program"] == (os.uname().nodename, os.getpid())  # local mode
            keeps_thread = assignment["reuses"] and not is_here
            self._function = FunctionRun(
                trainable, assignment["config"], facts, checkpoint, self._persist, keeps_thread=keeps_thread
            )
            self._function.start()
        batch = self._next(False)
        batch["facts"] = self.facts()
        return batch

    def _close_output(self) -> dict[str, str]:
        """Close the output of an ended trial, and return the rest."""
        output, self._output = self._output, None
        if output is None:
            return {}
        output.close()
        return output.take()

    def _begin_class(self, trainable: Any, config: dict[str, Any], facts: dict[str, Any], path: str) -> None:
        reused = self._object
        self._object = None
        if reused is not None and type(reused) is trainable and assignment_reuses(self._assignment):
            reused._trial_facts, reused._logdir = facts, self._folder()
            try:
                if reused.reset(config):
                    self._object = reused
            except Exception:
                with contextlib.suppress(Exception):
                    reused.stop()
                raise
        if self._object is None:
            if reused is not None:
                reused.stop()
            made = trainable.__new__(trainable)
            made._trial_facts, made._logdir = facts, self._folder()
            made.__init__(config)
            self._object = made
        if path:
            self._restore(self._object, path)
        self._object._iteration = self._iteration
        self._object._restored_iteration = self._iteration
        session.enter(_ObjectSession(facts))

    def _restore(self, made: Trainable, path: str) -> None:
        """Load a checkpoint, as often as the program allows."""
        for left in reversed(range(1 + self._assignment.get("restore_retries", 0))):
            try:
                made.restore(path)
                return
            except Exception:
                if not left:
                    raise
                print(f"The checkpoint {path} could not be loaded, and is tried {left} times more:", file=sys.stderr)
                traceback.print_exc()

    def next(self, save: bool = False) -> Batch:
        """Let the trial go on, and answer with its next results.  save: write a checkpoint first."""
        try:
            batch = self._next(save)
        except Exception as error:
            batch = _failure(error)
        return self._with_output(batch)

    def _next(self, save: bool) -> Batch:
        if self._function is not None:
            return self._next_of_function(self._function)
        assert self._object is not None
        batch: Batch = {"results": [], "is_over": False}
        if save:
            batch["saved"] = (self._iteration, *self._save())
        result = self._object.train()
        self._iteration += 1
        own = {"training_iteration": self._iteration, "time_total_s": self._object._time_total_s}
        own["iterations_since_restore"] = self._iteration - self._object._restored_iteration
        keys = (naming.REPLACED & self._object._returned_keys) | own.keys()
        reported = {key: result[key] for key in keys if key in result}
        batch["overwritten"] = self._overwritten(reported, own)
        result["training_iteration"] = self._iteration
        elapsed = float(result.get("time_this_iter_s", 0.0))
        self._time_total_s += elapsed
        saved: tuple[str, Any] = ("", None)
        metrics = recordable({key: value for key, value in result.items() if key not in _FILLED})
        frequency = self._assignment["frequency"]
        failure: Batch = {}
        if frequency and self._iteration % frequency == 0:
            try:
                saved = self._save()
            except Exception as error:  # the result stands
                failure = {**_failure(error), "fails": True}
        results = [(self._iteration, metrics, elapsed, self._time_total_s, *saved)]
        return {**batch, **failure, "results": results}

    def _next_of_function(self, run: FunctionRun) -> Batch:
        results, overwritten = [], set[str]()
        for metrics, saved, elapsed in run.take(POLL_SECONDS):
            self._iteration += 1
            if not metrics.keys().isdisjoint(naming.REPLACED):
                # A result of `Algorithm.train()`, which is reported as it is, has such keys of its own.
                found = {"training_iteration"} & metrics.keys() if _OF_TRAIN <= metrics.keys() else metrics
                reported = {key: metrics[key] for key in found}
                overwritten.update(self._overwritten(reported, {"training_iteration": self._iteration}))
            elapsed = metrics.pop("time_this_iter_s", elapsed)
            self._time_total_s += elapsed
            results.append((self._iteration, metrics, elapsed, self._time_total_s, *(saved or ("", None))))
        batch: Batch = {"results": results, "is_over": run.is_over, "overwritten": sorted(overwritten)}
        if run.is_over and run.error is not None:
            batch.update(_failure(run.error), results=results)
        if run.is_over:
            self._function = None
            session.leave()
            self._remove_local_folder()
        return batch

    def _overwritten(self, reported: dict[str, Any], known: dict[str, Any]) -> list[str]:
        """The reported metrics that are replaced by others, since results have such keys of their own.

        known: values of the result beside those that every trial has.
        """
        keys = naming.REPLACED & reported.keys()
        found = [key for key in keys if key not in known or _differs(reported[key], known[key])]
        if not found:  # each step of a class
            return []
        kept = {"trial_id": self._assignment["facts"]["trial_id"], "config": self._assignment["config"]}
        kept.update(pid=os.getpid(), hostname=os.uname().nodename)
        return sorted(key for key in found if key not in kept or _differs(reported[key], kept[key]))

    def halt(self, save: bool = False) -> dict[str, Any]:
        """Stop the trial.  save: write a checkpoint first; a function has only those that it has reported.

        Returns:
            "checkpoint": (folder, files), or None.  "is_stopped": False: its thread goes on, and the process must end.
        """
        checkpoint = None
        is_stopped = True
        if self._function is not None:
            is_stopped = self._function.stop(STOP_SECONDS)
            self._function = None
        elif self._object is not None:
            try:
                if save:
                    checkpoint = self._save()
                if not assignment_reuses(self._assignment):
                    self._object.stop()
                    self._object = None
            except Exception as error:
                return {"checkpoint": None, "is_stopped": True, "output": self._close_output(), **_failure(error)}
        session.leave()
        self._remove_local_folder()
        output = self._close_output()
        return {"checkpoint": checkpoint, "is_stopped": is_stopped, "iteration": self._iteration, "output": output}

    def close(self) -> None:
        """End the object of a class, before the process ends."""
        if self._object is not None:
            self._object.stop()
            self._object = None
        self._remove_local_folder()

    # --- checkpoints ---

    def _folder(self) -> str:
        return str(self._assignment["facts"]["trial_dir"]) if self._is_shared else self._local_folder()

    def _local_folder(self) -> str:
        """The folder of a trial on a machine that does not see the program's."""
        if not self._made_folder:
            self._made_folder = storage.process_folder(self._assignment["facts"]["trial_id"])
        return self._made_folder

    def _remove_local_folder(self) -> None:
        """Remove the local folder of a trial that has ended, or has left the process."""
        if self._home:
            os.chdir(self._home)
        if self._made_folder:
            shutil.rmtree(self._made_folder, ignore_errors=True)
            self._made_folder = ""
            storage.sweep()

    def _enter_folder(self, program: tuple[str, int]) -> None:
        """Make the trial's folder the working directory, so that files of several trials have places of their own.

        program: host name and process id.  In local mode the trial runs there, and the program's directory stays.
        """
        if program == (os.uname().nodename, os.getpid()):
            return
        if not self._home:
            self._home = os.environ["TUNE_ORIG_WORKING_DIR"] = os.getcwd()
            # Modules of the program are still found there.
            sys.path[:] = [self._home if entry in ("", ".") else entry for entry in sys.path]
        os.chdir(self._folder())

    def _next_path(self) -> str:
        path = naming.checkpoint_folder(str(self._assignment["facts"]["trial_dir"]), self._saves)
        self._saves += 1
        return path

    def _persist(self, checkpoint: Checkpoint) -> tuple[str, Any]:
        """Copy a function's checkpoint to the trial's folder, or pack its files for the program."""
        path = self._next_path()
        if not self._is_shared:
            packed = storage.pack(checkpoint.path)
            if checkpoint._is_temporary:
                shutil.rmtree(checkpoint.path, ignore_errors=True)
            return path, packed
        try:
            persist(checkpoint, path)
        except OSError as error:
            raise storage.refusal(path, error) from error
        return path, None

    def _save(self) -> tuple[str, Any]:
        """Save the object of a class."""
        assert self._object is not None
        path = self._next_path()
        target = path if self._is_shared else os.path.join(self._local_folder(), "saved")
        unfinished = f"{target}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            self._object.save(unfinished)
            shutil.rmtree(target, ignore_errors=True)
            os.rename(unfinished, target)
        except BaseException as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if isinstance(error, OSError):
                raise storage.refusal(target, error) from error
            raise
        if self._is_shared:
            return path, None
        packed = storage.pack(target)
        shutil.rmtree(target, ignore_errors=True)
        return path, packed


_FILLED = naming.REPLACED | {"time_this_iter_s"}


def _differs(value: Any, other: Any) -> bool:
    """Whether two values evidently differ: a dict with arrays has no answer."""
    try:
        return bool(value != other)
    except Exception:
        return False


_OF_TRAIN = {"timestamp", "date", "pid"}


def assignment_reuses(assignment: dict[str, Any]) -> bool:
    """Whether the object may be used for another trial."""
    return bool(assignment.get("reuses", False))


class _ObjectSession:
    """The session of a class trainable: it tells the trial's identity, and returns the trial's results."""

    checkpoint: Checkpoint | None = None

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None) -> None:
        raise RuntimeError("A class trainable returns its metrics from step: report is for functions.")


def _failure(error: BaseException) -> Batch:
    """An error, as text without the frames of this package, and as a pickle."""
    lines = traceback.TracebackException.from_exception(error)
    own = os.path.dirname(__file__)
    kept = [frame for frame in lines.stack if not frame.filename.startswith(own)]
    lines.stack = traceback.StackSummary.from_list(kept)
    return {"results": [], "is_over": True, "error": cut_text("".join(lines.format())), "pickle": _pickled(error)}


def _pickled(error: BaseException) -> bytes:
    """Return an error as raised, with a bounded text; empty: the error cannot be pickled."""
    try:
        if len(error.args) == 1 and isinstance(error.args[0], str) and len(error.args[0]) > ERROR_MAX:
            error = copy.copy(error)
            error.args = (cut_text(error.args[0]),)
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return b""
    return pickled if len(pickled) <= PICKLE_MAX else b""


def cut_text(text: str) -> str:
    """Return a bounded text, with its beginning and end.  Lines are cut too: the last line says what happened."""
    if len(text) <= ERROR_MAX:
        return text
    lines = [line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]} [... cut]" for line in text.splitlines()]
    text = "\n".join(lines) + "\n" * text.endswith("\n")
    if len(text) > ERROR_MAX:
        text = f"{text[: ERROR_MAX // 2]}\n[...]\n{text[-ERROR_MAX // 2 :]}"
    return text
