"""Curves, tables and logs of a graph's history."""

from __future__ import annotations

import csv
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from torch import nn

from epochal import FlowBuilder, Graph


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


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)


def page_of(graph: Graph, path: Path, tags: list[str] | None = None) -> str:
    graph.plot_html(path, tags or [])
    return path.read_text(encoding="utf-8")


def test_the_page_is_one_file_with_a_curve_for_each(tmp_path: Path) -> None:
    page = page_of(recorded(), tmp_path / "curves.html")
    assert not re.search(r"https?://|src=|href=", page)
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    groups = [g for g in ET.fromstring(svg).iter("g") if g.get("class") == "curve"]
    assert [group.findtext("title") for group in groups] == ["loss", "head_0", "head_1"]


def test_a_nan_is_a_gap_and_counted(tmp_path: Path) -> None:
    page = page_of(recorded(), tmp_path / "curves.html", ["loss"])
    path = re.search(r'<path d="(M[^"]*)"/><circle', page)
    assert path is not None
    assert path[1].count("M") == 2
    assert "1 not finite" in page
    assert "nan," not in path[1]


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, 1e308, -1e308])
def test_odd_values_still_give_a_page(tmp_path: Path, value: float) -> None:
    graph = FlowBuilder.start(nn.Linear(1, 1)).build()
    for one in (value, -value):
        graph.record_scalar("x", one)
        graph.flush()
    page = page_of(graph, tmp_path / "x.html")
    drawn = re.findall(r"<(?:path|circle)[^>]*>", page)
    assert not any("nan" in one or "inf" in one for one in drawn)


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>$title"
    graph = FlowBuilder.start(nn.Linear(1, 1)).label("<i>").build()
    graph.record_scalar(evil, 1.0)
    graph.flush()
    page = page_of(graph, tmp_path / "x.html")
    parser = Tags()
    parser.feed(page)
    assert "img" not in parser.seen
    assert "$title" in page
    assert parser.seen.count("script") == 1


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


def test_without_a_total_the_log_has_no_time_left(tmp_path: Path) -> None:
    graph = recorded()
    graph.write_log(tmp_path / "t.log")
    lines = (tmp_path / "t.log").read_text().splitlines()
    assert lines[1].startswith("epoch   1  loss=1.5000  [")
    assert "ETA" not in "".join(lines)


def test_after_a_restart_old_epochs_have_no_duration(tmp_path: Path) -> None:
    graph = recorded()
    graph.restore_observation(graph.observation_state())
    graph.record_scalar("loss", 0.125)
    graph.flush()
    graph.write_log(tmp_path / "t.log", 4, ["loss"])
    lines = (tmp_path / "t.log").read_text().splitlines()
    assert lines[3] == "epoch 3/4  loss=0.2500"
    assert lines[4].startswith("epoch 4/4  loss=0.1250  [")


def test_files_make_the_folders_on_their_way(tmp_path: Path) -> None:
    graph = FlowBuilder.start(nn.Linear(2, 2)).build()
    graph.record_scalar("loss", 1.0)
    graph.flush()
    graph.plot_html(tmp_path / "a" / "curves.html")
    graph.export_trends(tmp_path / "b" / "table.csv")
    graph.write_log(tmp_path / "c" / "d" / "training.log", 1)
    graph.svg(tmp_path / "e" / "graph.svg")
    assert sum(path.is_file() for path in tmp_path.rglob("*.*")) == 4
