"""What a picture, a figure and a table cost in the loop, beside W&B and TensorBoard.

All three are installed beside Epochal, so this Python runs them, each in a process of its own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contender import Contender
from benchmarks.contenders import OURS, every_contender
from benchmarks.environments import Entrant
from benchmarks.outcome import Hold, Outcome, Table, middle, remarks
from benchmarks.stage import Answer, Stage

NAME = "samples"
CASES = ("uint8 array", "float array", "PIL image", "figure", "table of 64 rows")
SIZE = 512
# Between calls a training computes, and what the trackers do in the background goes on.
PAUSE_S = 0.1
Log = Callable[[str, Any, int], object]  # takes the name of a case, its value and the step


def run(stage: Stage) -> Outcome:
    python = Path(sys.executable)
    entrants = [Entrant(one, python) for one in every_contender() if one.name in _OPEN]
    case = {"count": 5 if stage.quick else 15}
    answers = stage.rounds(NAME, count=1 if stage.quick else 3, cases=[case], entrants=entrants)

    def cost(name: str, case: str) -> float | None:
        return middle([one for one in answers.get((name, 0), []) if case in one], case)

    table = Table(
        title="milliseconds in the loop, median",
        columns=CASES,
        rows={name: tuple(cost(name, case) for case in CASES) for name in _OPEN},
        remarks=remarks(stage),
        ratios=False,
    )
    holds = (
        Hold("log of a 512×512×3 uint8 array", 2, cost(OURS, "uint8 array"), "ms"),
        Hold("log of a PIL image of that size", 4, cost(OURS, "PIL image"), "ms"),
    )
    note = (
        f"Arrays and PIL images are {SIZE}×{SIZE}×3, the figure has Matplotlib's default size. Only"
        " the call is measured; companion, service and threads go on afterwards. TensorBoard has no"
        " tables."
    )
    return Outcome("Samples", note, (table,), holds)


def work(contender: Contender, directory: Path, *, count: int) -> Answer:
    log, close = _OPEN[contender.name](directory)
    spent: dict[str, list[float]] = {}
    for step, values in enumerate(_values(count + 1)):
        for case, value in values.items():
            begun = time.perf_counter()
            is_logged = log(case, value, step)
            cost_ms = 1000 * (time.perf_counter() - begun)
            if step and is_logged is not False:  # the first round warms up
                spent.setdefault(case, []).append(cost_ms)
            time.sleep(PAUSE_S)
    close()
    return {case: median(costs) for case, costs in spent.items()}


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
            writer.add_figure(case, value, step, close=False)
        else:
            writer.add_image(case, np.asarray(value), step, dataformats="HWC")
        return True

    return log, writer.close


_OPEN: dict[str, Callable[[Path], tuple[Log, Callable[[], object]]]] = {
    OURS: _epochal,
    "wandb offline": _wandb,
    "torch SummaryWriter": _tensorboard,
}
