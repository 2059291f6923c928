"""Saves one training after the other until it is killed; prints each step that was saved."""

from __future__ import annotations

import sys
from itertools import count

import torch
from torch import nn

from epochal import Checkpoints, TrainingState


def main(folder: str) -> None:
    model = nn.Linear(100, 100)
    with Checkpoints(folder, TrainingState(model)) as checkpoints:
        restored = checkpoints.restore()
        for step in count(restored.next_step if restored else 0):
            with torch.no_grad():
                model.weight.fill_(float(step))
            checkpoints.save(step, metric=1 / (step + 1))
            sys.stdout.write(f"{step}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
