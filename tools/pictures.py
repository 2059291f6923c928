"""Draws docs/images from real runs.

    python tools/pictures.py --train RUNS      trains two GPT-2 models: five minutes on an H200
    python tools/pictures.py RUNS              trains a small sweep if there is none, and draws

The training can happen on another machine: copy its folder of runs. It reads Python's own standard
library as bytes, so it needs no data. The pictures need Chromium and playwright.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import epochal

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
GPT2 = "--preset 124M --total_batch_size 65536 --num_epochs 1 --steps_per_epoch 600 --eval_freq 50"
GPT2 += " --eval_batches 4 --checkpoint_freq 200 --keep_checkpoints 1 --histogram_freq 100"
TRAININGS = {
    "baseline": "--warmup_steps 60",
    "high-rate": "--max_lr 2e-2 --min_lr 2e-3 --warmup_steps 5 --max_steps 300",
}
WIDE, SMALL, PHONE = (1400, 720), (1240, 730), (390, 844)
TERMINAL = (112, 26)


def train(runs: Path) -> None:
    """Train the two models."""
    for name, flags in TRAININGS.items():
        words = [*GPT2.split(), "--data", str(Path(os.__file__).parent), *flags.split()]
        script = ROOT / "examples" / "gpt2" / "train.py"
        run = [sys.executable, script, *words, "--dir", str(runs), "--run_name", name]
        subprocess.run(run, check=True)


def sweep(runs: Path) -> None:
    """Run the example of a sweep, and make a board of it."""
    os.environ["EPOCHAL_DIR"] = str(runs)
    if not (runs / "sweep").exists():
        subprocess.run([sys.executable, ROOT / "examples" / "sweep.py"], check=True)
    text = "## Which learning rate?\n\nLines are means over seeds and momentums. Bands are one "
    blocks = [
        epochal.Markdown(text + "standard deviation."),
        "loss",
        {"chart": "eval/loss", "log_y": True},
        {"chart": "eval/loss - loss", "title": "gap between evaluation and training"},
        {"chart": "eval/loss", "x": "progress", "title": "eval/loss by progress"},
    ]
    epochal.board("learning rates", blocks, project="sweep", group="lr", smooth=0.6)


def draw(runs: Path) -> None:
    """Draw every picture."""
    from PIL import Image

    from benchmarks.page import opened_browser, served
    from tests.e2e.browsing import has_drawn

    os.environ["RUNS"] = str(runs)
    with epochal.open(runs) as store:
        ids = {run.info.name: run.info.id for run in store.runs('project == "gpt2"')}
    gpt2 = {"project": "gpt2", "run": ids["baseline"], "place": "run"}
    views: Mapping[str, tuple[tuple[int, int], dict[str, Any]]] = {
        "run": (WIDE, {**gpt2, "run": ids["high-rate"]}),
        "performance": (SMALL, {**gpt2, "at": "performance"}),
        "phone": (PHONE, gpt2),
        "compare": (WIDE, {"project": "sweep", "place": "compare", "group": "lr"}),
        "board": (WIDE, {"project": "sweep", "place": "board", "board": "learning rates"}),
    }
    with served("pictures", lambda _: None) as (url, _), opened_browser() as browser:
        for name, ((width, height), view) in views.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(f"{url}#{urlencode(view)}")
            has_drawn(page)
            colours = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(256)
            colours.save(IMAGES / f"{name}.png", optimize=True)
            page.close()
    (IMAGES / "watch.svg").write_text(asyncio.run(watch(runs / "gpt2")), encoding="utf-8")


async def watch(runs: Path) -> str:
    """The screen of ``epochal watch``, as Textual exports it."""
    from epochal.cli.tui.app import WatchApp
    from epochal.cli.tui.state import AppState
    from epochal.store.local.catalog import folder_store

    with folder_store(runs) as store:
        app = WatchApp(AppState(store))
        async with app.run_test(size=TERMINAL) as pilot:
            await pilot.pause()
            picture = app.export_screenshot(title="epochal watch", simplify=True)
    # The picture loads nothing: fonts are whatever monospace the reader has.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", picture).replace("Fira Code, monospace", "monospace")


def main(arguments: list[str]) -> None:
    """Train, or draw."""
    runs = Path(arguments[-1]).resolve()
    if arguments[0] == "--train":
        train(runs)
    else:
        sweep(runs)
        draw(runs)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(sys.argv[1:])
