"""Pictures: what is on them, that nothing lies on top of anything, and that no name breaks them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from epochal import FlowBuilder, Graph
from epochal.torch.draw.columns import Drawing, arrange
from epochal.torch.draw.picture import Picture, PictureEdge, PictureNode, heat_colour

SVG = "{http://www.w3.org/2000/svg}"


def rich_graph() -> Graph:
    inner = FlowBuilder.start(nn.Linear(4, 4)).label("inner").build()
    return (
        FlowBuilder.start(nn.Linear(4, 4))
        .tag("first")
        .input("context")
        .through(nn.GELU())
        .through(nn.LayerNorm(4))
        .through(torch.add)
        .using("memory")
        .tag("memory")
        .split(nn.Linear(4, 4), nn.Linear(4, 4))
        .tag_group("head")
        .merge("mean")
        .loop(nn.Linear(4, 4))
        .for_n(2)
        .map(nn.Linear(2, 2))
        .slices(2)
        .switch(lambda x, c: 0, nn.Linear(4, 4), nn.Linear(4, 4))
        .using("context")
        .gate(lambda x: x[:, :2], nn.Linear(4, 4), nn.Linear(4, 4))
        .through(inner)
        .through(torch.add)
        .using("first")
        .label("rich")
        .build()
    )


def deep_graph(blocks: int) -> Graph:
    flow = FlowBuilder.start(nn.Linear(4, 4))
    for _ in range(blocks):
        flow = flow.through(nn.LayerNorm(4)).also(nn.Linear(4, 4)).through(nn.GELU())
        flow = flow.split(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)).merge("add")
    return flow.build()


def drawn(text: str) -> ET.Element:
    return ET.fromstring(text)


def classes(root: ET.Element) -> list[str]:
    return [element.get("class") or "" for element in root.iter()]


def test_every_kind_of_node_and_edge_is_drawn() -> None:
    root = drawn(rich_graph().svg())
    found = {word for text in classes(root) for word in text.split()}
    assert found >= {
        "input", "output", "module", "activation", "norm", "merge", "loop", "map", "switch", "gate",
        "state", "graph", "flow", "reference", "level",
    }  # fmt: skip
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"#first · 20", "Loop for 2", "Gate 2 experts", "carried between calls"} <= set(texts)
    assert texts[0] is not None
    assert re.fullmatch(r"rich \[[0-9a-f]{8}\] · \d+ parameters", texts[0])


def test_the_picture_is_light_and_dark_and_needs_nothing_from_outside() -> None:
    text = rich_graph().svg()
    assert "prefers-color-scheme:dark" in text
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in text


def test_names_are_escaped() -> None:
    evil = '</text><script>alert("1")</script>&'
    graph = FlowBuilder.start(nn.Linear(4, 4)).tag(evil.replace("/", "")).label("<b>").build()
    root = drawn(graph.svg())
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (element.text or "") for element in root.iter(f"{SVG}title"))
    assert '\\"1\\"' in graph.dot()


def test_the_picture_goes_to_a_file_that_is_complete(tmp_path: Path) -> None:
    graph = rich_graph()
    text = graph.svg(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["graph.svg"]


def test_dot_has_shapes_styles_and_levels() -> None:
    text = rich_graph().dot()
    for shape in ("invhouse", "house", "ellipse", "box3d", "parallelogram", "diamond", "circle"):
        assert f"shape={shape} " in text
    assert 'style=dashed color="#2f6fde"' in text
    assert "style=dotted" in text
    assert "subgraph cluster_" in text
    assert text.count("{") == text.count("}")


def boxes_overlap(drawing: Drawing, sizes: dict[str, tuple[float, float]]) -> list[tuple[str, str]]:
    boxes = [(key, *drawing.centres[key], *sizes[key]) for key in drawing.centres]
    return [
        (a[0], b[0])
        for i, a in enumerate(boxes)
        for b in boxes[i + 1 :]
        if abs(a[1] - b[1]) < (a[3] + b[3]) / 2 and abs(a[2] - b[2]) < (a[4] + b[4]) / 2
    ]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=45), st.randoms(use_true_random=False))
def test_no_two_nodes_overlap_and_edges_meet_their_ends(counts: list[int], random: object) -> None:
    layers = [[f"{row}.{column}" for column in range(count)] for row, count in enumerate(counts)]
    choose = random.choice  # type: ignore[attr-defined]
    edges = [
        (choose(layers[choose(range(max(row - 6, 0), row))]), node)
        for row in range(1, len(layers))
        for node in layers[row]
    ]
    sizes = {key: (40.0 + 9 * len(key), 30.0) for layer in layers for key in layer}
    drawing = arrange(layers, list(dict.fromkeys(edges)), sizes)
    assert boxes_overlap(drawing, sizes) == []
    for (source, target), stretches in drawing.routes.items():
        start, end = stretches[0][0], stretches[-1][-1]
        assert start == pytest.approx((drawing.centres[source][0], drawing.centres[source][1] + 15))
        assert end == pytest.approx((drawing.centres[target][0], drawing.centres[target][1] - 15))
    for x, y in drawing.centres.values():
        assert -1 <= x <= drawing.width + 1
        assert 0 <= y <= drawing.height


def test_a_deep_graph_is_folded_to_the_shape_of_a_page() -> None:
    root = drawn(deep_graph(25).svg())
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    assert len([text for text in classes(root) if text.startswith("node ")]) > 200
    assert 0.5 < width / height < 3
    assert height < 3000


def test_a_straight_chain_is_straight() -> None:
    layers = [[str(row)] for row in range(10)]
    sizes = {str(row): (50.0 + row, 30.0) for row in range(10)}
    drawing = arrange(layers, [(str(row), str(row + 1)) for row in range(9)], sizes)
    assert len({round(x, 6) for x, _ in drawing.centres.values()}) == 1


def test_the_same_graph_gives_the_same_picture() -> None:
    assert deep_graph(8).svg() == deep_graph(8).svg()


def test_heat_goes_from_green_over_yellow_to_red() -> None:
    assert [heat_colour(share) for share in (-1, 0, 0.5, 1, 2)] == [
        "#27ae60", "#27ae60", "#f39c12", "#e74c3c", "#e74c3c",
    ]  # fmt: skip


def test_a_picture_without_edges_can_be_drawn() -> None:
    nodes = tuple(PictureNode(f"n{i}", "module", "Linear") for i in range(3))
    root = drawn(Picture("parts", nodes, ()).svg())
    assert len([text for text in classes(root) if text.startswith("node ")]) == 3


def test_two_edges_between_the_same_nodes_are_both_drawn() -> None:
    nodes = (PictureNode("a", "module", "A"), PictureNode("b", "module", "B"))
    edges = (PictureEdge("a", "b"), PictureEdge("a", "b", "reference", "name"))
    assert {"edge flow", "edge reference"} <= set(classes(drawn(Picture("p", nodes, edges).svg())))
