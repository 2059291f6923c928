"""What a person does with charts."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from pathlib import Path

import pytest

from epochal.journal.boards import Block, Board, save_board
from tests.conftest import StartRun
from tests.doubles import every_kind_scenario as scenario
from tests.doubles.every_kind import write_every_kind
from tests.e2e.browsing import (
    OpenPage,
    Serve,
    download,
    drag,
    drawn_lines,
    point_at,
    until,
    wait_for_lines,
)
from tests.store.journals import Journal

STEPS = 5000


@pytest.fixture(scope="module")
def runs(start_for_all: StartRun) -> Path:
    """Three runs of two configurations; the first is long, has a spike of one step and a NaN."""
    for name, lr, steps in (("long", 0.1, STEPS), ("short", 0.2, 60), ("other", 0.2, 60)):
        with start_for_all(name, config={"optimizer": {"lr": lr}}) as run:
            for step in range(steps):
                value = 100.0 if step == 3123 else math.exp(-step / 500) + lr
                run.log({"train/loss": math.nan if step == 40 else value, "acc": step}, step=step)
    return run.dir.parent.parent


@pytest.fixture
def own_runs(runs: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(runs, tmp_path / "runs"))


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("every-kind")
    write_every_kind(folder)
    return folder


def test_zooming_asks_for_every_point_of_the_range(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    wait_for_lines(page, "train/loss", 3)
    plot = page.locator('[data-metric="train/loss"] .chart-over')
    with page.expect_response(lambda r: "lo=" in r.url and "name=train" in r.url) as caught:
        drag(page, plot, 0.60, 0.66)
    body = caught.value.body()
    head = json.loads(body[8 : 8 + int.from_bytes(body[4:8], "little")])
    long = max(head["series"], key=lambda one: one["points"])
    assert long["raw"]
    assert long["count"] < STEPS / 10
    until(page, lambda: "zoom=step:" in page.url)
    plot.dblclick()
    until(page, lambda: "zoom" not in page.url)


def test_a_spike_of_one_step_is_drawn(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    lines = wait_for_lines(page, "train/loss", 3)
    svg = download(page, "train/loss", "SVG")
    coloured = " ".join(re.findall(r'<path d="([^"]+)" fill="none" stroke="#', svg))
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ (-?[\d.]+)", coloured)]
    bottoms = [max(y for _, y in line) for line in lines]
    assert min(heights) < min(bottoms) / 4


def test_a_column_of_points_is_drawn_and_read_as_its_mean_over_its_range(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    steps, spike = 30_000, 12_345
    values = [2.0 + step % 2 for step in range(steps)]
    values[spike] = 50.0
    with start_run("long") as run:
        for step, value in enumerate(values):
            run.log({"loss": value}, step=step)
    url = serve(tmp_path / "runs").url + "#place=board"
    page = open_page(url)
    line = wait_for_lines(page, "loss", 1)[0]

    def tooltip(share: float) -> str:
        point_at(page, page.locator('[data-metric="loss"] .chart-over'), share)
        found = page.locator('[data-metric="loss"] .chart-tooltip').inner_text()
        return found.replace("\xa0", " ")

    until(page, lambda: "max 50.0000 at step 12,345" in tooltip(spike / (steps - 1)))
    title, *row, foot = tooltip(spike / (steps - 1)).split("\n")
    first, last = (int(step.replace(",", "")) for step in re.findall(r"[\d,]+", title))
    assert first <= spike <= last
    points = values[first : last + 1]
    assert row == ["long", f"{sum(points) / len(points):.4f}", "2.0000 – 50.0000"]
    lowest = first + points.index(2.0)
    extremes = f"max 50.0000 at step 12,345 · min 2.0000 at step {lowest:,}"
    assert foot == f"mean and range of {len(points)} points · {extremes}"
    # The band reaches up to the tick of 50, and the line does not.
    svg = download(page, "loss", "SVG")
    (tick,) = re.findall(r'<text x="[\d.]+" y="([\d.]+)"[^>]*>50</text>', svg)
    (band,) = re.findall(r'<path d="([^"]+)" fill="none" stroke="#\w+"[^>]*opacity="0.42"', svg)
    assert min(float(y) for y in re.findall(r" ([\d.]+)", band)) == pytest.approx(
        float(tick), abs=4
    )
    assert min(y for _, y in line) > float(tick) + 100
    # In a narrow range each column has one point: its value is exact.
    page = open_page(f"{url}&zoom=step:{spike - 10}..{spike + 10}")
    wait_for_lines(page, "loss", 1)
    until(page, lambda: tooltip(0.5).split("\n")[:3] == ["step 12,345", "long", "50.0000"])


def test_a_chart_asks_for_as_many_columns_as_it_is_wide(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page("about:blank")
    asked: list[int] = []
    page.on("request", lambda r: asked.extend(map(int, re.findall(r"series.*pixels=(\d+)", r.url))))
    page.goto(serve_all(runs).url + "#place=board")
    wait_for_lines(page, "train/loss", 3)
    width = page.eval_on_selector(
        '[data-metric="train/loss"] .metric-chart', "one => one.clientWidth"
    )
    assert set(asked) == {50 * math.ceil((width - 40) / 50)}
    page.get_by_role("button", name="Full screen: train/loss").click()
    until(page, lambda: max(asked) > min(asked))


def test_a_view_opens_again_from_its_address(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    url = serve_all(runs).url
    page = open_page(url + "#place=board&x=relative&smooth=0.6&metrics=loss")
    page.locator('[data-metric="train/loss"]').wait_for()
    until(page, lambda: page.locator("[data-metric]").count() == 1)
    page.get_by_role("button", name="Axes: Elapsed").wait_for()
    until(page, lambda: page.get_by_role("slider", name="Smooth").input_value() == "0.6")


def test_charts_are_filtered_by_words(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    page.locator('[data-metric="acc"]').wait_for()
    box = page.get_by_role("searchbox", name="Filter charts")
    box.fill("LOSS")
    page.locator('[data-metric="acc"]').wait_for(state="detached")
    box.fill("a*c")
    page.locator('[data-metric="acc"]').wait_for()
    box.fill("(")
    page.get_by_text("No metric matches this filter").wait_for()


def test_runs_are_shown_hidden_and_shown_alone(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url + "#place=board&metrics=loss")
    wait_for_lines(page, "train/loss", 3)
    page.get_by_role("checkbox", name="Show short in the charts").click()
    wait_for_lines(page, "train/loss", 2)
    page.get_by_role("checkbox", name="Show short in the charts").click()
    page.locator(".run-name", has_text="other").dblclick()
    wait_for_lines(page, "train/loss", 1)
    page.keyboard.press("s")
    wait_for_lines(page, "train/loss", 3)


def test_a_click_in_the_legend_dims_the_others(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    wait_for_lines(page, "train/loss", 3)
    card = page.locator('[data-metric="train/loss"]')
    card.locator(".chart-legend-entry", has_text="short").click()
    card.locator(".chart-legend-entry.is-dimmed").nth(1).wait_for()
    # Every chart follows.
    page.locator('[data-metric="acc"] .chart-legend-entry.is-dimmed').nth(1).wait_for()


def test_smoothing_keeps_the_raw_line_behind(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url + "#place=board&metrics=loss")
    page.get_by_role("checkbox", name="Show long in the charts").click()
    rough = wait_for_lines(page, "train/loss", 2)
    page.keyboard.press("]")
    until(page, lambda: "smooth=0.1" in page.url)
    until(page, lambda: drawn_lines(page, "train/loss") != rough)
    smooth = wait_for_lines(page, "train/loss", 2)
    assert [[x for x, _ in line] for line in smooth] == [[x for x, _ in line] for line in rough]
    svg = download(page, "train/loss", "SVG")
    assert len(re.findall(r'fill="none" stroke="#[^>]*opacity="0\.28"', svg)) == 2


def test_groups_are_drawn_as_their_mean(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url + "#place=board&metrics=loss")
    page.get_by_role("button", name="Group runs").click()
    page.get_by_role("menuitemcheckbox", name="optimizer.lr").click()
    until(page, lambda: page.locator(".run-group").count() == 2)
    wait_for_lines(page, "train/loss", 2)
    until(page, lambda: "mean ± std, 2 runs" in page.locator(".chart-legend").inner_text())


def test_a_baseline_gives_differences(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url)
    page.locator(".run-name", has_text="short").click()
    page.keyboard.press("b")
    page.locator(".run", has_text="other").locator(".run-delta", has_text="±0 %").wait_for()
    until(
        page,
        lambda: "%" in page.locator(".run", has_text="long").locator(".run-delta").inner_text(),
    )


def test_a_run_is_renamed(own_runs: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(own_runs).url)
    page.locator(".run", has_text="short").hover()
    page.get_by_role("button", name="Actions for short").click()
    page.get_by_role("menuitem", name="Rename…").click()
    page.get_by_role("textbox", name="Name of the run").fill("the better one")
    page.keyboard.press("Enter")
    page.locator(".run", has_text="the better one").wait_for()


def test_a_csv_has_every_point_as_it_was_logged(
    runs: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    text = download(page, "train/loss", "CSV")
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["run"] == "long"]
    journal = (
        (runs / "tests" / "long" / "journal" / "loop.0001.0000.jsonl").read_text().splitlines()
    )
    logged = [record for record in map(json.loads, journal) if record["log"] == "metrics"]
    assert [int(row["x"]) for row in rows] == [record["step"] for record in logged]
    assert [None if row["value"] == "nan" else float(row["value"]) for row in rows] == [
        record["m"]["train/loss"] for record in logged
    ]


def test_pictures_can_be_taken(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    wait_for_lines(page, "train/loss", 3)
    assert len(drawn_lines(page, "train/loss")) == 3
    page.locator('[data-metric="train/loss"]').get_by_role("button", name="Actions").click()
    with page.expect_download() as caught:
        page.get_by_role("menuitem", name="Download PNG").click()
    assert Path(caught.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_chart_fills_the_window(runs: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(runs).url + "#place=board")
    page.get_by_role("button", name="Full screen: train/loss").click()
    box = page.locator(".full-chart .chart-over").bounding_box()
    assert box is not None
    assert box["width"] > 1000
    page.keyboard.press("Escape")
    until(page, lambda: "full" not in page.url)


def test_a_finding_leads_to_its_steps(
    every_kind: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(every_kind).url)
    page.locator(".finding", has_text="jumped by 6.0 at step 310").click()
    until(page, lambda: "zoom=step:290..330" in page.url)


def test_ranks_are_shown_alone_each_and_as_their_mean(
    every_kind: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(every_kind).url + "#place=board&metrics=train/lr")
    wait_for_lines(page, "train/lr", 1)
    page.get_by_role("button", name="Display").click()
    page.get_by_label("Ranks").select_option("Each rank")
    page.keyboard.press("Escape")
    wait_for_lines(page, "train/lr", 2)
    page.get_by_role("button", name="Display").click()
    page.get_by_label("Ranks").select_option("Mean and range")
    page.keyboard.press("Escape")
    wait_for_lines(page, "train/lr", 1)
    # With few points there are dots, with a spread there is an area.
    assert re.search(r'fill="#\w+" fill-opacity|opacity="0.2"', download(page, "train/lr", "SVG"))


def test_what_happened_is_marked_and_can_be_turned_off(
    every_kind: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(every_kind).url + "#place=board&metrics=train/loss")
    wait_for_lines(page, "train/loss", 1)
    plot = page.locator('[data-metric="train/loss"] .chart-over')
    tooltip = page.locator(".chart-tooltip")
    point_at(page, plot, 200 / 399)
    for words in ("attempt 2 resumes from step 200", "epoch 2 of 4", "saved 200.safetensors"):
        tooltip.get_by_text(words).wait_for()
    tooltip.get_by_text("phase: converging").wait_for()
    page.get_by_role("button", name="Display").click()
    page.get_by_role("checkbox", name="Restarts").uncheck()
    page.keyboard.press("Escape")
    point_at(page, plot, 200 / 399)
    tooltip.get_by_text("epoch 2 of 4").wait_for()
    assert tooltip.get_by_text("attempt 2").count() == 0
    until(page, lambda: "no-marks=restart" in page.url)


def test_a_throttled_gpu_is_marked(every_kind: Path, serve_all: Serve, open_page: OpenPage) -> None:
    page = open_page(serve_all(every_kind).url + "#place=run&at=system")
    plot = page.locator("[data-title='GPU · Temperature, °C'] .chart-over")
    tooltip = page.locator("[data-title='GPU · Temperature, °C'] .chart-tooltip")
    words = f"GPU {scenario.HOT_GPU}: thermal cap"

    def is_told() -> bool:
        began = scenario.FIRST.seconds_at(scenario.HOT_STEPS[0])
        point_at(page, plot, began / scenario.DURATION_S)
        return tooltip.get_by_text(words).count() > 0

    until(page, is_told)


@pytest.fixture(scope="module")
def by_epoch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that were logged by steps, and one by epochs."""
    root = tmp_path_factory.mktemp("by-epoch")
    for name in ("one", "two"):
        journal = Journal(root, name, project="p")
        for step in range(20):
            journal.add({"log": "metrics", "step": step, "m": {"loss": 1.0, "eval/loss": 2.0}})
        journal.finish()
    journal = Journal(root, "epochs", project="p")
    for epoch in range(1, 4):
        journal.add({"log": "epoch", "epoch": epoch, "m": {"loss": 3.0 - epoch}})
    journal.finish()
    return root


