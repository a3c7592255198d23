"""Picture of docs/report.md: its program's report, as Chromium shows it.  `python docs/report_picture.py` writes it."""

import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).resolve().parent
SIZE = "1100,1010"
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --disable-lcd-text --virtual-time-budget=4000".split()
)
COLOURS_MAX = 256


def main() -> None:
    """Run the program of the page, and write its picture."""
    code = re.search(r"^```python\n(.*?)^```$", (DOCS / "report.md").read_text(), re.M | re.S)[1]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pipeline.py").write_text(code)
        for command in (["pipeline.py"], ["-m", "zray.cli.main", "report", "run.zrec"]):
            subprocess.run(
                [sys.executable, *command], cwd=folder, env={**os.environ, "ZRAY_RECORD": "run.zrec"}, check=True
            )
        picture = DOCS / "pictures" / "report.png"
        window = [
            "--virtual-time-budget=4000",
            f"--window-size={SIZE}",
            f"--user-data-dir={folder}/profile",
            f"--screenshot={picture}",
        ]
        subprocess.run(
            ["chromium", *OPTIONS, *window, f"file://{folder}/report.html"], check=True, stderr=subprocess.DEVNULL
        )
        picture.write_bytes(small(picture.read_bytes()))


def small(png: bytes) -> bytes:
    """The same picture with a palette, a third as large.

    Source: W3C, Portable Network Graphics, third edition.
    """
    pixels = pixels_of(png)
    codes = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    found, counts = np.unique(codes, return_counts=True)
    palette = found[np.argsort(-counts)][:COLOURS_MAX]
    parts = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    kept = np.stack([palette >> 16, palette >> 8 & 255, palette & 255], axis=1)
    nearest = np.abs(parts[:, None] - kept[None]).sum(axis=2).argmin(axis=1).astype(np.uint8)
    rows = nearest[np.searchsorted(found, codes)]
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    head = struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], 8, 3, 0, 0, 0)
    colours, packed = kept.astype(np.uint8).tobytes(), zlib.compress(data, 9)
    chunks = [(b"IHDR", head), (b"PLTE", colours), (b"IDAT", packed), (b"IEND", b"")]
    return png[:8] + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


def pixels_of(png: bytes) -> Any:
    """The pixels of a picture of three or four bytes a pixel, as rows of red, green, blue."""
    place, data, size = 8, b"", (0, 0, 0)
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        content = png[place + 8 : place + 8 + length]
        if png[place + 4 : place + 8] == b"IHDR":
            width, height, _, kind = struct.unpack_from(">IIBB", content)
            size = (height, width, {2: 3, 6: 4}[kind])
        elif png[place + 4 : place + 8] == b"IDAT":
            data += content
        place += length + 12
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(size[0], -1)
    above = np.zeros(lines.shape[1] - 1, int)
    found = []
    for line in lines:
        above = unfiltered(int(line[0]), line[1:].astype(int), above, size[2])
        found.append(above)
    return np.array(found).reshape(size)[..., :3]


def unfiltered(kind: int, line: Any, above: Any, step: int) -> Any:
    """A line of pixels without its filter: none, left, above, average, or Paeth's."""
    if kind == 2:
        return (line + above) & 255
    line = line.copy()
    for place in range(len(line)) if kind else ():
        left, over = (line[place - step] if place >= step else 0), above[place]
        corner = above[place - step] if place >= step else 0
        if kind == 4:
            guess = left + over - corner
            near = min((abs(guess - each), order, each) for order, each in enumerate((left, over, corner)))[2]
        else:
            near = left if kind == 1 else (left + over) // 2
        line[place] = (line[place] + near) & 255
    return line


if __name__ == "__main__":
    main()
