"""An experiment: the common core of Tuner, tune.run and run_experiments."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

import zray

from . import clock, folder_lock, mirror, naming, storage
from . import events as ev
from .beginning import begin_folder, give_up_folder
from .controller import Controller
from .errors import TuneError, warn_program
from .interrupts import how_to_go_on
from .journal import JOURNAL, Journal, JournalWarning, read_journal
from .logger import formats_of
from .numbers import whole
from .outcomes import best_trial_of, rows_of, settle_metric
from .recorded_files import folders_of_trials
from .records.files import TrialFiles
from .recovery import FolderRepair
from .refs import has_lost_refs, refs_in
from .registry import check_saving, trainable_of
from .reporters import reporter_of
from .resources import resources_of
from .runner import Runner
from .schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from .search.basic_variant import BasicVariantGenerator
from .search.searcher import Searcher, set_search_properties
from .settings import Settings
from .state_file import STATE, objectives_of, pickle_of, read_state
from .stoppers import stopper_of
from .trial import Trial, TrialState, headline
from .unknown import shown
from .variants import has_unresolved_values, space_of
from .worker import is_class

__all__ = ["STATE", "RunningExperiment"]


class RunningExperiment:
    """An experiment.

    Args:
        trainable: a function, a class, or a registered name.
        space: the search space.
        settings: what the controller is told; path, trainable_name and experiment_id are filled in.
        searcher, scheduler: None: grid and random search; first in, first out.
        stop: None, thresholds, a function, or a Stopper.
        name, storage_path: the folder is the one in the other.  A URL: the experiment runs in a local folder, of which
            a copy is kept there.
        storage_filesystem: a file system of fsspec or pyarrow, in which storage_path is a path.
        upload_url: a URL where a copy is kept; empty: storage_path decides.
        run: options of the runner, by name: resources, reuses, frequency, callbacks, reporter, verbose, is_block (see
            `reporter_of`).
    """

    def __init__(
        self,
        trainable: Any,
        space: dict[str, Any],
        settings: Settings,
        *,
        searcher: Any = None,
        scheduler: Any = None,
        stop: Any = None,
        name: str | None = None,
        storage_path: str | None = None,
        storage_filesystem: Any = None,
        upload_url: str = "",
        seed: int | None = None,
        run: dict[str, Any] | None = None,
    ) -> None:
        self.trainable_name, self.trainable = trainable_of(trainable)
        check_saving(self.trainable, (run or {}).get("frequency"), settings.checkpoint_at_end)
        self.settings, self.stop, self.run_options, self.seed = settings, stop, dict(run or {}), seed
        self.is_interrupted = False
        space = space_of(self.trainable, space)
        if not isinstance(space, Mapping):
            raise TypeError(f"The search space is a dict, not {shown(space)}.")
        self.space = dict(space)
        self.refs = refs_in(self.space)
        given = os.fspath(storage_path or storage.default_storage_path())
        local = mirror.local_path(given) if storage_filesystem is None else None
        self.storage_path = local or mirror.local_folder(given)
        if not name and os.environ.get("TUNE_DISABLE_DATED_SUBDIR") == "1":
            name = self.trainable_name
        self.replaced = ""  # suffix of the records of a former experiment that this one has put away
        self.is_named = bool(name)  # by the user; otherwise the folder is a new one, whatever happens in this second
        self.name = name or f"{self.trainable_name}_{naming.date_of(time.time())}"
        url = upload_url or ("" if local else given)
        self.name = naming.experiment_name(self.name, has_url=bool(url))
        if url and not name:  # the name is a new one for all machines
            self.name = f"{self.name}_{os.urandom(3).hex()}"
        self.url = f"{url.rstrip('/')}/{self.name}" if url else ""  # of the copy; empty: there is none
        self.filesystem = storage_filesystem
        if self.url:
            mirror.open_url(self.url, storage_filesystem)
        settings.path = os.path.join(self.storage_path, self.name)
        settings.trainable_name = self.trainable_name
        settings.is_strict_metric = os.environ.get("TUNE_DISABLE_STRICT_METRIC_CHECKING") != "1"
        settings.saves_when_paused = is_class(self.trainable)
        settings.experiment_id = os.urandom(3).hex()[:5] if seed is None else f"{seed % 16**5:05x}"
        settle_metric(settings, searcher, scheduler)
        self.searcher = self._searcher(searcher)
        self.scheduler = self._scheduler(scheduler)
        self._make_controller()

    def _make_controller(self) -> None:
        self.controller = Controller(self.settings, self.searcher, self.scheduler, stopper_of(self.stop))
        self.controller.refs = self.refs
        self.controller.request_of = self._request_of

    def _request_of(self, config: dict[str, Any]) -> Any:
        """Return the resources of a trial for display; None: unknown, and the start of the trial says why."""
        try:
            return resources_of(self.trainable, self.run_options.get("resources"), config)
        except Exception:
            return None

    @property
    def path(self) -> str:
        """The experiment's folder."""
        return self.settings.path

    def take_new_name(self) -> None:
        """Let the folder be a new one, although the name is that of another experiment."""
        if self.url and self.is_named:  # names of copies are new for all machines
            self.name = f"{self.name}_{os.urandom(3).hex()}"
            self.url = f"{self.url.rpartition('/')[0]}/{self.name}"
            self.settings.path = os.path.join(self.storage_path, self.name)
        self.is_named = False

    # --- parts ---

    def _searcher(self, searcher: Any) -> Searcher:
        from .search import as_searcher

        settings = self.settings
        if searcher is None:
            searcher = BasicVariantGenerator(random_state=self.seed)
        searcher = as_searcher(searcher)
        took = set_search_properties(
            searcher,
            settings.metric,
            settings.mode,
            dict(self.space),
            num_samples=settings.num_samples,
            seed=self.seed,
        )
        if isinstance(searcher, BasicVariantGenerator):
            total = searcher.total_samples
            settings.num_samples = total if total or settings.num_samples >= 0 else -1
            settings.max_concurrent = settings.max_concurrent or searcher.max_concurrent
            settings.space = {}
        else:
            if not took and has_unresolved_values(self.space):
                raise ValueError(
                    f"{type(searcher).__name__} has a search space of its own: give a space there, or in param_space, "
                    "not in both."
                )
            settings.space = _constants(self.space)
            own = whole(f"max_concurrent of {type(searcher).__name__}", getattr(searcher, "max_concurrent", 0) or 0)
            settings.max_concurrent = settings.max_concurrent or own
        return searcher

    def _scheduler(self, scheduler: Any) -> TrialScheduler:
        if isinstance(scheduler, str):
            from .schedulers import create_scheduler

            scheduler = create_scheduler(scheduler)
        scheduler = scheduler if scheduler is not None else FIFOScheduler()
        if not isinstance(scheduler, TrialScheduler):
            raise TypeError(
                f"The scheduler is a TrialScheduler or the name of one, not {shown(scheduler)}.  Subclass "
                "tune.schedulers.TrialScheduler."
            )
        if not scheduler.set_search_properties(self.settings.metric, self.settings.mode):
            raise ValueError(
                f"{type(scheduler).__name__} and TuneConfig name different metrics or modes: "
                f"{scheduler.metric!r} ({scheduler.mode}) and {self.settings.metric!r} ({self.settings.mode}).  "
                "Name them in one place."
            )
        if scheduler.needs_metric:
            scheduler.require_metric()
        return scheduler

    # --- run ---

    def fit(self) -> None:
        """Run the experiment from its beginning.

        Raises:
            StorageError: the experiment's folder cannot be written.
        """
        if not zray.is_initialized():
            zray.init()
        data, is_new = pickle_of(self), not os.path.exists(self.path)
        clock.set_clock()
        with storage.writing(self.path, is_begun=False):
            journal = begin_folder(self, data)
        try:
            self._run(journal, [])
        except Exception:
            if not self.controller.trials:  # nothing has begun: there is nothing to go on with
                give_up_folder(self, is_new)
            raise

    def resume(
        self,
        *,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        num_samples: int = 0,
    ) -> None:
        """Go on with the experiment from its journal.

        Args:
            num_samples: samples of the search space, if they are more than before; 0: as before.
        """
        if not zray.is_initialized():
            zray.init()
        if has_lost_refs(self.space):
            raise TuneError(
                f"The search space of {self.path} holds refs (zray.put), which have ended with their session: pass it "
                "anew, as Tuner.restore(path, trainable, param_space=...)."
            )
        formats = formats_of(self.run_options.get("callbacks") or ())
        repair = FolderRepair(self.path, formats)
        with storage.writing(self.path, is_begun=True):
            journal = Journal(
                os.path.join(self.path, JOURNAL)
            )  # it takes the lock: nothing is written while it is read
            try:
                journal.cut(*self.replay(repair))
                repair.write(self.controller.get_trials())
                for trial in self.controller.get_trials():
                    TrialFiles(trial, formats=formats).add()
            except BaseException:
                journal.close()
                raise
        clock.set_clock(self.controller.now)
        event = ev.Resumed(clock.now(), resume_errored, restart_errored, resume_unfinished, num_samples)
        self._run(journal, [event])

    def replay(self, repair: Any = None) -> tuple[int, str]:
        """Restore the state from the journal.

        Args:
            repair: takes the actions by its `note`, as a `FolderRepair` to complete the folder.

        Returns:
            The offset behind its last good record, and what is wrong there; empty: nothing.
        """
        path = os.path.join(self.path, JOURNAL)
        recorded, offset, problem = read_journal(path)
        if problem:
            warn_program(
                f"The journal {path} is damaged at offset {offset}: {problem}.  All records before it are kept.  "
                "When the experiment goes on, the bytes behind it are kept in a file beside the journal.",
                JournalWarning,
            )
        elif not recorded and any(folders_of_trials(self.path)):
            warn_program(
                f"The journal {path} holds no records, though folders of trials are beside it: it was emptied or "
                "removed, and all trials run again.  Put a copy of the journal back to go on with them.",
                JournalWarning,
            )
        controller = self.controller
        controller.replayed = {event.trial_id: event for event in recorded if isinstance(event, ev.Suggested)}
        for event in recorded:
            controller.handle(_moved(event, controller.trials))
            for action in controller.actions:
                if repair is not None:
                    repair.note(action, controller.trials)
            controller.actions.clear()
        controller.events.clear()
        controller.replayed = None
        return offset, problem

    def _run(self, journal: Journal, first: list[Any]) -> None:
        storage.sweep()  # what killed processes have left
        identity, samples = os.urandom(16).hex(), self.settings.num_samples
        options = dict(self.run_options)
        is_block = options.pop("is_block", False)
        options["reporter"] = reporter_of(options.get("reporter"), options.pop("verbose", None), is_block=is_block)
        try:
            with (
                self._mirrored(is_resumed=bool(first)),
                contextlib.closing(journal),
                storage.writing(self.path, is_begun=True),
            ):
                storage.mark(self.path, identity)
                runner = Runner(self.controller, journal, self.trainable, name=self.name, identity=identity, **options)
                runner.run(first, stop=self.stop, num_samples=samples, total_num_samples=samples)
            self.is_interrupted = runner.interrupts.is_set and not self.controller.is_done
        except KeyboardInterrupt:
            self.is_interrupted = True
        if self.is_interrupted:
            how = how_to_go_on.get()(self.path)
            warn_program(f"The experiment was interrupted; go on with {how}.")

    @contextlib.contextmanager
    def _mirrored(self, *, is_resumed: bool) -> Iterator[None]:
        """Keep the copy at the URL, if requested."""
        if not self.url:
            yield
            return
        copy = mirror.Mirror(self.path, self.url, self.filesystem, is_resumed=is_resumed)
        copy.start()
        try:
            yield
        finally:
            problem = copy.close()
            if problem is not None:
                warn_program(
                    f"The copy of the experiment at {self.url} is not complete: {problem!r}.  {self.path} is complete.",
                    mirror.MirrorWarning,
                )

    # --- what is kept ---

    @classmethod
    def load(
        cls,
        path: str,
        trainable: Any = None,
        *,
        replays: bool = True,
        storage_filesystem: Any = None,
        space: Any = None,
    ) -> RunningExperiment:
        """Return the experiment in a folder.

        Args:
            path: the folder; or the URL of its copy, from which the local folder is made first.
            trainable: the function or class, if it is to go on; None: that of the first run.
            space: the search space, made anew: its refs are used.

        Raises:
            NoExperimentError: the folder holds no experiment.
            TuneError: the file of its state is damaged.
        """
        url, path = cls.locate(path, storage_filesystem)
        if url:
            mirror.fetch(url, storage_filesystem, path)
        found = read_state(path, refs_in(space))
        found.storage_path, found.name = os.path.split(path)
        found.settings.path = path
        found.url, found.filesystem = url or found.url, storage_filesystem
        if trainable is not None:
            found.trainable_name, found.trainable = trainable_of(trainable)
        found._make_controller()
        if replays:
            found.replay()
        return found

    @property
    def state(self) -> str:
        """The experiment's state, if it was replayed: "ended", "running" or "interrupted"."""
        if self.controller.is_done:
            return "ended"
        return "running" if folder_lock.is_running(self.path) else "interrupted"

    @staticmethod
    def locate(path: str | os.PathLike[str], storage_filesystem: Any = None) -> tuple[str, str]:
        """(URL, local folder) of an experiment's path; the URL is empty for a local path."""
        local = mirror.local_path(path) if storage_filesystem is None else None
        if local is not None:
            return "", local
        url = os.fspath(path).rstrip("/")
        base, _, name = url.rpartition("/")
        return url, os.path.join(mirror.local_folder(base), name)

    # --- outcomes ---

    def best_trial(
        self, metric: str | None, mode: str | None, scope: str = "last", filter_nan_and_inf: bool = True
    ) -> Trial:
        """The best trial, by `best_trial_of`; None stands for metric and mode of TuneConfig, scheduler or searcher."""
        for part in (self.settings, self.controller.scheduler, self.controller.searcher):
            own, order = getattr(part, "metric", None), getattr(part, "mode", None)
            metric = metric or (own if isinstance(own, str) else None)
            mode = mode or (order if isinstance(order, str) and metric == own else None)
        several: Any = objectives_of(self)
        mode = mode or several.get(metric)
        metric = metric or several or None
        return best_trial_of(self.controller.get_trials(), metric, mode, scope, filter_nan_and_inf)

    def rows(self, metric: str | None = None, mode: str | None = None) -> list[dict[str, Any]]:
        """Rows of the trials, a dict each, by `rows_of`."""
        return rows_of(self.controller.get_trials(), metric, mode)

    def raise_for_failures(self) -> None:
        """Raise an error that names the failed trials, if any."""
        failed = [trial for trial in self.controller.get_trials() if trial.state is TrialState.ERROR]
        if failed:
            names = ", ".join(str(trial) for trial in failed[:5]) + ", ..." * (len(failed) > 5)
            raise TuneError(
                f"Trials did not complete: {len(failed)} of {len(self.controller.trials)} have failed: [{names}].  "
                f"The first one with: {headline(failed[0].error)}"
            )


def _moved(event: Any, trials: dict[str, Trial]) -> Any:
    """The event with its checkpoint where the trial's folder is now: the experiment's folder may have been moved."""
    path = getattr(event, "checkpoint", "")
    trial = trials.get(event.trial_id) if path else None
    if trial is None or os.path.dirname(path) == trial.path:
        return event
    return msgspec.structs.replace(event, checkpoint=os.path.join(trial.path, os.path.basename(path)))


def _constants(space: dict[str, Any]) -> dict[str, Any]:
    """The part of a space in which nothing is drawn."""
    return {key: value for key, value in space.items() if not has_unresolved_values({key: value})}