def test_runs_without_steps_are_mentioned_and_shown_by_elapsed_time(
    by_epoch: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(by_epoch).url + "#place=board&metrics=loss")
    wait_for_lines(page, "loss", 2)
    card = page.locator('[data-metric="loss"]')
    card.get_by_text("1 run has no steps: it was logged by epoch.").wait_for()
    card.get_by_role("button", name="Show all by elapsed time").click()
    page.get_by_role("button", name="Axes: Elapsed").wait_for()
    wait_for_lines(page, "loss", 3)


def test_a_chart_of_several_series_draws_them_although_one_cannot_be_computed(
    by_epoch: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    charts = [
        Block(kind="chart", series=["loss", "eval/*", "loss - nothing/here"], title="both"),
        Block(kind="chart", series=["eval/loss - loss"], title="gap"),
    ]
    save_board(by_epoch / "p", "p", Board(name="losses", blocks=charts), None)
    page = open_page(serve_all(by_epoch).url + "#place=board&board=losses")
    wait_for_lines(page, "both", 4)
    card = page.locator('[data-metric="both"]')
    card.locator(".metric-problem", has_text="nothing/here").wait_for()
    # Colours tell the runs apart, and dashes the series.
    legend = card.locator(".chart-legend-entry")
    names = {f"{run} · {name}" for run in ("one", "two") for name in ("loss", "eval/loss")}
    until(page, lambda: set(legend.all_inner_texts()) == names)
    assert len(re.findall(r'stroke-dasharray="6 3"', download(page, "both", "SVG"))) >= 2
    legend.filter(has_text="one · loss").click()
    until(page, lambda: card.locator(".chart-legend-entry.is-dimmed").count() == 3)
    # A formula is a line like any other, also in the download.
    rows = list(csv.DictReader(io.StringIO(download(page, "gap", "CSV"))))
    assert {(row["metric"], row["value"]) for row in rows} == {("eval/loss - loss", "1")}
