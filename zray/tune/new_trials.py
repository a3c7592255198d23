"""New trials: what a searcher has suggested becomes a trial with a name and a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import events as ev
from . import naming
from .errors import TuneError
from .refs import dumps, loads
from .search.searcher import Searcher
from .trial import SavedCheckpoint, Trial
from .trial_results import is_own

if TYPE_CHECKING:
    from .controller import Controller

__all__ = ["made_trial", "suggested"]


def suggested(searcher: Searcher, trial_id: str) -> dict[str, Any] | None | str:
    """Return the suggestion of a searcher: a configuration, FINISHED, or None for none now.

    Raises:
        TuneError: the searcher is the program's, and its `suggest` has raised an error, or suggests something else.
    """
    own = searcher
    while isinstance(inner := getattr(own, "searcher", None), Searcher):
        own = inner
    name, advice = f"{type(own).__name__}.suggest", "Correct the searcher, then go on with Tuner.restore."
    try:
        found: Any = searcher.suggest(trial_id)
    except Exception as error:
        if isinstance(error, TuneError) or is_own(own):
            raise
        raise TuneError(f"{name} failed with {type(error).__name__}: {error}.  {advice}") from error
    if found is None or isinstance(found, dict) or (isinstance(found, str) and found == Searcher.FINISHED):
        return found
    raise TuneError(
        f"{name} returned {found!r:.60} ({type(found).__name__}): it returns a dict of parameters, None for none now, "
        f"or Searcher.FINISHED.  {advice}"
    )


def made_trial(controller: Controller, trial_id: str, suggestion: dict[str, Any]) -> Trial:
    """The trial of a suggestion; while a journal is replayed, the recorded configuration, name and folder count."""
    settings = controller.settings
    chosen = getattr(controller.searcher, "chosen", None) or suggestion
    recorded = controller.replayed.get(trial_id) if controller.replayed is not None else None
    if recorded is not None:
        chosen, config = loads(recorded.pickle, controller.refs)
    else:
        config = {**settings.space, **suggestion}
        first = controller.scheduler.first_values(config, len(controller.trials))
        config, chosen = _with_values(config, first), {**chosen, **first}
    trial = Trial(trial_id, settings.trainable_name, config, dict(chosen), index=len(controller.trials))
    if controller.request_of is not None:
        trial.placement_group_factory = controller.request_of(config)
    if recorded is not None and recorded.folder:
        naming.rename_trial(trial, settings, recorded.name, recorded.folder)
    else:
        naming.name_trial(trial, settings, controller.now, controller.folders, controller.former_folders)
    if recorded is None:
        pickle, folder = dumps((chosen, config), controller.refs), naming.folder_of(trial)
        controller.events.append(ev.Suggested(controller.now, trial_id, pickle, trial.name, folder))
    if settings.restore:
        trial.restore_from = SavedCheckpoint(settings.restore, settings.restored_iteration, settings.restored_time_s)
    return trial


def _with_values(config: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with more values, by their path; the given configuration is unchanged."""
    for path, value in values.items():
        config = dict(config)
        *outer, last = path.split("/")
        place = config
        for key in outer:
            place[key] = dict(place.get(key) or {})
            place = place[key]
        place[last] = value
    return config
