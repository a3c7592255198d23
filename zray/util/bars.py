"""zray.util.tqdm: progress bars of tasks and actors, shown on the terminal of the program.

A bar in a worker is drawn into the worker's log, and the program that started the worker shows its rows while they
change (log_to_driver).  A bar in the program is drawn on standard error.  Without a terminal the last state is printed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

__all__ = ["BarManager", "instance", "safe_print", "tqdm", "trange"]

T = TypeVar("T")

BAR_CHARACTERS = 10
UPDATE_SECONDS = 0.1  # between two drawings of a bar
_ERASE = "\r\x1b[K"
_UP = "\x1b[A"


class BarManager:
    """The bars of a process, one below the other.  `zray.experimental.tqdm_ray.instance()` returns them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.bars: list[tqdm[Any]] = []  # in order of their rows
        self.hidden = 0  # calls of hide_bars

    def hide_bars(self) -> None:
        """Erase the bars until `unhide_bars` is called, so other text can be printed."""
        with self.lock:
            if not self.hidden:
                self._write("".join(_ERASE + "\n" for _ in self.bars[1:]) + _ERASE + _UP * (len(self.bars) - 1))
            self.hidden += 1

    def unhide_bars(self) -> None:
        """Draw the bars again."""
        with self.lock:
            self.hidden = max(0, self.hidden - 1)
            self.draw()

    def add(self, bar: tqdm[Any]) -> None:
        """A bar begins: behind those of a smaller or equal position."""
        with self.lock:
            rows = [other.position for other in self.bars]
            row = next((index for index, position in enumerate(rows) if position > bar.position), len(rows))
            self.bars.insert(row, bar)
            self.draw()

    def end(self, bar: tqdm[Any]) -> None:
        """A bar ends: its last state stays, as a line above the others."""
        with self.lock:
            if bar not in self.bars:
                return
            self.hide_bars()
            self.bars.remove(bar)
            self.hidden -= 1
            if bar.leave:
                self._write(f"\r{bar}\n", always=True)
            self.draw()

    def draw(self) -> None:
        """All bars, and the cursor back in the first row."""
        if self.bars and not self.hidden:
            self._write("\n".join(f"{_ERASE}{bar}" for bar in self.bars) + _UP * (len(self.bars) - 1))

    def _write(self, text: str, *, always: bool = False) -> None:
        stream = sys.stderr
        try:
            if text and (always or _is_drawn(stream)):
                stream.write(text)
                stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads it, and a bar is no reason to fail


def _is_drawn(stream: Any) -> bool:
    """Whether rows can be drawn again there: a terminal, or the log of a worker, whose rows the program shows."""
    from ..host import context

    return (context.runtime is not None and context.runtime.is_worker) or stream.isatty()


_manager = BarManager()


def instance() -> BarManager:
    """Return the bars of this process."""
    return _manager


def safe_print(*values: Any, **options: Any) -> None:
    """Print values as `print` does, above the bars of this process."""
    with _manager.lock:
        _manager.hide_bars()
        try:
            print(*values, **options)
        finally:
            _manager.unhide_bars()


