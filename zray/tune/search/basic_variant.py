"""Grid and random search."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numbers import whole
from ..unknown import checks_names
from ..variants import check_space, grid_count, variant
from .points import check_points
from .searcher import Searcher, settled_seed

__all__ = ["BasicVariantGenerator"]


@checks_names("BasicVariantGenerator")
class BasicVariantGenerator(Searcher):
    """The cross product of all grids, `num_samples` times, with distributions drawn anew for each trial.

    Args:
        points_to_evaluate: configurations that come first; missing parameters are drawn, and a missing grid is tried
            whole.
        max_concurrent: the number of trials at once; 0: as many as there are resources for.
        constant_grid_search: whether distributions are drawn once for a whole grid.
        random_state: the seed; None: that of the experiment, or one from numpy's global state.
    """

    takes_expressions = True

    def __init__(
        self,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        self.points = list(points_to_evaluate or ())
        self.max_concurrent = whole("max_concurrent", max_concurrent or 0)
        self.constant_grid_search = constant_grid_search
        if isinstance(random_state, np.random.Generator):
            random_state = int(random_state.integers(2**31))
        if random_state is not None:
            random_state = whole("random_state", random_state, 0, "a numpy.random.Generator")
        self._has_seed = random_state is not None
        self.seed = settled_seed(random_state, {})
        self.space: dict[str, Any] = {}
        self._variants = 1  # of a sample of the space
        self.num_samples = 1
        self.count = 0
        self.chosen: dict[str, Any] = {}  # of the last suggestion

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        self._metric, self._mode = metric, mode
        check_space(config)
        check_points(self.points, config, "BasicVariantGenerator", keeps=True)
        if not self._has_seed and (self.count or spec.get("seed") is not None):
            self.seed = settled_seed(None, spec)
        self.count = 0  # of an experiment before
        self.space, self._variants = config, grid_count(config)
        self.num_samples = spec.get("num_samples", 1)
        return True

    @property
    def total_samples(self) -> int:
        """The number of trials; 0: no end."""
        if self.num_samples < 0:
            return 0
        rest = max(0, self.num_samples - len(self.points)) * self._variants
        return sum(grid_count(_with_point(self.space, point)) for point in self.points) + rest

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        del trial_id
        total = self.total_samples
        if total and self.count >= total or (self.num_samples == 0 and not self.points):
            return self.FINISHED
        number = self.count
        self.count += 1
        for point in self.points:
            space = _with_point(self.space, point)
            count = grid_count(space)
            if number < count:
                rng = np.random.default_rng([self.seed, self.count - 1])
                self.chosen, config = variant(space, number, rng)
                self.chosen = {**point, **self.chosen}
                return config
            number -= count
        sample, place = divmod(number, self._variants)
        drawn = sample if self.constant_grid_search else self.count - 1
        self.chosen, config = variant(self.space, place, np.random.default_rng([self.seed, drawn]))
        return config


def _with_point(space: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """The space with some of its values given; keys may be paths, as "optimizer/lr"."""
    merged = dict(space)
    for key, value in point.items():
        if key in merged or "/" not in key:
            nested = isinstance(value, dict) and isinstance(merged.get(key), dict) and "grid_search" not in merged[key]
            merged[key] = _with_point(merged[key], value) if nested else value
        else:
            first, _, rest = key.partition("/")
            merged[first] = _with_point(merged.get(first, {}), {rest: value})
    return merged
