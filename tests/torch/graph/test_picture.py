"""Pictures of graphs and modules, and the files of a graph's history."""

from __future__ import annotations

import csv
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from epochal import FlowBuilder, Graph
from epochal.torch import picture_of
from epochal.torch.graph.picture import Picture, PictureEdge, PictureNode, _arranged, heat_colour

SVG = "{http://www.w3.org/2000/svg}"
X = torch.randn(6, 4)


def rich_graph() -> Graph:
    inner = FlowBuilder.start(nn.Linear(4, 4)).label("inner").build()
    return (
        FlowBuilder.start(nn.Linear(4, 4))
        .tag("first")
        .through(nn.GELU())
        .through(nn.LayerNorm(4))
        .also(nn.Linear(4, 4))
        .split(nn.Linear(4, 4), nn.Linear(4, 4))
        .tag_group("head")
        .merge("mean")
        .through(inner)
        .label("rich")
        .build()
    )


def classes(text: str) -> list[str]:
    return [element.get("class") or "" for element in ET.fromstring(text).iter()]


def test_every_kind_of_node_is_drawn(tmp_path: Path) -> None:
    text = rich_graph().svg(tmp_path / "new" / "graph.svg")
    assert (tmp_path / "new" / "graph.svg").read_text(encoding="utf-8") == text
    found = {word for one in classes(text) for word in one.split()}
    assert found >= {"input", "output", "module", "activation", "norm", "merge", "graph", "edge"}
    texts = [element.text or "" for element in ET.fromstring(text).iter(f"{SVG}text")]
    assert {"#first", "#head_0", "inner", "+", "mean"} <= set(texts)
    assert re.fullmatch(r"rich \[[0-9a-f]{8}\] · \d+ parameters", texts[0])
    assert text == rich_graph().svg()


def test_the_picture_is_light_and_dark_and_needs_nothing_from_outside() -> None:
    text = rich_graph().svg()
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in text


def test_names_are_escaped() -> None:
    evil = "<text><script>alert(1)<script>&"
    root = ET.fromstring(FlowBuilder.start(nn.Linear(4, 4)).tag(evil).label("<b>").build().svg())
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (element.text or "") for element in root.iter(f"{SVG}title"))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=25), st.randoms(use_true_random=False))
def test_no_two_nodes_overlap_and_edges_meet_their_ends(counts: list[int], random: object) -> None:
    layers = [[f"{row}.{column}" for column in range(count)] for row, count in enumerate(counts)]
    choose = random.choice  # type: ignore[attr-defined]
    edges = [
        PictureEdge(choose(layers[choose(range(max(row - 6, 0), row))]), node)
        for row in range(1, len(layers))
        for node in layers[row]
    ]
    nodes = tuple(PictureNode(key, "module", key) for layer in layers for key in layer)
    sizes = {node.key: (40.0 + 9 * len(node.key), 30.0) for node in nodes}
    centres, routes, (width, height) = _arranged(Picture("", nodes, tuple(edges)), sizes)
    boxes = [(*centres[node.key], *sizes[node.key]) for node in nodes]
    for number, one in enumerate(boxes):
        assert -1 <= one[0] <= width + 1
        assert 0 <= one[1] <= height
        for other in boxes[number + 1 :]:
            apart = abs(one[0] - other[0]) >= (one[2] + other[2]) / 2 - 1e-6
            assert apart or abs(one[1] - other[1]) >= (one[3] + other[3]) / 2
    for (source, target), points in routes.items():
        assert points[0] == pytest.approx((centres[source][0], centres[source][1] + 15))
        assert points[-1] == pytest.approx((centres[target][0], centres[target][1] - 15))


def test_a_picture_without_edges_can_be_drawn() -> None:
    nodes = tuple(PictureNode(f"n{i}", "module", "Linear") for i in range(3))
    assert sum(one.startswith("node ") for one in classes(Picture("parts", nodes, ()).svg())) == 3


def test_heat_goes_from_green_over_yellow_to_red() -> None:
    assert [heat_colour(share) for share in (-1, 0, 0.5, 1, 2)] == [
        "#27ae60", "#27ae60", "#f39c12", "#e74c3c", "#e74c3c",
    ]  # fmt: skip


# -- modules --------------------------------------------------------------------------------------


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


def arrows(picture: Picture) -> set[tuple[str, str]]:
    titles = {node.key: node.tags[0] if node.tags else node.title for node in picture.nodes}
    return {(titles[edge.source], titles[edge.target]) for edge in picture.edges}


def test_the_flow_of_a_module_is_found() -> None:
    picture = picture_of(Residual())
    assert arrows(picture) == {
        ("x", "norm"),
        ("x", "+"),
        ("norm", "body.0"),
        ("body.0", "body.1"),
        ("body.1", "body.2"),
        ("body.2", "body.3"),
        ("body.3", "+"),
        ("+", "relu"),
        ("relu", "head"),
        ("head", "output"),
    }
    assert next(node for node in picture.nodes if node.key == "head").parameters == 10


def test_what_cannot_be_traced_shows_its_parts() -> None:
    picture = picture_of(Branching())
    assert picture.note.startswith("parts only; TraceError")
    assert [node.key for node in picture.nodes] == ["first", "second"]
    assert picture.svg()


