from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from epochal.torch.memory.out_of_memory import find_fault
from tests.conftest import StartRun
from tests.doubles.journals import of_kind, records
from tests.doubles.scripts import run_folder, run_script

_SCRIPT = """
import torch
from torch import nn
torch.set_num_threads(1)

def forward(model, batch):
    hidden = model(batch)
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has ...")

def train(run):
    model = nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    run.log({"loss": 1.0}, step=7)
    forward(model, torch.ones(512, 64))

"""


def with_script(body: str) -> str:
    return _SCRIPT + body


@pytest.mark.parametrize("body", ["train(start())", "with start() as run:\n    train(run)"])
def test_an_error_that_ends_the_run_is_explained_in_it(tmp_path: Path, body: str) -> None:
    code, _, err = run_script(tmp_path, with_script(body))
    assert code == 1
    assert err.rstrip().endswith("GPU 0 has ...")
    assert "epochal: out of memory on cpu: 1.5 GiB more were requested at <string>:" in err
    folder = run_folder(tmp_path)
    event, exception = of_kind(folder, "event")
    assert (event["name"], event["asked"], event["step"]) == ("out-of-memory", 3 * 2**29, 7)
    assert event["total"] > event["free"] > 0
    assert exception["name"] == "exception"
    (text,) = of_kind(folder, "text")
    assert text["name"] == "out-of-memory"
    for words in (
        "  asked for    1.5 GiB",
        "  optimizer weight.exp_avg ",
        "512×64 float32  batch in forward, line ",
        "[What to try]",
    ):
        assert words in text["text"]
    assert [one["log"] for one in records(folder)][-4:] == ["event", "text", "event", "finish"]


def test_an_error_that_is_caught_is_explained_by_the_guard(start_run: StartRun) -> None:
    run, model = start_run(), nn.Linear(8, 8)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError), run.memory_guard(model):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
    run.log({"loss": 1.0})
    run.finish()
    assert [one["name"] for one in of_kind(run.dir, "event")] == ["out-of-memory"] * 2
    assert "8×8 float32" in of_kind(run.dir, "text")[0]["text"]


def test_one_error_is_explained_once_also_inside_another(start_run: StartRun) -> None:
    run = start_run()
    cause = torch.OutOfMemoryError("CUDA out of memory.")
    with pytest.raises(RuntimeError, match="wrapped"), run, run.memory_guard(nn.Linear(2, 2)):
        raise RuntimeError("wrapped") from cause
    names = [one["name"] for one in of_kind(run.dir, "event")]
    assert names == ["out-of-memory", "exception"]


def test_other_errors_are_left_alone(start_run: StartRun) -> None:
    run = start_run()
    with pytest.raises(RuntimeError), run.memory_guard(nn.Linear(2, 2)):
        raise RuntimeError("shapes do not match")
    with run.memory_guard():
        pass
    assert of_kind(run.dir, "event") == []


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), 20 * 2**20),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 512 bytes."), 512),
        (
            RuntimeError(
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."
            ),
            8,
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), None),
        (MemoryError(), None),
    ],
)
def test_what_was_asked_for_is_read_from_the_error(error: Exception, asked: int | None) -> None:
    fault = find_fault(error)
    assert fault is not None
    assert (fault.asked, str(fault.device)) == (asked, "cpu")


def test_a_real_allocation_that_is_too_large_is_known(start_run: StartRun) -> None:
    run = start_run()
    with pytest.raises(RuntimeError), run.memory_guard(nn.Linear(2, 2)):
        torch.empty(2**60, dtype=torch.uint8)
    (event,) = of_kind(run.dir, "event")
    assert event["asked"] == 2**60
    assert "One allocation of" in of_kind(run.dir, "text")[0]["text"]
