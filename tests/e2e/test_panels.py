"""Tables and pictures of several runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import StartRun
from tests.e2e.browsing import OpenPage, Serve, has_drawn, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# Something that is on a panel only when its content is; for a panel without a row, a section.
_CONTENTS = {
    "overview": ".vital",
    "charts": "[data-metric='train/loss'] canvas",
    "compare": ".compare-name >> text=every-kind",
    "performance": "[data-title='Timeline'] canvas",
    "system": "[data-title='Resources'] canvas",
    "experts": "[data-title='Layers and experts'] canvas",
    "histograms": "[data-title='weights/blocks.0'] canvas",
    "samples": ".sample-text >> text=made up at step 399",
    "graph": ".picture img",
    "findings": ".found-sentence >> text=was NaN at step 150",
    "log": ".log-text >> text=training begins",
    "config": ".tree-value >> text=65536",
    "projects": ".projects tbody tr",
}
PANELS = {panel.id: _CONTENTS.get(panel.id, ".panel [data-title]") for panel in declared_panels()}


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_every_kind(folder, seed=0)
    return folder


@pytest.fixture(scope="module")
def site(every_kind: Path, serve_all: Serve) -> str:
    return serve_all(every_kind).url


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_every_panel_shows_its_records_and_none_is_too_wide(
    site: str, open_page: OpenPage, size: str
) -> None:
    phone = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    page = open_page(site, **(phone if size == "phone" else {}))
    tabs = page.get_by_role("tab").all_inner_texts()
    titles = [re.sub(r"\s*\d*$", "", tab) for tab in tabs]
    assert titles == [panel.title for panel in declared_panels()]
    for panel, content in PANELS.items():
        page.goto(f"{site}#panel={panel}")
        page.locator(content).first.wait_for(state="visible")
        assert width_beyond(page) <= 0, panel


def width_beyond(page: Page) -> int:
    """By how many pixels the page, or its panel, could be scrolled sideways."""
    beyond: int = page.evaluate(
        "Math.max(...[document.documentElement, document.querySelector('.panel')]"
        ".map((element) => element.scrollWidth - element.clientWidth))"
    )
    return beyond


def test_a_resource_alone_is_shown_in_bytes_under_its_limit(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=system")
    section = page.locator("[data-title='Resources']")
    section.get_by_text("share of what there is").wait_for()
    section.get_by_role("button", name="RAM", exact=True).click()
    section.get_by_text("RAM in bytes").wait_for()
    section.get_by_role("button", name="RAM", exact=True).click()
    section.get_by_text("share of what there is").wait_for()


def test_one_gpu_of_two_has_charts_of_its_own(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=system")
    section = page.locator("[data-title='GPU · Temperature, °C']")
    page.get_by_role("tab", name="All 2 GPUs").wait_for()
    assert page.locator(".panel").evaluate("(panel) => panel.scrollTop") == 0
    section.scroll_into_view_if_needed()
    section.get_by_text("GPU 0", exact=True).wait_for()
    page.get_by_role("tab", name="GPU 1").click()
    section.get_by_text("GPU 0", exact=True).wait_for(state="detached")
    until(page, lambda: "gpu=1" in page.url)


def test_experts_are_chosen_by_layer_and_step(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=experts")
    matrix = page.locator("[data-title='Layers and experts'] canvas")
    matrix.wait_for()
    summary = page.locator(".experts-summary")
    until(page, lambda: "2 of 40 experts get less than a tenth" in summary.inner_text())
    # The layer that is worst off is shown until one is chosen.
    page.locator("[data-title='blocks.7.mlp over steps'] canvas").wait_for()
    box = matrix.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + 14)
    page.locator("[data-title='blocks.1.mlp over steps'] canvas").wait_for()
    page.get_by_label("Earlier step").click()
    page.get_by_text("step 389").first.wait_for()
    until(page, lambda: "Step 389" in summary.inner_text())
    until(page, lambda: "experts-step=389" in page.url)


def test_expert_loads_are_a_table_too(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=experts")
    page.get_by_text("As a table").click()
    row = page.get_by_role("row", name="blocks.7.mlp")
    until(page, lambda: row.get_by_role("cell").all_inner_texts()[0] == "8")
    until(page, lambda: row.get_by_role("cell").last.inner_text() == "2")
    page.get_by_role("button", name="<b>blocks.9</b>&mlp").click()
    page.locator("[data-title='<b>blocks.9</b>&mlp over steps']").wait_for()


def test_the_time_of_a_step_is_shown_by_phase(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=performance")
    section = page.locator("[data-title='Where the time of a step goes']")
    section.get_by_text("steps 380–399 · 2000.0 ms a step · newest").wait_for()
    bar = section.locator(".chart-stack-track")
    names = (bar.get_attribute("aria-label") or "").split(", ")
    assert [name.split(" ")[0] for name in names[::2]] == [
        *("data", "forward", "backward", "optimizer", "sync", "augment", "other")
    ]
    point_at(page, section.locator("canvas"), 0.4)
    section.locator(".chart-tooltip").get_by_text("2000.0 ms in all").wait_for()
    page.mouse.down()
    page.mouse.up()
    section.get_by_text("newest").wait_for(state="detached")
    until(page, lambda: "phases-step=" in page.url)


def test_what_the_time_of_a_step_is_lost_to_is_shown_by_cause(
    site: str, open_page: OpenPage
) -> None:
    page = open_page(site + "#place=run&at=performance")
    section = page.locator("[data-title='Lost time by cause']")
    section.get_by_text("steps 380–399 · 2000.0 ms a step · newest").wait_for()
    bar = section.locator(".chart-stack-track")
    told = bar.get_attribute("aria-label") or ""
    assert told.startswith("useful 1560.4 ms, 78\xa0%, ")
    assert re.search(r"input wait \d+\.\d ms, \d+\xa0%, communication \d+\.\d ms", told), told
    point_at(page, section.locator("canvas"), 0.4)
    section.locator(".chart-tooltip").get_by_text("2000.0 ms in all").wait_for()


def test_phases_are_downloaded_as_they_were_recorded(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=performance")
    section = page.locator("[data-title='Where the time of a step goes']")
    rows = list(csv.DictReader(io.StringIO(saved(page, section, "Downloads of phases", "CSV"))))
    assert [int(row["step"]) for row in rows] == list(range(19, 400, 20))
    assert float(rows[0]['augment "it" <i>']) > 0
    assert float(rows[0]["wall_ms"]) == 2000


def test_the_timeline_shows_a_slow_stretch_and_its_cause(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=performance")
    section = page.locator("[data-title='Timeline']")
    section.get_by_text("GPU 0 idle 4.6 s (data), GPU 1 idle 4.6 s (data).").wait_for()
    lanes = section.locator("canvas")
    point_at(page, lanes, 0.5, down=0.36)
    section.locator(".chart-tooltip").get_by_text("data · after step 355").wait_for()
    drag(page, lanes, 0.4, 0.6)
    section.get_by_role("button", name="Reset zoom").click()
    section.get_by_role("combobox").select_option("The whole run")
    until(page, lambda: "timeline=whole" in page.url)
    assert section.get_by_text("GPU 0 idle").count() == 0


def test_the_timeline_is_downloaded(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=performance")
    section = page.locator("[data-title='Timeline']")
    records = json.loads(saved(page, section, "Downloads of the timeline", "JSON"))
    assert [record["log"] for record in records].count("timeline") == 1
    text = saved(page, section, "Downloads of the timeline", "CSV")
    rows = list(csv.DictReader(io.StringIO(text)))
    stall = next(row for row in rows if row["lane"] == "data")
    assert float(stall["duration_ms"]) == pytest.approx(4600, abs=1)
    assert {row["name"] for row in rows if row["lane"] == "GPU 1 idle"} == {"data"}


def test_the_speed_of_light_stands_beside_what_was_reached(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=performance")
    section = page.locator("[data-title='Speed of light']")
    section.get_by_text("of what the hardware could do").wait_for()
    section.get_by_text("of 42.0k/s").wait_for()
    section.get_by_text("812.50 of 989.40 TFLOP/s measured here").wait_for()


def saved(page: Page, section: Locator, menu: str, what: str) -> str:
    """The text of a section's download."""
    section.get_by_role("button", name=menu).click()
    with page.expect_download() as caught:
        page.get_by_role("menuitem", name=f"Download {what}").click()
    return Path(caught.value.path()).read_text(encoding="utf-8")


