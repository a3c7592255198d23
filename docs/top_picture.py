"""Picture of docs/top.md: a program on the screen of `zray top`.  `python docs/top_picture.py` writes it."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from report_picture import OPTIONS, small

DOCS = Path(__file__).resolve().parent
SIZE = (100, 38)
SECONDS = 34.0
SCALE = 0.75  # of the picture
PROGRAM = """
import random, time
import numpy as np
import zray

@zray.remote
def load(part):
    time.sleep(random.uniform(0.4, 1.2))
    if part % 19 == 18:
        raise OSError("no such part")
    return np.ones(100_000)

@zray.remote
def clean(part):
    time.sleep(0.6)
    return part * 2

@zray.remote
def merge(*parts):
    time.sleep(2.0)
    return sum(part.sum() for part in parts)

@zray.remote(resources={"disk": 1})
def save(total):
    time.sleep(5.0)

@zray.remote
class Model:
    def step(self):
        time.sleep(1.5)

zray.init(num_cpus=4, resources={"disk": 1})
model = Model.remote()
table, saves = zray.put(np.ones(1_000_000)), []
for epoch in range(100):
    parts = [clean.remote(load.remote(8 * epoch + part)) for part in range(8)]
    steps = [model.step.remote() for _ in range(3)]
    done, _ = zray.wait(parts, num_returns=8)
    saves += [save.remote(merge.remote(*parts[:4]))]
    zray.get(steps)
"""


async def picture_of_screen() -> str:
    """The screen as SVG, after a while."""
    from cli.top.app import Top
    from cli.top.asking import Asker

    asker = Asker("auto")
    asker.join()
    app = Top(asker)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(SECONDS)
        return app.export_screenshot(title="zray top")


def main() -> None:
    """Run the program, and write the picture."""
    os.environ.update(COLORTERM="truecolor", TERM="xterm-256color", TEXTUAL_COLOR_SYSTEM="truecolor")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.environ["ZRAY_TMPDIR"] = folder
        script = Path(folder) / "train.py"
        script.write_text(PROGRAM)
        program = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL)
        try:
            asyncio.run(asyncio.sleep(3.0))
            svg = asyncio.run(picture_of_screen())
        finally:
            program.terminate()
            program.wait(30)
        width, height = (float(size) for size in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
        page = Path(folder) / "top.html"
        page.write_text(f"<style>body {{margin: 0}} svg {{width: {width * SCALE:.0f}px}}</style>{svg}")
        picture = DOCS / "top.png"
        window = [
            f"--window-size={width * SCALE:.0f},{height * SCALE:.0f}",
            f"--user-data-dir={folder}/profile",
            f"--screenshot={picture}",
        ]
        subprocess.run(["chromium", *OPTIONS, *window, f"file://{page}"], check=True, stderr=subprocess.DEVNULL)
        picture.write_bytes(small(picture.read_bytes()))


if __name__ == "__main__":
    main()