class tqdm(Generic[T]):  # noqa: N801  its name in all programs
    """A progress bar, with the interface of the package tqdm.

        for item in zray.util.tqdm(items, desc="training"):
            step(item)

    Args:
        iterable: what is iterated over; None: call `update`.
        desc: text in front of the bar.
        total: number of steps; default: the length of the iterable.
        position: rows of bars of one process are in the order of their positions.
        unit: name of a step.  Default: "it".
        initial: number of steps that are done already.
        leave: keep the last state as a line.  Default: True.
        disable: draw nothing.  Default: False.
        mininterval: least time between two drawings, in seconds.  Default: 0.1.
    """

    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        desc: str | None = None,
        total: int | float | None = None,
        *,
        position: int | None = None,
        unit: str = "it",
        initial: int | float = 0,
        leave: bool = True,
        disable: bool = False,
        mininterval: float = UPDATE_SECONDS,
    ) -> None:
        self.iterable = iterable
        self.desc = desc or ""
        self.total = _length(iterable) if total is None else total
        self.position = position or 0
        self.unit = unit
        self.initial = self.n = initial
        self.leave, self.disable, self.mininterval = leave, disable, mininterval
        self.postfix = ""
        self.started_at = time.monotonic()
        self.drawn_at = self.started_at
        self.is_closed = False
        if not disable:
            _manager.add(self)

    def __iter__(self) -> Iterator[T]:
        if self.iterable is None:
            raise TypeError("This bar has no iterable: call update().")
        try:
            for item in self.iterable:
                yield item
                self.update()
        finally:
            self.close()

    def __len__(self) -> int:
        return int(self.total or 0)

    def __enter__(self) -> tqdm[T]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update(self, n: int | float = 1) -> None:
        """Add n to the number of steps done.  Default: 1."""
        self.n += n
        if time.monotonic() - self.drawn_at >= self.mininterval:
            self.refresh()

    def set_description(self, desc: str | None = None, refresh: bool = True) -> None:
        """Set desc, the text in front of the bar, and draw the bar unless refresh is False."""
        self.desc = desc or ""
        if refresh:
            self.refresh()

    def set_postfix(self, ordered_dict: Mapping[str, Any] | None = None, refresh: bool = True, **values: Any) -> None:
        """Set the text behind the bar to name=value for each item of ordered_dict and each keyword in values.

        The bar is drawn unless refresh is False.
        """
        shown = {**(ordered_dict or {}), **values}
        self.set_postfix_str(", ".join(f"{name}={_short(value)}" for name, value in shown.items()), refresh)

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Set s, the text behind the bar, and draw the bar unless refresh is False."""
        self.postfix = s
        if refresh:
            self.refresh()

    def reset(self, total: int | float | None = None) -> None:
        """Begin again, with another total if one is given."""
        self.n, self.initial, self.started_at = 0, 0, time.monotonic()
        self.total = self.total if total is None else total
        self.refresh()

    def refresh(self) -> None:
        """Draw the bar now."""
        self.drawn_at = time.monotonic()
        if not (self.disable or self.is_closed):
            with _manager.lock:
                _manager.draw()

    def close(self) -> None:
        """End the bar: its last state stays, unless `leave` is False."""
        if not self.is_closed:
            self.is_closed = True
            if not self.disable:
                _manager.end(self)

    def __str__(self) -> str:
        seconds = time.monotonic() - self.started_at
        done = self.n - self.initial
        rate = done / seconds if seconds > 0 and done > 0 else 0.0
        speed = f"{rate:.2f}{self.unit}/s" if rate >= 1 or not rate else f"{1 / rate:.2f}s/{self.unit}"
        end = f", {speed if rate else '?' + self.unit + '/s'}{', ' * bool(self.postfix)}{self.postfix}]"
        head = f"{self.desc}: " if self.desc else ""
        if not self.total:
            return _one_line(f"{head}{self.n}{self.unit} [{_clock(seconds)}{end}")
        part = min(1.0, max(0.0, self.n / self.total))
        left = _clock((self.total - self.n) / rate) if rate and self.n <= self.total else "?"
        bar = ("#" * int(part * BAR_CHARACTERS)).ljust(BAR_CHARACTERS)
        return _one_line(f"{head}{part:4.0%}|{bar}| {self.n}/{self.total} [{_clock(seconds)}<{left}{end}")


def trange(*arguments: int, **options: Any) -> tqdm[int]:
    """Return a bar over `range(*arguments)`."""
    return tqdm(range(*arguments), **options)


def _length(iterable: Any) -> int | None:
    try:
        return len(iterable)
    except TypeError:
        return None


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.split("\n")).replace("\r", " ").replace("\x1b", "?")