def test_the_cursor_of_histograms_moves_over_steps(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=histograms")
    section = page.locator("[data-title='weights/blocks.0']")
    section.get_by_text("step 399 · newest").wait_for()
    section.get_by_role("button", name="Earlier step").click()
    section.get_by_text("step 349").wait_for()


def test_the_log_is_newest_first_and_can_be_narrowed(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=log")
    lines = page.locator(".log-line")
    lines.first.wait_for()
    times = [line.get_attribute("title") or "" for line in page.locator(".log-time").all()]
    assert times == sorted(times, reverse=True)
    page.get_by_label("Lowest level").select_option("error")
    page.locator(".log-line.is-info").first.wait_for(state="detached")
    page.get_by_placeholder("Find in the log").fill("metrics host")
    page.locator(".log-line:only-child").wait_for()
    until(page, lambda: "tried twice" in lines.inner_text())


def test_a_finding_opens_the_charts_at_its_steps(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=findings")
    finding = page.locator(".found").filter(has_text="jumped by 6.0 at step 310")
    finding.get_by_role("button", name="Show in charts").click()
    page.wait_for_url(re.compile("zoom=step:"))
    low, high = page.url.split("zoom=step:")[1].split("&")[0].split("..")
    assert float(low) < 310 < float(high)


def test_a_finding_says_what_it_means_and_what_is_healthy(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=findings")
    finding = page.locator(".found").filter(has_text="was NaN at step 150")
    finding.get_by_text("What does this mean?").click()
    finding.get_by_text("A value overflowed or was not defined").wait_for()
    page.get_by_text("Healthy ranges").click()
    row = page.get_by_role("row", name="speed of light")
    row.locator(".is-warning", has_text="%").wait_for()
    until(page, lambda: "worth a look" in row.inner_text())


def test_the_overview_says_where_the_newest_steps_time_went(site: str, open_page: OpenPage) -> None:
    page = open_page(site)
    card = page.get_by_role("region", name="Time of a step")
    card.get_by_text("backward").wait_for()
    card.get_by_role("button", name="all steps").click()
    page.get_by_role("tab", name="Performance", selected=True).wait_for()


def test_the_tab_that_is_open_is_in_sight_on_a_phone(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=config", viewport=PHONE, has_touch=True, is_mobile=True)
    tab = page.get_by_role("tab", name="Config")

    def is_in_sight() -> bool:
        box = tab.bounding_box()
        return box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]

    until(page, is_in_sight)


def test_the_picture_of_the_model_zooms_and_runs_nothing(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=graph")
    picture = page.locator(".picture img")
    until(page, lambda: (picture.get_attribute("src") or "").startswith("data:image/svg+xml"))
    page.get_by_label("Zoom in").click()
    page.get_by_text("125 %").wait_for()
    page.get_by_role("button", name="Hide").click()
    picture.wait_for(state="detached")


@pytest.fixture
def sweep(start_run: StartRun, tmp_path: Path) -> Path:
    for index, (lr, seed) in enumerate([(0.1, 0), (0.1, 1), (0.01, 0), (0.01, 1)]):
        with start_run(f"run-{index}", config={"lr": lr, "seed": seed, "same": 1}) as run:
            for step in range(20):
                run.log({"train/loss": lr + seed / 100 + 1 / (step + 1)}, step=step)
    return tmp_path / "runs"


def test_runs_are_sorted_and_columns_hidden(sweep: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(sweep).url + "#place=compare")

    def names() -> list[str]:
        found = page.locator(".compare-run").evaluate_all("(all) => all.map((one) => one.title)")
        return list(found)

    # The best run is first until another order is chosen.
    until(page, lambda: names() == ["run-2", "run-3", "run-0", "run-1"])
    page.get_by_title("Sort by seed").click()
    until(page, lambda: set(names()[:2]) == {"run-0", "run-2"})
    heads = page.get_by_role("columnheader")
    assert heads.all_inner_texts()[1:4] == ["lr", "seed ↑", "train/loss"]
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("same").check()
    page.get_by_label("seed", exact=True).uncheck()
    heads.filter(has_text="same").wait_for()
    heads.filter(has_text="seed").wait_for(state="detached")


def test_the_table_downloads_what_it_shows(sweep: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(sweep).url + "#place=compare")
    page.locator(".compare-cell", has_text="0.06").first.wait_for()
    with page.expect_download() as caught:
        page.get_by_role("button", name="CSV").click()
    lines = Path(caught.value.path()).read_text(encoding="utf-8").splitlines()
    columns = lines[0].split(",")
    row = next(line for line in lines if line.startswith("run-2,")).split(",")
    assert float(row[columns.index("train/loss")]) == pytest.approx(0.01 + 1 / 20, abs=1e-12)
    assert row[columns.index("lr")] == "0.01"


def test_brushing_an_axis_keeps_the_runs_that_pass(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(sweep).url + "#place=compare&compare=parallel")
    chart = page.locator("[data-title='Parallel coordinates'] canvas")
    chart.wait_for()
    has_drawn(page)
    box = chart.bounding_box()
    assert box is not None
    # The first axis is the first setting; its upper half holds the larger rate.
    x = box["x"] + 32
    page.mouse.move(x, box["y"] + 46)
    page.mouse.down()
    page.mouse.move(x, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    page.get_by_role("button", name="Show these 2 in charts").click()
    page.wait_for_url(re.compile("runs="))


def test_groups_have_a_mean_and_a_deviation(sweep: Path, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(serve(sweep).url + "#place=compare&compare=groups&group=lr")
    page.get_by_role(
        "row", name=re.compile(r"^0\.01 2 0\.0650 ± 0\.0635 0\.00707 .* best mean")
    ).wait_for()
    page.get_by_role("row", name=re.compile(r"^0\.1 2 0\.1550 ± 0\.0635 0\.00707 ")).wait_for()


def test_configurations_side_by_side_show_what_differs(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(sweep).url + "#place=run&at=config&p-config=diff")
    page.get_by_role("rowheader", name="lr").wait_for()
    assert page.get_by_role("rowheader", name="same").count() == 0


def test_the_headline_is_the_loss_of_the_focused_run(
    start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    for name, metric in (("one", "loss"), ("two", "train/loss")):
        with start_run(name, companion=False) as run:
            run.log({metric: 1.0}, step=0)
            run.log({metric: 0.5}, step=1)
    page = open_page(serve(run.dir.parent.parent).url)
    page.locator(".headline[data-metric='train/loss']").wait_for()
    page.get_by_text("one", exact=True).first.click()
    page.locator(".headline[data-metric='loss']").wait_for()
