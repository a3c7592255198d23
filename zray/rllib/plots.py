"""The plot page of training runs: one HTML file with returns, lengths, losses and throughput, without a network."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from zray.tune.drawing import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, axes, colour, svg, thinned
from zray.tune.plots import STYLE, VIEWPORT
from zray.tune.reporters.rows import cell, duration

from .runs import Run

__all__ = ["page"]

Points = list[tuple[float, float]]

# Configurations that are drawn in colours of their own; more are hard to tell apart.
GROUPS_MAX = 8
# Configurations up to which each has a band from the smallest to the largest return: more of them hide one another.
BANDS_MAX = 2
# Losses that are drawn, one chart each.
LOSSES_MAX = 8
# Points of a mean over seeds.
GRID = 200
_COLOURS = ("#2154c8", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#0b7285", "#e67700", "#495057")
_BANDS = ".band { opacity: .14 } .seed { stroke-width: 1; opacity: .45 } .mean { stroke-width: 2.2 }"


def page(runs: Sequence[Run], title: str) -> str:
    """The page as HTML.

    Runs whose configurations differ in the seed alone are drawn together: each of them, their mean, and the band from
    the smallest to the largest return of an episode.

    Raises:
        ValueError: no run has a result.
    """
    with_results = [run for run in runs if run.results]
    if not with_results:
        raise ValueError(f"{title} has no results: train it first.")
    groups = _groups(with_results)
    sections = [_head(with_results, title), _legend(groups)]
    charts: list[tuple[str, Callable[[dict[str, Any]], Any], tuple[str, str] | None]] = [
        ("episode_reward_mean", _key("episode_reward_mean"), ("episode_reward_min", "episode_reward_max")),
        ("evaluation: episode_reward_mean", _evaluated, None),
        ("episode_len_mean", _key("episode_len_mean"), None),
        *((f"loss: {name}", _loss(name), None) for name in _losses(with_results)),
        ("environment steps per second", _throughput, None),
    ]
    for name, read, band in charts:
        drawn = _chart(groups, name, read, band)
        if drawn:
            sections.append(f"<h2>{escape(name)}</h2>{drawn}")
    sections.append(f"<h2>Runs</h2>{_table(with_results)}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{VIEWPORT}<title>{escape(title)}</title>'
        f"<style>{STYLE}{_BANDS}</style></head><body>{''.join(sections)}</body></html>\n"
    )


def _groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by their configuration without the seed; the key says in what it differs from the others."""
    configs = [{**run.config, "seed": None, "run": run.algorithm} for run in runs]
    texts = [{key: json.dumps(value, default=str, sort_keys=True) for key, value in each.items()} for each in configs]
    names = {key for each in texts for key in each}
    differing = sorted(name for name in names if len({each.get(name) for each in texts}) > 1)
    found: dict[str, list[Run]] = {}
    short: dict[str, str] = {}
    for run, config, text in zip(runs, configs, texts, strict=True):
        key = ", ".join(f"{name}={text.get(name)}" for name in differing) or run.algorithm
        found.setdefault(key, []).append(run)
        short[key] = ", ".join(f"{name}={_short(config.get(name), text.get(name))}" for name in differing) or key
    if len(set(short.values())) == len(short):  # four digits tell them apart
        found = {short[key]: group for key, group in found.items()}
    return dict(list(found.items())[:GROUPS_MAX])


