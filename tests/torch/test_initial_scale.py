"""How weights start, beside torch's own initialisation, and the event about it."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import epochal
from epochal.torch.initial_scale import InitialScale, Scale
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


def scale_of(model: nn.Module, factor: float = 1.0) -> Scale | None:
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for one in parameters.values():
            if one.dim() > 1:
                one.mul_(factor)
    sizes = {name: float(one.detach().square().mean().sqrt()) for name, one in parameters.items()}
    shapes = {name: one.shape for name, one in parameters.items()}
    return InitialScale(model, parameters).unusual(sizes, shapes)


def he(model: nn.Module) -> nn.Module:
    for one in model.parameters():
        if one.dim() > 1:
            nn.init.kaiming_normal_(one)
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "layers": lambda: nn.Sequential(nn.Linear(20, 64), nn.Linear(64, 2)),
    "he": lambda: he(nn.Sequential(nn.Linear(20, 64), nn.Conv2d(3, 16, 3), nn.Linear(64, 64))),
    "convolutions": lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.ConvTranspose1d(16, 4, 3)),
    "attention": lambda: nn.TransformerEncoderLayer(32, 4, 64),
    "recurrent": lambda: nn.LSTM(500, 8, num_layers=2),
    "texts": lambda: nn.Sequential(nn.Embedding(100, 64), nn.Linear(64, 64), nn.Linear(64, 5)),
    "bilinear": lambda: nn.Sequential(nn.Bilinear(8, 80, 4), nn.Linear(4, 4)),
}


@pytest.mark.parametrize("name", MODELS)
def test_usual_weights_are_no_event_and_ten_times_their_size_is(name: str) -> None:
    torch.manual_seed(0)
    assert scale_of(MODELS[name]()) is None
    large = scale_of(MODELS[name](), 10)
    assert large is not None
    assert large.value > 5
    small = scale_of(MODELS[name](), 1e-3)
    assert small is not None
    assert small.value < 0.01


def test_tables_alone_may_start_at_any_size_up_to_one() -> None:
    torch.manual_seed(0)
    tables = nn.ModuleList([nn.Embedding(50, 8), nn.Embedding(20, 8)])
    assert scale_of(tables, 1e-3) is None
    found = scale_of(tables, 1e4)
    assert found is not None
    assert found.value == pytest.approx(10, rel=0.2)
    assert found.parameters == 2


def test_watching_records_an_unusual_scale_once(start_run: StartRun) -> None:
    torch.manual_seed(0)
    run, model = start_run(), nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(10)
    epochal.watch(model, run, every=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for step in range(3):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        run.log({"loss": 1.0}, step=step)
    run.finish()
    (event,) = of_kind(run.dir, "event")
    assert (event["name"], event["at_step"], event["parameters"]) == ("initial-scale", 0, 2)
    assert event["scale"] == pytest.approx(10, rel=0.2)
