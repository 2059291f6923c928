"""What a picture, a figure and a table cost in the loop, beside W&B and TensorBoard.

All three trackers log in one process and take turns. `python -m benchmarks samples` runs it alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contenders import OURS
from benchmarks.outcome import Hold, Outcome, Table
from benchmarks.stage import Stage

NAME = "samples"
CASES = ("uint8 array", "float array", "PIL image", "figure", "table of 64 rows")
SIZE = 512
Log = Callable[[str, Any, int], object]  # takes the name of a case, its value and the step


def run(stage: Stage) -> Outcome:
    costs = costs_ms(stage.scratch / NAME, count=5 if stage.quick else 30)
    table = Table(
        title="milliseconds in the loop, median",
        columns=CASES,
        rows={name: tuple(by_case.get(case) for case in CASES) for name, by_case in costs.items()},
        remarks={},
        ratios=False,
    )
    ours = costs[OURS]
    holds = (
        Hold("log of a 512×512×3 uint8 array", 2, ours["uint8 array"], "ms"),
        Hold("log of a PIL image of that size", 4, ours["PIL image"], "ms"),
    )
    note = (
        f"Arrays and PIL images are {SIZE}×{SIZE}×3, the figure is Matplotlib's default size. Only"
        " the call is measured: our companion, W&B's service and TensorBoard's thread go on after."
        " TensorBoard has no tables."
    )
    return Outcome("Samples", note, (table,), holds)


def costs_ms(folder: Path, *, count: int) -> dict[str, dict[str, float]]:
    """The median cost of each case by tracker; the first round warms up and does not count."""
    trackers = {OURS: _epochal, "wandb offline": _wandb, "torch SummaryWriter": _tensorboard}
    opened = {name: open_(folder / name.replace(" ", "-")) for name, open_ in trackers.items()}
    spent: dict[tuple[str, str], list[float]] = {}
    for step, values in enumerate(_values(count + 1)):
        order = list(opened)[step % 3 :] + list(opened)[: step % 3]
        for case in CASES:
            for name in order:
                begun = time.perf_counter()
                is_logged = opened[name][0](case, values[case], step)
                cost = time.perf_counter() - begun
                if step and is_logged is not False:
                    spent.setdefault((name, case), []).append(1000 * cost)
    for _, close in opened.values():
        close()
    return {
        name: {case: median(spent[name, case]) for case in CASES if (name, case) in spent}
        for name in opened
    }


def _values(count: int) -> Iterator[dict[str, Any]]:
    """New contents for each round: smooth pictures with a little noise, like photographs."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib import pyplot
    from PIL import Image

    rng = np.random.default_rng(0)
    wave = np.sin(np.linspace(0, 6, SIZE))
    smooth = (wave[:, None, None] * wave[None, :, None] + 1) * np.array([100.0, 80.0, 60.0])
    for number in range(count):
        pixels = (smooth + rng.normal(20, 4, smooth.shape)).clip(0, 255).astype(np.uint8)
        figure, axes = pyplot.subplots()
        axes.plot(wave + number)
        yield {
            "uint8 array": pixels,
            "float array": (pixels[::-1] / 255.0).astype(np.float32),
            "PIL image": Image.fromarray(pixels[:, ::-1]),
            "figure": figure,
            "table of 64 rows": [
                {"prompt": f"prompt {row}", "completion": "word " * 50, "reward": rng.random()}
                for row in range(64)
            ],
        }
        pyplot.close(figure)


def _epochal(folder: Path) -> tuple[Log, Callable[[], object]]:
    import epochal

    run = epochal.init("bench", "samples", dir=folder, console=False)

    def log(case: str, value: Any, step: int) -> None:
        run.log({case: epochal.Image(value) if case.endswith("array") else value}, step)

    return log, run.finish


def _wandb(folder: Path) -> tuple[Log, Callable[[], object]]:
    os.environ["WANDB_SILENT"] = "true"
    folder.mkdir(parents=True)
    import wandb

    run = wandb.init(project="bench", dir=str(folder), mode="offline")

    def log(case: str, value: Any, step: int) -> None:
        if isinstance(value, list):
            columns = list(value[0])
            data = [list(row.values()) for row in value]
            run.log({case: wandb.Table(columns=columns, data=data)})
        else:
            run.log({case: wandb.Image(value)})

    return log, run.finish


def _tensorboard(folder: Path) -> tuple[Log, Callable[[], object]]:
    import numpy as np
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def log(case: str, value: Any, step: int) -> object:
        if isinstance(value, list):
            return False
        if case == "figure":
            return writer.add_figure(case, value, step, close=False)
        return writer.add_image(case, np.asarray(value), step, dataformats="HWC")

    return log, writer.close
