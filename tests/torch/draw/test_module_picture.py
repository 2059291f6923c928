"""Pictures of modules that are no graphs, by each way torch allows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from epochal import FlowBuilder
from epochal.torch import Picture, picture_of
from epochal.torch.draw.module_picture import from_export, from_forward, from_fx


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        y = x + self.body(self.norm(x)).view(rows, 4)
        head: Tensor = self.head(nn.functional.relu(y))
        return head


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.first(x)
        if y.sum().item() > 1e9:
            return y
        second: Tensor = self.second(y)
        return second * x


X = torch.randn(6, 4)


def arrows(picture: Picture) -> set[tuple[str, str]]:
    titles = {node.key: node.tags[0] if node.tags else node.title for node in picture.nodes}
    return {(titles[edge.source], titles[edge.target]) for edge in picture.edges}


EXPECTED = {
    ("norm", "body.0"),
    ("body.0", "body.1"),
    ("body.1", "body.2"),
    ("body.2", "body.3"),
    ("body.3", "+"),
    ("+", "relu"),
    ("relu", "head"),
    ("head", "output"),
}


@pytest.mark.parametrize("way", ["export", "fx", "forward"])
def test_every_way_finds_the_same_flow(way: str) -> None:
    model = Residual()
    picture = {
        "export": lambda: from_export(model, (X,), {}, depth=None),
        "fx": lambda: from_fx(model, depth=None),
        "forward": lambda: from_forward(model, (X,), {}, depth=None),
    }[way]()
    found = arrows(picture)
    entry = next(node.title for node in picture.nodes if node.kind == "input")
    assert found == EXPECTED | {(entry, "norm"), (entry, "+")}
    assert next(node for node in picture.nodes if node.key == "head").parameters == 10


def test_export_comes_first_when_there_are_inputs_and_fx_when_there_are_none() -> None:
    assert picture_of(Residual(), X).note == "from torch.export"
    assert picture_of(Residual()).note == "from torch.fx"
    assert picture_of(Residual(), {"x": X}).note == "from torch.export"


def test_what_cannot_be_traced_is_watched(capfd: pytest.CaptureFixture[str]) -> None:
    picture = picture_of(Branching(), (X,))
    assert picture.note == "from a recorded forward"
    assert ("second", "×") in arrows(picture)
    assert capfd.readouterr() == ("", "")


def test_without_inputs_what_cannot_be_traced_shows_its_parts() -> None:
    picture = picture_of(Branching())
    assert picture.note.startswith("parts only; TraceError")
    assert [node.key for node in picture.nodes] == ["first", "second"]
    assert picture.svg()


@pytest.mark.parametrize("inputs", [X, None])
def test_drawing_leaves_the_module_as_it_was(inputs: Tensor | None) -> None:
    for model in (Residual(), Branching()):
        model.train()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        torch.manual_seed(5)
        state = torch.get_rng_state()
        picture_of(model, inputs)
        assert torch.equal(state, torch.get_rng_state())
        assert all(module.training for module in model.modules())
        assert not any(module._forward_hooks for module in model.modules())
        for name, value in model.state_dict().items():
            assert torch.equal(before[name], value)


def test_a_shared_part_is_drawn_at_every_call() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.act = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            once: Tensor = self.layer(self.act(self.layer(x)))
            return once

    for picture in (picture_of(Twice()), picture_of(Twice(), X)):
        assert [node.key for node in picture.nodes if node.title == "Linear"] == [
            "layer", "layer (2)",
        ]  # fmt: skip


def test_depth_draws_a_module_as_one() -> None:
    picture = picture_of(Residual(), depth=1)
    assert [node.key for node in picture.nodes if node.tags] == ["norm", "body", "head"]


def test_a_very_large_module_is_drawn_coarser() -> None:
    blocks = [nn.Sequential(*[nn.Linear(4, 4) for _ in range(30)]) for _ in range(10)]
    picture = picture_of(nn.Sequential(*blocks))
    assert len(picture.nodes) == 12


def test_a_graph_is_drawn_as_it_was_built_also_when_wrapped() -> None:
    graph = FlowBuilder.start(nn.Linear(4, 4)).tag("only").label("mine").build()
    assert picture_of(graph).title == graph.picture().title
    assert picture_of(nn.DataParallel(graph)).title == graph.picture().title


def test_a_lazy_module_has_no_count_yet() -> None:
    assert picture_of(nn.Sequential(nn.LazyLinear(3))).nodes


def test_only_modules_are_drawn() -> None:
    with pytest.raises(ValueError, match="got int"):
        picture_of(3)  # type: ignore[arg-type]
