"""One rank of a distributed training that is saved and resumed; started by test_checkpoints."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from epochal import Checkpoints, TrainingState
from epochal.errors import EpochalError
from epochal.torch.checkpoint.manifest import read_manifest
from epochal.torch.init import seed_everything
from epochal.torch.rng import Rng
from tests.torch.checkpoint.trainings import Shuffled, Training, restore, save


def make(rank: int, *, seed: int) -> Training:
    training = Training(seed=seed)
    training.model = DistributedDataParallel(training.model)
    training.rng = Rng(100 * seed + rank)
    training.data = Shuffled(training.rng, size=5 + rank)
    seed_everything(1000 * seed + rank)  # each rank draws its own dropout
    return training


def resume_is_exact(rank: int, folder: Path) -> None:
    expected = make(rank, seed=1).steps(9)
    first = make(rank, seed=1)
    assert first.steps(4) == expected[:4]
    save(folder, first.state(), 3)
    first.steps(2)
    second = make(rank, seed=2)
    second.steps(1)
    restored = restore(folder, second.state())
    assert restored.next_step == 4
    assert second.steps(5) == expected[4:]
    files = set(read_manifest(folder / "step-3").files)
    assert {"rank-0000.safetensors", "rank-0001.safetensors", "model.safetensors"} <= files


def one_ranks_failure_is_every_ranks(rank: int, folder: Path) -> None:
    class Bad:
        def state_dict(self) -> object:
            return print if rank == 1 else {}

        def load_state_dict(self, state: object) -> None: ...

    sentence = r"rank\.data\.state is builtin" if rank == 1 else "another rank failed"
    with pytest.raises(EpochalError, match=sentence):
        save(folder, TrainingState(torch.nn.Linear(1, 1), data=Bad()), 9)
    assert not (folder / "step-9").exists()


def all_ranks_take_the_same_other_checkpoint(rank: int, folder: Path) -> None:
    training = make(rank, seed=1)
    save(folder, training.state(), 3)
    save(folder, training.state(), 5)
    if rank == 0:
        os.truncate(folder / "step-5/rank-0001.safetensors", 9)
    dist.barrier()
    sentence = r"rank-0001.* restore\(fallback=True\)" if rank == 1 else "another rank failed"
    with pytest.raises(EpochalError, match=sentence):
        restore(folder, training.state())
    assert restore(folder, training.state(), fallback=True).step == 3


def a_signal_to_one_rank_saves_all(rank: int, folder: Path) -> None:
    training = make(rank, seed=1)
    ended = []
    signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
    with Checkpoints(folder, training.state()) as checkpoints:
        assert checkpoints.restore() is None
        for step in range(5):
            if step == 2 and rank == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            # Only rank 0 evaluates.
            saved = checkpoints.step(step, metric=5.0 - step if rank == 0 and step else None)
            assert (saved is not None) == (step >= 1)
    assert ended == [signal.SIGTERM]
    dist.barrier()
    assert read_manifest(folder / "step-2").kind == "emergency"


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    resume_is_exact(rank, folder / "exact")
    one_ranks_failure_is_every_ranks(rank, folder / "failing")
    all_ranks_take_the_same_other_checkpoint(rank, folder / "fallback")
    a_signal_to_one_rank_saves_all(rank, folder / "signal")
    dist.destroy_process_group()
    sys.stdout.write("every check passed\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
