"""Samples of stacks as a flame graph (SVG), for speedscope (JSON), or as collapsed lines (text)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

# (function, file) from the outermost to the innermost frame.
Stack = tuple[tuple[str, str], ...]

WIDTH, ROW, TOP = 1200, 18, 34
# A narrower box than this shows nothing, and is left out; a character has so many pixels.
NARROW, CHARACTER = 0.3, 7.0
SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class Box(NamedTuple):
    """A function in a row of the graph, over what it has called."""

    name: str
    file: str
    depth: int
    begin: int  # in samples
    count: int


def boxes(samples: Counter[Stack]) -> Iterator[Box]:
    """Yield the boxes of a flame graph: functions in the order of their names, callers ahead of what they call."""
    # Without recursion, since stacks may be deep: groups of (depth, begin, stacks that agree up to there).
    todo: list[tuple[int, int, list[tuple[Stack, int]]]] = [(0, 0, sorted(samples.items()))]
    while todo:
        depth, begin, group = todo.pop()
        parts: dict[tuple[str, str], list[tuple[Stack, int]]] = {}
        for stack, count in group:
            if len(stack) > depth:
                parts.setdefault(stack[depth], []).append((stack, count))
        for (name, file), part in sorted(parts.items()):
            count = sum(each for _, each in part)
            yield Box(name, file, depth, begin, count)
            todo.append((depth + 1, begin, part))
            begin += count


def svg(samples: Counter[Stack], title: str) -> str:
    """A flame graph without scripts and without other files: a box's title, shown by browsers, has its numbers."""
    total = max(1, samples.total())
    scale = WIDTH / total
    drawn = [box for box in boxes(samples) if box.count * scale >= NARROW]
    height = TOP + ROW * (1 + max((box.depth for box in drawn), default=0)) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fffdf7"/>',
        f'<text x="6" y="20" font-size="14">{_shown(title)}</text>',
    ]
    for box in drawn:
        x, width, y = box.begin * scale, box.count * scale, TOP + ROW * box.depth
        said = f"{box.name} ({box.file}): {100 * box.count / total:.1f} %, {box.count:,} of {total:,} samples"
        room = int((width - 6) / CHARACTER)
        label = box.name if len(box.name) <= room else f"{box.name[: room - 2]}.." if room > 4 else ""
        lines.append(
            f"<g><title>{_shown(said)}</title>"
            f'<rect x="{x:.2f}" y="{y}" width="{max(0.1, width - 0.4):.2f}" height="{ROW - 1}" fill="{_colour(box)}"/>'
            f'<text x="{x + 3:.2f}" y="{y + 13}">{_shown(label)}</text></g>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _colour(box: Box) -> str:
    """A warm colour that depends on the name alone, so that two graphs can be compared."""
    number = sum(ord(character) * (index + 7) for index, character in enumerate(box.name))
    return f"hsl({number % 50},{70 + number % 20}%,{62 + number % 12}%)"


def _shown(text: str) -> str:
    """The text for XML, which forbids most control characters even as references, and halves of surrogate pairs."""
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return escape(shown, {'"': "&quot;"})


def speedscope(samples: Counter[Stack], title: str) -> str:
    """A file for https://www.speedscope.app: each sample has the weight 1."""
    frames: dict[tuple[str, str], int] = {}
    rows, weights = [], []
    for stack, count in sorted(samples.items()):
        rows.append([frames.setdefault(frame, len(frames)) for frame in stack])
        weights.append(count)
    profile = {
        "type": "sampled",
        "name": title,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": rows,
        "weights": weights,
    }
    shared = {"frames": [{"name": name, "file": file} for name, file in frames]}
    return json.dumps({"$schema": SCHEMA, "name": title, "shared": shared, "profiles": [profile]})


def collapsed(samples: Counter[Stack]) -> str:
    """A line for each stack, `outer;inner 12`, as flamegraph.pl and others read it."""
    counts: Counter[str] = Counter()
    for stack, count in samples.items():
        counts[";".join(_part(name, file) for name, file in stack)] += count
    return "".join(f"{line} {count}\n" for line, count in sorted(counts.items()))


def _part(name: str, file: str) -> str:
    text = f"{name} ({os.path.basename(file)})"
    return "".join(each if each.isprintable() and each != ";" else "?" for each in text)


FORMS = {".svg": svg, ".json": speedscope, ".txt": lambda samples, title: collapsed(samples)}