def test_drawing_leaves_the_module_as_it_was() -> None:
    for model in (Residual(), Branching()):
        model.train()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        torch.manual_seed(5)
        state = torch.get_rng_state()
        picture_of(model)
        assert torch.equal(state, torch.get_rng_state())
        assert all(module.training for module in model.modules())
        assert not any(module._forward_hooks for module in model.modules())
        for name, value in model.state_dict().items():
            assert torch.equal(before[name], value)


def test_a_shared_part_is_drawn_at_every_call() -> None:
    layer = nn.Linear(4, 4)
    picture = picture_of(nn.Sequential(layer, nn.ReLU(), layer))
    keys = [node.key for node in picture.nodes if node.title == "Linear"]
    assert len(keys) == len(set(keys)) == 2


def test_large_modules_and_those_at_depth_are_drawn_as_one() -> None:
    picture = picture_of(Residual(), depth=1)
    assert [node.key for node in picture.nodes if node.tags] == ["norm", "body", "head"]
    blocks = [nn.Sequential(*[nn.Linear(4, 4) for _ in range(30)]) for _ in range(10)]
    assert len(picture_of(nn.Sequential(*blocks)).nodes) == 12


def test_wrapped_graphs_and_lazy_modules_are_drawn() -> None:
    graph = FlowBuilder.start(nn.Linear(4, 4)).tag("only").label("mine").build()
    assert picture_of(nn.DataParallel(graph)).title == graph.picture().title
    assert picture_of(nn.Sequential(nn.LazyLinear(3))).nodes
    with pytest.raises(ValueError, match="got 3"):
        picture_of(3)  # type: ignore[arg-type]


# -- files of the history -------------------------------------------------------------------------


def recorded() -> Graph:
    graph = (
        FlowBuilder.start(nn.Linear(1, 1))
        .split(nn.Linear(1, 1), nn.Linear(1, 1))
        .tag_group("head")
        .merge("add")
        .build()
    )
    for epoch, loss in enumerate((1.5, math.nan, 0.25), 1):
        graph.record_scalar("loss", loss)
        if epoch > 1:
            graph.record("head_0", [1e-9 * epoch])
            graph.record("head_1", [epoch])
        graph.flush()
    return graph


def page_of(graph: Graph, path: Path, tags: list[str] | None = None) -> str:
    graph.plot_html(path, tags or [])
    return path.read_text(encoding="utf-8")


def test_the_page_is_one_file_with_a_curve_for_each(tmp_path: Path) -> None:
    page = page_of(recorded(), tmp_path / "new" / "curves.html")
    assert not re.search(r"https?://|src=|href=", page)
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    groups = [g for g in ET.fromstring(svg).iter("g") if g.get("class") == "curve"]
    assert [group.findtext("title") for group in groups] == ["loss", "head_0", "head_1"]
    path = re.search(r'<path d="(M[^"]*)"/><circle', page)
    assert path is not None
    assert path[1].count("M") == 2  # a nan is a gap
    assert "1 not finite" in page


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, 1e308, -1e308])
def test_odd_values_still_give_a_page(tmp_path: Path, value: float) -> None:
    graph = FlowBuilder.start(nn.Linear(1, 1)).build()
    for one in (value, -value):
        graph.record_scalar("x", one)
        graph.flush()
    drawn = re.findall(r"<(?:path|circle)[^>]*>", page_of(graph, tmp_path / "x.html"))
    assert not any("nan" in one or "inf" in one for one in drawn)


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    graph = FlowBuilder.start(nn.Linear(1, 1)).label("<i>").build()
    graph.record_scalar("</script><img src=x onerror=alert(1)>$title", 1.0)
    graph.flush()
    page = page_of(graph, tmp_path / "x.html")
    seen: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: seen.append(tag)  # type: ignore[method-assign]
    parser.feed(page)
    assert "img" not in seen
    assert "$title" in page
    assert seen.count("script") == 1


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        FlowBuilder.start(nn.Linear(1, 1)).build().plot_html(tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_a_row_per_epoch_and_reads_back_exactly(tmp_path: Path) -> None:
    recorded().export_trends(tmp_path / "t.csv", ["loss", "head"])
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [row["loss"] for row in rows] == ["1.5", "nan", "0.25"]
    assert [row["head_0"] for row in rows] == ["", repr(1e-9 * 2), repr(1e-9 * 3)]


def test_the_log_has_a_line_per_epoch(tmp_path: Path) -> None:
    graph = recorded()
    graph.observation.flush_seconds[:] = [10.0, 20.0, 30.0]
    graph.write_log(tmp_path / "t.log", 10, ["loss", "head_1"])
    assert (tmp_path / "t.log").read_text().splitlines() == [
        "# epochal training log",
        "epoch  1/10  loss=1.5000  [10s  ETA 1m 30s]",
        "epoch  2/10  loss=nan  head_1=2.0000  [20s  ETA 2m 20s]",
        "epoch  3/10  loss=0.2500  head_1=3.0000  [30s  ETA 2m 51s]",
        "# total: 1m 00s",
    ]
    graph.write_log(tmp_path / "t.log")
    assert "ETA" not in (tmp_path / "t.log").read_text()


def test_after_a_restart_old_epochs_have_no_duration(tmp_path: Path) -> None:
    graph = recorded()
    graph.restore_observation(graph.observation_state())
    graph.record_scalar("loss", 0.125)
    graph.flush()
    graph.write_log(tmp_path / "t.log", 4, ["loss"])
    lines = (tmp_path / "t.log").read_text().splitlines()
    assert lines[3] == "epoch 3/4  loss=0.2500"
    assert lines[4].startswith("epoch 4/4  loss=0.1250  [")
