"""Search spaces: distributions of parameters, and grids.

    {"lr": tune.loguniform(1e-4, 1e-1), "layers": tune.grid_search([1, 2, 4]), "width": tune.choice([32, 64])}

The distributions and their bounds are Ray's.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..on_import import shadows
from .numbers import is_beyond_float, shown

__all__ = [
    "Categorical",
    "Domain",
    "Float",
    "Function",
    "Integer",
    "choice",
    "grid_search",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "sample_from",
    "uniform",
]


class Domain:
    """A distribution of one parameter."""

    def sample(self, spec: Any = None, size: int = 1, random_state: np.random.Generator | int | None = None) -> Any:
        """Draw one value, or a list of `size` values.

        Args:
            spec: the resolved part of the configuration, as `sample_from` gets it; other domains ignore it.
            size: number of values.
            random_state: a generator, or its seed; None: an unseeded one.
        """
        rng = generator_of(random_state)
        values = [self.draw(rng, spec) for _ in range(size)]
        return values[0] if size == 1 else values

    def draw(self, rng: np.random.Generator, spec: Any = None) -> Any:
        """Draw one value."""
        raise NotImplementedError

    def is_valid(self, value: Any) -> bool:
        """Whether the domain contains the value."""
        raise NotImplementedError

    def clip(self, value: Any) -> Any:
        """Move a number to the nearest number of the domain; other domains return the value unchanged."""
        return value

    @property
    def domain_str(self) -> str:
        """The bounds, as text."""
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain_str})"


def generator_of(random_state: np.random.Generator | int | None) -> np.random.Generator:
    """Return the generator itself, or one with the seed; None: with a seed from numpy's global state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(global_seed() if random_state is None else random_state)


def global_seed() -> int:
    """Draw a seed from numpy's global state: a program with a seed gets the same configurations again."""
    return int(np.random.randint(2**31 - 1))


def multiple(count: int, step: float) -> float:
    """count * step in decimals: 3 steps of 0.1 are 0.3, not 0.30000000000000004."""
    return float(count * decimal.Decimal(repr(float(step))))


def _multiples(lower: float, upper: float, step: float) -> tuple[int, int]:
    """The smallest and the largest k for which k * step lies between two bounds; rounding errors count as none.

    Raises:
        ValueError: there is none.
    """
    first, last = math.ceil(lower / step - 1e-9), math.floor(upper / step + 1e-9)
    if first > last:
        # A logarithmic interval does not begin at 0.
        begin = f"begin at {multiple(last, step):.10g} or " if last > 0 or lower <= 0 else ""
        end = f"end at {multiple(first, step):.10g}"
        raise ValueError(f"No multiple of {step} lies between {lower} and {upper}: let it {begin}{end}.")
    return first, last


def _fitting(lower: float, upper: float, step: float, *, is_log: bool) -> str:
    """Return the multiples of a step that are next to two bounds, as advice."""

    def next_to(bound: float) -> list[float]:
        count = bound / step
        if math.isclose(count, round(count), rel_tol=1e-9, abs_tol=1e-9):
            return [multiple(round(count), step)]
        return [multiple(each, step) for each in (math.floor(count), math.ceil(count)) if each > 0 or not is_log]

    begins, ends = next_to(lower), next_to(upper)
    fits = math.isclose(begins[0], lower, rel_tol=1e-9), math.isclose(ends[0], upper, rel_tol=1e-9)
    words = [] if fits[0] else ["begin at " + " or ".join(f"{each:.10g}" for each in begins)]
    if not fits[1] or not words:
        words.append("end at " + " or ".join(f"{each:.10g}" for each in ends))
    return " and ".join(words)


def _check_bounds(kind: str, *numbers: Any) -> None:
    """Refuse integers that no float can hold: nothing can be computed with them.

    Raises:
        ValueError: one of the numbers is such an integer.
    """
    for each in numbers:
        if is_beyond_float(each):
            raise ValueError(f"{kind} has numbers that a float can hold, not {shown(each)}.")


