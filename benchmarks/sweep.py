"""A sweep to look at and to measure with: 61 runs of 3,000 steps and 12 metrics in seconds.

    python -m benchmarks.sweep FOLDER [--steps N] [--seeds N]

Learning rate × weight decay × model × seed, and a baseline. The best learning rate lies in the
middle, the larger model is better, weight decay does nothing. Of the runs with the highest rate
some diverge, some turn nan and some are killed. `curves` has the numbers themselves: tests compare
what readers say with them.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
DECAYS = (0.0, 0.1)
MODELS = ("large", "small")
EVAL_EVERY = 50
PROJECT = "sweep"
STEP_S = 0.4


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the sweep; ``fate`` is how it ends."""

    name: str
    config: dict[str, Any]
    fate: str


def trials(*, seeds: int = 3) -> list[Trial]:
    """The runs: every combination, and a baseline."""
    found = []
    for lr, wd, model, seed in itertools.product(RATES, DECAYS, MODELS, range(seeds)):
        config = {"lr": lr, "wd": wd, "model": model, "seed": seed}
        found.append(
            Trial(f"{model}-lr{lr:g}-wd{wd:g}-s{seed}", config, _fate(lr, wd, model, seed))
        )
    baseline = {"lr": 3e-4, "wd": 0.0, "model": "small", "seed": 99}
    return [*found, Trial("baseline", baseline, "finished")]


def curves(trial: Trial, *, steps: int) -> dict[str, np.ndarray]:
    """Every metric of a run, one value a step; eval metrics count at every 50th alone."""
    lr, model, seed = (trial.config[key] for key in ("lr", "model", "seed"))
    source = np.random.default_rng(zlib.crc32(trial.name.encode()))
    at = np.arange(steps)
    # The loss of a seed is higher or lower in all runs of it: pairs of runs see less noise.
    luck = np.random.default_rng(seed).normal(scale=0.03)
    distance = math.log10(lr / 1e-3)
    floor = 1.8 + 0.35 * distance**2 - 0.2 * (model == "large") + luck
    smooth = floor + 3.0 * np.exp(-at / (0.02 + 0.08 / (1 + 1000 * lr)) / steps)
    loss = smooth + source.normal(scale=0.04, size=steps) + source.normal(scale=0.01)
    eval_loss = smooth + 0.05 + source.normal(scale=0.01, size=steps) + source.normal(scale=0.01)
    norm = 1.0 + 2.0 * np.exp(-15 * at / steps) + np.abs(source.normal(scale=0.2, size=steps))
    if trial.fate in ("nan", "diverged"):
        since = steps // 3 + (seed * steps) // 10
        grown = np.minimum(np.exp(50 * (at[since:] - since) / steps), 1e3)
        loss[since:] *= grown
        eval_loss[since:] *= grown
        norm[since:] *= grown
        if trial.fate == "nan":
            broken = since + (steps - since) // 2
            loss[broken:] = eval_loss[broken:] = norm[broken:] = np.nan
    warmup = max(1, steps // 20)
    rate = lr * np.minimum((at + 1) / warmup, 0.5 + 0.5 * np.cos(math.pi * at / steps))
    return {
        "train/loss": loss,
        "train/accuracy": 1 / (1 + np.exp(np.minimum(loss, 50) - 2)),
        "train/lr": rate,
        "train/norm": norm,
        "train/tps": 90_000 + source.normal(scale=900, size=steps),
        "train/duration_ms": 400 + np.abs(source.normal(scale=6, size=steps)),
        "params/norm": 40 + 5 * np.log1p(at * lr * 100),
        "update_ratio": rate * 0.4,
        "gpu_util": np.clip(source.normal(loc=0.93, scale=0.02, size=steps), 0, 1),
        "eval/loss": eval_loss,
        "eval/accuracy": 1 / (1 + np.exp(np.minimum(eval_loss, 50) - 2)),
        "eval/perplexity": np.exp(np.minimum(eval_loss, 50)),
    }


def last_step(trial: Trial, *, steps: int) -> int:
    """The last step that a run logs."""
    return steps * 57 // 100 if trial.fate in ("killed", "terminated") else steps - 1


def write_sweep(root: Path, *, steps: int = 3000, seeds: int = 3) -> list[Trial]:
    """Write the runs below a folder, with the journal's own writer; finished two hours ago."""
    found = trials(seeds=seeds)
    created = time.time() - 7200 - steps * STEP_S
    for number, trial in enumerate(found):
        _write(root, trial, steps=steps, created=created + number)
    return found


def _write(root: Path, trial: Trial, *, steps: int, created: float) -> None:
    from epochal.journal.layout import PartName, RunFolder, write_json
    from epochal.journal.line import encode
    from epochal.journal.process import process_identity
    from epochal.journal.writer import JournalWriter

    folder = RunFolder(root / PROJECT / trial.name)
    folder.journal.mkdir(parents=True)
    run_id = f"{zlib.crc32(trial.name.encode()):08x}{trial.config['seed']:04x}"
    identity = {"v": 1, "id": run_id, "name": trial.name, "project": PROJECT, "created": created}
    write_json(folder.identity, {**identity, "config": trial.config, "totals": {"steps": steps}})
    # A process that is gone: its number is beyond what the system gives.
    process = {**process_identity(), "pid": 2**22 + 7}

    def header(part: PartName) -> bytes:
        first = {"log": "run", "t": created, **identity, "writer": "loop", "attempt": 1, "rank": 0}
        return encode({**first, "part": part.part, **process})

    def fail(sentence: str) -> None:
        raise OSError(sentence)

    writer = JournalWriter(folder, writer="loop", attempt=1, header=header, on_fault=fail)
    writer.open()
    lines = (encode(record) for record in _records(trial, steps=steps, created=created))
    while chunk := b"".join(itertools.islice(lines, 200)):
        writer.append(chunk, created)
    writer.close()


def _records(trial: Trial, *, steps: int, created: float) -> Iterator[dict[str, Any]]:
    found = {name: values.tolist() for name, values in curves(trial, steps=steps).items()}
    every_step = {name: values for name, values in found.items() if not name.startswith("eval/")}
    t = created
    for step in range(last_step(trial, steps=steps) + 1):
        t = round(created + step * STEP_S, 3)
        chosen = found if is_evaluated(step, steps=steps) else every_step
        yield {
            "log": "metrics",
            "t": t,
            "step": step,
            "m": {name: values[step] for name, values in chosen.items()},
        }
    if trial.fate != "killed":
        status = "terminated" if trial.fate == "terminated" else "finished"
        yield {"log": "finish", "t": t, "status": status}


def is_evaluated(step: int, *, steps: int) -> bool:
    """Whether a step has eval metrics: every 50th, and the last."""
    return step % EVAL_EVERY == 0 or step == steps - 1


def _fate(lr: float, wd: float, model: str, seed: int) -> str:
    if lr == max(RATES) and model == "large":
        return ("nan", "diverged", "finished")[seed % 3]
    if lr == max(RATES) and wd == 0 and seed == 0:
        return "killed"
    return "terminated" if (lr, wd, model, seed) == (3e-3, 0.1, "small", 1) else "finished"


def main() -> None:
    """Write a sweep below a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    begun = time.perf_counter()
    found = write_sweep(asked.folder, steps=asked.steps, seeds=asked.seeds)
    took = time.perf_counter() - begun
    print(f"{len(found)} runs of {asked.steps} steps in {asked.folder}, {took:.1f} s")


if __name__ == "__main__":
    main()
