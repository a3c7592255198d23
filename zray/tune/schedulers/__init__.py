"""Trial schedulers: each in a file of its own, in the symbols of its paper."""

from typing import Any

from ..unknown import nearest, not_built
from .asha import ASHAScheduler, AsyncHyperBandScheduler
from .hyperband import HyperBandScheduler
from .median_stopping import MedianStoppingRule
from .pbt import PopulationBasedTraining
from .trial_scheduler import FIFOScheduler, TrialScheduler

__all__ = [
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "TrialScheduler",
    "create_scheduler",
]

_BY_NAME: dict[str, type[TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "asha": AsyncHyperBandScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "hyperband": HyperBandScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "medianstoppingrule": MedianStoppingRule,
    "pbt": PopulationBasedTraining,
    "populationbasedtraining": PopulationBasedTraining,
}
# Ray's names of schedulers that are not names of their modules.
_PARTS_OF_RAY = {"pbt_replay": "PopulationBasedTrainingReplay", "resource_changing": "resource_changing_scheduler"}


def create_scheduler(scheduler: str, **options: Any) -> TrialScheduler:
    """A scheduler by its name, with its options: `create_scheduler("asha", max_t=50)`.

    Args:
        scheduler: "fifo", "asha", "hyperband", "median_stopping_rule" or "pbt"; case makes no difference.
        options: arguments of the class.

    Raises:
        ValueError: no scheduler has the name.
    """
    name = scheduler.lower()
    if name not in _BY_NAME:
        if message := not_built(f"{__name__}.{_PARTS_OF_RAY.get(name, name)}", "scheduler", scheduler):
            raise ValueError(message)
        close, names = nearest(name, _BY_NAME), ", ".join(sorted(_BY_NAME))
        raise ValueError(f"No scheduler is called {scheduler!r}.{close}  The names are: {names}.")
    return _BY_NAME[name](**options)


def __getattr__(name: str) -> Any:
    from ...ray_names import absent

    raise absent.attribute_error(__name__, name)