class Float(Domain):
    """A real number between two bounds, or normally distributed.

    Args:
        lower: the smallest value.
        upper: the bound above; not drawn but by rounding.
        is_log: whether the logarithm is distributed evenly.
        step: values are multiples of it; None: any value.
        normal: (mean, standard deviation) of a normal distribution; None: an even distribution.
    """

    def __init__(
        self,
        lower: float = -math.inf,
        upper: float = math.inf,
        *,
        is_log: bool = False,
        step: float | None = None,
        normal: tuple[float, float] | None = None,
    ) -> None:
        _check_bounds("An interval of floats", lower, upper, step, *(normal or ()))
        if normal is None and not (math.isfinite(lower) and math.isfinite(upper) and lower <= upper):
            raise ValueError(f"An interval of floats needs finite bounds in order, not [{lower}, {upper}].")
        if is_log and lower <= 0:
            raise ValueError(f"A logarithmic interval begins above 0, not at {lower}.")
        if step is not None and step <= 0:
            raise ValueError(f"The step is a positive number, not {step}.")
        self.lower, self.upper, self.is_log, self.step, self.normal = lower, upper, is_log, step, normal
        if step is not None and math.isfinite(lower) and math.isfinite(upper):
            self.multiples  # noqa: B018 raises where there are none
            steps = (upper - lower) / step
            if not math.isclose(steps, round(steps), rel_tol=1e-9, abs_tol=1e-9):
                advice = _fitting(lower, upper, step, is_log=is_log)
                raise ValueError(
                    f"The interval [{lower}, {upper}] is not a whole number of steps of {step}: let it {advice}."
                )

    @property
    def multiples(self) -> tuple[int, int]:
        """The smallest and the largest multiple of the step, in steps."""
        assert self.step is not None
        return _multiples(self.lower, self.upper, self.step)

    def draw(self, rng: np.random.Generator, spec: Any = None) -> float:
        if self.step is not None and self.normal is None and not self.is_log:
            return multiple(int(rng.integers(*self.multiples, endpoint=True)), self.step)  # each equally often
        if self.normal is not None:
            value = float(rng.normal(*self.normal))
        elif self.is_log:
            value = math.exp(rng.uniform(math.log(self.lower), math.log(self.upper)))
        else:
            value = float(rng.uniform(self.lower, self.upper))
        return self.clip(value)

    def is_valid(self, value: Any) -> bool:
        return isinstance(value, (int, float, np.number)) and bool(self.lower <= value <= self.upper)

    def clip(self, value: Any) -> float:
        if self.step is None:
            return float(min(max(value, self.lower), self.upper))
        count = round(value / self.step)
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            first, last = self.multiples
            count = min(max(count, first), last)
        return multiple(count, self.step)

    def quantized(self, q: float) -> Float:
        """The same distribution, rounded to multiples of q."""
        return Float(self.lower, self.upper, is_log=self.is_log, step=q, normal=self.normal)

    def uniform(self) -> Float:
        """The same interval with even distribution."""
        return Float(self.lower, self.upper, step=self.step)

    def loguniform(self) -> Float:
        """The same interval with even distribution of the logarithm."""
        return Float(self.lower, self.upper, is_log=True, step=self.step)

    @property
    def domain_str(self) -> str:
        if self.normal is not None:
            return f"normal, mean {self.normal[0]}, sd {self.normal[1]}"
        return (
            f"{self.lower}, {self.upper}" + (", log" if self.is_log else "") + (f", step {self.step}" * bool(self.step))
        )