def _short(value: Any, text: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else text


def _key(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda result: result.get(name)


def _evaluated(result: dict[str, Any]) -> Any:
    return (result.get("evaluation") or {}).get("episode_reward_mean")


def _learner(result: dict[str, Any]) -> dict[str, Any]:
    found = (result.get("info") or {}).get("learner") or {}
    return {name: value for name, value in found.items() if isinstance(value, (int, float))}


def _loss(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda result: _learner(result).get(name)


def _losses(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for result in run.results for name in _learner(result)))[:LOSSES_MAX]


def _throughput(result: dict[str, Any]) -> Any:
    steps, seconds = result.get("timesteps_this_iter"), result.get("time_this_iter_s")
    return steps / seconds if steps and seconds else None


def _points(run: Run, read: Callable[[dict[str, Any]], Any]) -> Points:
    found = []
    for number, result in enumerate(run.results):
        x, y = result.get("timesteps_total", number + 1), read(result)
        if isinstance(y, (int, float)) and math.isfinite(y):
            found.append((float(x), float(y)))
    return found


def _on(grid: np.ndarray, points: Points) -> np.ndarray:
    """The values of a curve at other places; nan beyond its ends."""
    xs, ys = zip(*points, strict=True)
    return np.interp(grid, xs, ys, left=np.nan, right=np.nan)


def _chart(
    groups: dict[str, list[Run]], name: str, read: Callable[[dict[str, Any]], Any], band: tuple[str, str] | None
) -> str:
    """A chart: for each configuration its seeds, their mean and a band; empty: nothing has the values."""
    seeds = {key: [points for run in runs if (points := _points(run, read))] for key, runs in groups.items()}
    edges = {}
    if band is not None and len(groups) <= BANDS_MAX:
        for key, runs in groups.items():
            edges[key] = tuple([p for run in runs if (p := _points(run, _key(edge)))] for edge in band)
    every = [point for curves in seeds.values() for points in curves for point in points]
    if not every:
        return ""
    if name == "episode_len_mean" and len({y for _, y in every}) == 1:
        return f'<p class="note">{cell(every[0][1])} in all results.</p>'
    outer = [y for low, high in edges.values() for points in (*low, *high) for _, y in points]
    x_scale = Scale([x for x, _ in every], LEFT, WIDTH - RIGHT)
    y_scale = Scale([*(y for _, y in every), *outer], HEIGHT - BOTTOM, TOP)
    parts = axes(x_scale, y_scale, "environment steps")
    for place, (key, curves) in enumerate(seeds.items()):
        if not curves:
            continue
        hue = _COLOURS[place % len(_COLOURS)] if len(seeds) > 1 else colour(0.0)
        grid = np.linspace(min(c[0][0] for c in curves), max(c[-1][0] for c in curves), GRID)
        low, high = edges.get(key, ([], []))
        if low and high:
            least = np.nanmin([_on(grid, points) for points in low], axis=0)
            most = np.nanmax([_on(grid, points) for points in high], axis=0)
            around = [*zip(grid, most, strict=True), *zip(grid[::-1], least[::-1], strict=True)]
            shape = " ".join(f"{x_scale(x):.1f},{y_scale(y):.1f}" for x, y in around if math.isfinite(y))
            parts.append(f'<polygon class="band" points="{shape}" fill="{hue}"/>')
        for run, points in zip(groups[key], curves, strict=False):
            label = f"{run.name}, seed {run.config.get('seed', 0)}"
            parts.append(_line(points, x_scale, y_scale, hue, "seed" if len(curves) > 1 else "mean", label))
        if len(curves) > 1:
            mean = np.nanmean([_on(grid, points) for points in curves], axis=0)
            points = [(x, y) for x, y in zip(grid, mean, strict=True) if math.isfinite(y)]
            parts.append(_line(points, x_scale, y_scale, hue, "mean", f"mean of {len(curves)} seeds: {key}"))
    return svg(parts, name)


def _line(points: Points, x_scale: Scale, y_scale: Scale, hue: str, kind: str, label: str) -> str:
    steps = " L".join(f"{x_scale(x):.1f},{y_scale(y):.1f}" for x, y in thinned(points))
    return f'<path class="{kind}" d="M{steps}" fill="none" stroke="{hue}"><title>{escape(label)}</title></path>'


def _legend(groups: dict[str, list[Run]]) -> str:
    if len(groups) < 2:
        return ""
    rows = [
        f'<p><span style="color:{_COLOURS[place % len(_COLOURS)]}">&#9632;</span> '
        f"{escape(key)} ({_runs(len(runs))})</p>"
        for place, (key, runs) in enumerate(groups.items())
    ]
    return "".join(rows)


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


def _head(runs: Sequence[Run], title: str) -> str:
    steps = sum(int(run.results[-1].get("timesteps_total") or 0) for run in runs)
    seconds = sum(float(run.results[-1].get("time_total_s") or 0.0) for run in runs)
    words = f"{_runs(len(runs))}: {steps:,} environment steps in {duration(seconds)} of training"
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    path = os.path.dirname(runs[0].path)
    return f'<h1>{escape(title)}</h1><p>{escape(words)}</p><p class="path">{escape(path)}, {stamp}</p>'


def _table(runs: Sequence[Run]) -> str:
    columns = ("training_iteration", "timesteps_total", "episodes_total", "episode_reward_mean", "time_total_s")
    head = "".join(f"<th>{escape(name)}</th>" for name in ("run", "seed", *columns))
    rows = []
    for run in runs:
        values = [run.name, run.config.get("seed", 0), *(run.results[-1].get(name) for name in columns)]
        rows.append("<tr>" + "".join(f"<td>{escape(cell(value, 60))}</td>" for value in values) + "</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
