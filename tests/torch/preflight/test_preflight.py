"""What `preflight` asks, where it asks nothing, and where its answers go."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import epochal
from epochal.errors import UsageError
from epochal.torch.preflight.state import ModelState
from tests.torch.preflight.asking import asked
from tests.torch.preflight.trainings import (
    Language,
    Training,
    class_loss,
    classes,
    classifier,
    closure,
    language,
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[epochal.Run]:
    with epochal.init("tests", "preflight", dir=tmp_path, console=False, companion=False) as run:
        yield run


def events(run: epochal.Run) -> list[dict[str, Any]]:
    entries = epochal.load(run.dir).view.events()
    return [one.record for one in entries if one.record["name"] == "preflight"]


def states(result: Any) -> dict[str, str]:
    return {name: one.state for name, one in result.answers.items()}


def test_the_table_has_a_line_for_each_question(capsys: pytest.CaptureFixture[str]) -> None:
    result = asked(classifier())
    printed = capsys.readouterr().out
    assert printed.strip() == str(result) == repr(result)
    assert len(str(result).splitlines()) == 1 + len(result.answers)


def test_the_current_run_records_the_answers(run: epochal.Run) -> None:
    result = asked(classifier())
    (event,) = events(run)
    assert {a["question"]: a["state"] for a in event["answers"]} == states(result)


def test_a_tuple_without_a_loss_says_what_is_needed() -> None:
    training = classifier()
    answers = epochal.preflight(training.model, training.batch).answers
    assert "loss_fn=" in answers["gradients"].reason
    assert answers["samples"].state == "pass"


def test_a_loss_of_torch_gets_output_and_labels() -> None:
    training = Training(nn.Linear(6, 3), classes(), nn.functional.cross_entropy)
    assert states(asked(training))["loss"] == "pass"


def test_a_model_that_cannot_be_called_with_the_batch_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="forward="):
        epochal.preflight(nn.Linear(6, 3), torch.randn(4, 5), class_loss)


def test_a_forward_that_calls_the_original_is_asked_in_its_place() -> None:
    answers = asked(closure()).answers
    assert answers["gradients"].state == "pass"
    assert "independent copy" in answers["overfit"].reason


def test_what_a_loss_changes_in_the_model_is_put_back_and_reported() -> None:
    training = classifier()
    head, calls = training.model[2], []  # type: ignore[index]

    def loss(output: Tensor, batch: Any) -> Tensor:
        calls.append(1)
        if len(calls) > 3:
            head.weight.data.mul_(1.01)
        return class_loss(output, batch)

    training.loss_fn = loss
    assert asked(training).changed == ("2.weight",)


def test_no_question_begins_after_the_time_limit() -> None:
    training = classifier()
    training.options["seconds"] = 1e-9
    reasons = {one.reason for one in asked(training).answers.values()}
    assert reasons == {"the time limit was reached before this question"}


def test_hooks_of_epochal_are_off_meanwhile(run: epochal.Run) -> None:
    training = classifier()
    epochal.watch(training.model, run, every=1)
    optimizer = torch.optim.SGD(training.model.parameters(), lr=0.1)
    training.options["optimizer"] = optimizer
    asked(training)
    assert epochal.load(run.dir).view.metrics() == []


def test_a_compiled_model_is_asked_without_compiling() -> None:
    training = language()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    whole: Any = torch.compile(training.model, backend="eager")
    training.model.compile(backend="eager")
    result = epochal.preflight(whole, training.batch)
    assert result.failed == {}
    assert torch._dynamo.utils.counters["frames"]["total"] == 0


class FullyShardedDataParallel(nn.Module):
    """Has the name of the one of torch, which needs several processes."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(6, 3)


@pytest.mark.parametrize(
    ("model", "reason"),
    [(FullyShardedDataParallel(), "FSDP"), (nn.LazyLinear(3), "without values")],
)
def test_a_model_that_cannot_be_asked_alone_says_why(model: nn.Module, reason: str) -> None:
    result = epochal.preflight(model, classes(), class_loss)
    assert set(states(result).values()) == {"cannot tell"}
    assert all(reason in one.reason for one in result.answers.values())


RANK = """
import os, torch
from torch import nn
import torch.distributed as dist
import epochal
from tests.torch.preflight.trainings import class_loss, classes

dist.init_process_group("gloo")
inner = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
model = nn.parallel.DistributedDataParallel(inner)
if dist.get_rank() == 1:
    assert epochal.preflight(model, classes(), class_loss).failed == {}
    open(os.environ["DONE"], "w").close()
dist.barrier()
"""


def test_one_rank_of_two_asks_alone(tmp_path: Path, free_port: int) -> None:
    done = tmp_path / "done"
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    environment |= {"WORLD_SIZE": "2", "DONE": str(done), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RANK]
    ranks = [subprocess.Popen(command, env={**environment, "RANK": str(rank)}) for rank in range(2)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    assert done.exists()


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# -- a watched model ------------------------------------------------------------------------------


def test_a_watched_model_is_asked_at_its_first_training_pass(run: epochal.Run) -> None:
    model = Language(is_causal=False)
    given, targets = language().batch
    epochal.watch(model, run, preflight=True)
    with torch.no_grad():
        model(given, targets)
    assert events(run) == []
    model(given, targets=targets)
    model(given, targets=targets)
    (event,) = events(run)
    assert [a["question"] for a in event["answers"] if a["state"] == "fail"] == ["positions"]


def test_a_watched_model_without_a_loss_is_asked_what_needs_none(run: epochal.Run) -> None:
    model = classifier().model
    epochal.watch(model, run, preflight=True)
    model(torch.randn(4, 6))
    answers = {a["question"]: a["state"] for a in events(run)[0]["answers"]}
    assert [name for name, state in answers.items() if state == "pass"] == [
        "inputs",
        "samples",
        "repetition",
    ]


# -- the state of a model -------------------------------------------------------------------------


def test_every_change_of_a_model_is_named_and_put_back() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    model[2].eval()
    given = model[0].weight
    state = ModelState(model)
    model.train()(torch.randn(4, 3)).sum().backward()
    model[0].weight = nn.Parameter(torch.zeros(3, 3))
    model[0].register_forward_hook(lambda *_: None)
    model[0].bias.requires_grad_(False)
    model.append(nn.Linear(3, 3))
    vars(model)["extra"] = 1
    assert set(state.restore()) == {
        *("0._forward_hooks", "0._parameters", "0.bias.grad", "0.bias.requires_grad"),
        *("0.weight.grad", "1.bias.grad", "1.num_batches_tracked", "1.running_mean"),
        *("1.running_var", "1.weight.grad", "2.training", "_modules", "extra"),
    }
    assert state.restore() == []
    assert model[0].weight is given
    assert len(model) == 3