class Integer(Domain):
    """A whole number.

    Args:
        lower: the smallest value.
        upper: the bound above, which is not drawn; with a step, the largest value.
        is_log: whether the logarithm is distributed evenly.
        step: values are multiples of it.
    """

    def __init__(self, lower: int, upper: int, *, is_log: bool = False, step: int = 1) -> None:
        _check_bounds("A range of integers", lower, upper, step)
        if is_log and lower <= 0:
            raise ValueError(f"A logarithmic range of integers begins above 0, not at {lower}.")
        if step < 1:
            raise ValueError(f"The step is a positive integer, not {step}.")
        for bound in (lower, upper):
            if not math.isfinite(bound) or int(bound) != bound:
                raise ValueError(f"The bounds of a range of integers are integers, not {bound}: use tune.uniform.")
        self.lower, self.upper, self.is_log, self.step = int(lower), int(upper), is_log, int(step)
        if self.largest < self.lower:
            raise ValueError(f"A range of integers has at least one, and [{lower}, {upper}) has none.")
        if not is_log and not -(1 << 63) <= self.lower <= self.largest < 1 << 63:
            raise ValueError(f"A range of integers lies within 64 bits with a sign, and [{lower}, {upper}) does not.")
        self.multiples  # noqa: B018 raises where there are none

    @property
    def largest(self) -> int:
        """The largest value."""
        return self.upper if self.step > 1 else self.upper - 1

    @property
    def multiples(self) -> tuple[int, int]:
        """The smallest and the largest multiple of the step, in steps."""
        return _multiples(self.lower, self.largest, self.step) if self.step > 1 else (self.lower, self.largest)

    def draw(self, rng: np.random.Generator, spec: Any = None) -> int:
        if self.is_log:
            value = math.exp(rng.uniform(math.log(self.lower), math.log(self.largest + 1)))
            return self.clip(math.floor(value) if self.step == 1 else value)
        return int(rng.integers(*self.multiples, endpoint=True)) * self.step  # each equally often

    def is_valid(self, value: Any) -> bool:
        return isinstance(value, (int, np.integer)) and bool(self.lower <= value <= self.largest)

    def clip(self, value: Any) -> int:
        first, last = self.multiples
        return int(min(max(round(value / self.step), first), last)) * self.step

    def quantized(self, q: int) -> Integer:
        """The same distribution, rounded to multiples of q; the bound above belongs to it."""
        return Integer(self.lower, self.upper, is_log=self.is_log, step=q)

    @property
    def domain_str(self) -> str:
        return (
            f"{self.lower}, {self.upper}" + (", log" if self.is_log else "") + f", step {self.step}" * (self.step > 1)
        )


class Categorical(Domain):
    """A value of several, each equally likely."""

    def __init__(self, categories: Sequence[Any]) -> None:
        if not isinstance(categories, Iterable):
            raise TypeError(f"A choice takes a list of values, as tune.choice([1, 2]), not {shown(categories)}.")
        self.categories = list(categories)
        if not self.categories:
            raise ValueError("A choice has at least one value.")

    def draw(self, rng: np.random.Generator, spec: Any = None) -> Any:
        return self.categories[int(rng.integers(len(self.categories)))]

    def is_valid(self, value: Any) -> bool:
        return value in self.categories

    def grid(self) -> dict[str, list[Any]]:
        """All the values, as a grid."""
        return grid_search(self.categories)

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, index: int) -> Any:
        return self.categories[index]

    @property
    def domain_str(self) -> str:
        return repr(self.categories)


