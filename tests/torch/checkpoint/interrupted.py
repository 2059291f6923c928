"""A training that sends itself a signal in the middle of its step 7; prints each loss."""

from __future__ import annotations

import os
import signal
import sys

import torch

from epochal import Checkpoints
from tests.torch.checkpoint.trainings import Training


def main(folder: str, name: str) -> None:
    torch.set_num_threads(1)
    training = Training()
    with Checkpoints(folder, training.state()) as checkpoints:
        for step in range(20):
            if step == 7:
                os.kill(os.getpid(), getattr(signal, name))
            loss = training.step()
            sys.stdout.write(f"{loss.hex()}\n")
            sys.stdout.flush()
            checkpoints.step(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