class Function(Domain):
    """A value computed by a function from the other parameters.  Argument and error are those of `sample_from`."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        _takes_an_argument(func)  # raises where the function needs more

    def draw(self, rng: np.random.Generator, spec: Any = None) -> Any:
        return self.func(spec) if _takes_an_argument(self.func) else self.func()

    def is_valid(self, value: Any) -> bool:
        return True

    @property
    def domain_str(self) -> str:
        return getattr(self.func, "__name__", repr(self.func))


def _takes_an_argument(func: Callable[..., Any]) -> bool:
    """Whether a function is called with the configuration, or without an argument.

    Raises:
        ValueError: neither call has the arguments that the function needs.
    """
    import inspect

    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):
        return True
    for arguments in ((None,), ()):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise ValueError(
        f"A function of tune.sample_from takes the configuration or nothing, and {func!r} takes {signature}."
    )


def uniform(lower: float, upper: float) -> Float:
    """A real number between two bounds, each equally likely.

        {"momentum": tune.uniform(0.5, 0.99)}

    Args:
        lower, upper: finite bounds; the upper one is not drawn.

    Raises:
        ValueError: the bounds are infinite, or not in order.
    """
    return Float(lower, upper)


def quniform(lower: float, upper: float, q: float) -> Float:
    """A multiple of q between two bounds, each equally likely.

    Args:
        lower, upper: finite bounds, a whole number of steps apart.  A bound that is no multiple of q is not drawn:
            `quniform(1, 991, 10)` draws 10 to 990.
        q: the step, larger than 0.

    Raises:
        ValueError: the bounds are not in order, or do not fit the step.
    """
    return Float(lower, upper, step=q)


def loguniform(lower: float, upper: float, base: float = 10) -> Float:
    """A real number between two bounds, whose logarithm is distributed evenly.

        {"lr": tune.loguniform(1e-5, 1e-1)}  # each power of ten equally often

    Args:
        lower, upper: finite bounds above 0; the upper one is not drawn.
        base: accepted for Ray's programs; the distribution is the same for each base.

    Raises:
        ValueError: a bound is infinite, 0 or less, or the bounds are not in order.
    """
    return Float(lower, upper, is_log=True)


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Float:
    """A multiple of q between two bounds, whose logarithm is distributed evenly before rounding.

    The arguments are `lower`, `upper` and `base` of `loguniform` and the step `q` of `quniform`; so are the errors.
    """
    return Float(lower, upper, is_log=True, step=q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """A normally distributed number, with the mean `mean` and the standard deviation `sd`."""
    return Float(normal=(mean, sd))


def qrandn(mean: float, sd: float, q: float) -> Float:
    """A normally distributed number (`mean`, standard deviation `sd`), rounded to a multiple of `q`."""
    return Float(normal=(mean, sd), step=q)


def randint(lower: int, upper: int) -> Integer:
    """An integer from `lower` to `upper` - 1, each equally likely.

    Raises:
        ValueError: there is no integer in between; so for the other ranges of integers.
    """
    return Integer(lower, upper)


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """A multiple of `q` from `lower` to `upper`, each equally likely; a bound that is no multiple is not drawn."""
    return Integer(lower, upper, step=q) if q > 1 else Integer(lower, upper + 1)


def lograndint(lower: int, upper: int, base: float = 10) -> Integer:
    """An integer from `lower` to `upper` - 1, whose logarithm is distributed evenly; `base` makes no difference."""
    return Integer(lower, upper, is_log=True)


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Integer:
    """A multiple of `q` from `lower` to `upper`, whose logarithm is distributed evenly; `base` makes no difference."""
    return Integer(lower, upper, is_log=True, step=q) if q > 1 else Integer(lower, upper + 1, is_log=True)


def choice(categories: Sequence[Any]) -> Categorical:
    """A value of the list `categories`, each equally likely; a domain in the list is drawn from in its turn.

        {"optimizer": tune.choice(["adam", {"sgd": tune.uniform(0.8, 0.99)}])}

    Raises:
        ValueError: the list is empty.
    """
    return Categorical(categories)


def sample_from(func: Callable[..., Any]) -> Function:
    """A value that a function computes, as `tune.sample_from(lambda spec: spec.config.width * 2)`.

    A function that draws numbers draws its own: the experiment's `seed` is that of the other domains alone.

    Args:
        func: a function of the configuration, as `c["lr"]`, `c.lr` or `c.config.lr`; or of nothing.

    Raises:
        ValueError: the function needs more arguments.
    """
    return Function(func)


def grid_search(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Every value of a list: the trials are the cross product of all grids.

        {"layers": tune.grid_search([1, 2, 4]), "width": tune.grid_search([32, 64])}  # 6 trials

    Args:
        values: the values; each one is tried `num_samples` times.

    Raises:
        TypeError: the values are no list, or nothing else that can be iterated over.
    """
    if not isinstance(values, Iterable):
        raise TypeError(f"grid_search takes a list of values, not {type(values).__name__}.")
    return {"grid_search": list(values)}


shadows.name_absent(__name__)
