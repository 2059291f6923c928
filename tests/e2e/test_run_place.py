"""The place of one run, over a run that has every kind of record."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import StartRun
from tests.doubles.every_kind import write_every_kind
from tests.e2e.browsing import PHONE, OpenPage, Serve, drag, point_at, until
from tools.generated import declared_panels

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# Something that a section shows only when its content is there.
_CONTENTS = {
    "findings": ".found-sentence >> text=was NaN at step 150",
    "samples": ".samples .sample-text >> text=made up at step 399",
    "histograms": "[data-title='weights/blocks.0'] canvas",
    "config": ".tree-value >> text=65536",
    "log": ".log-text >> text=training begins",
    "graph": ".picture img",
    "system": "[data-title='Resources'] canvas",
    "performance": "[data-title='Timeline'] canvas",
    "experts": "[data-title='Layers and experts'] canvas",
}
SECTIONS = {
    panel.id: _CONTENTS.get(panel.id, f"[data-section={panel.id}] [data-title]")
    for panel in declared_panels()
}


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_every_kind(folder, seed=0)
    return folder


@pytest.fixture(scope="module")
def site(every_kind: Path, serve_all: Serve) -> str:
    return serve_all(every_kind).url


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_every_section_shows_its_records_and_none_is_too_wide(
    site: str, open_page: OpenPage, size: str
) -> None:
    phone = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    page = open_page(site, **(phone if size == "phone" else {}))
    links = page.get_by_role("navigation", name="Sections of the run").get_by_role("link")

    def titles() -> list[str]:
        return [re.sub(r"\s*\d*$", "", link) for link in links.all_inner_texts()]

    until(page, lambda: titles() == [panel.title for panel in declared_panels()])
    for section, content in SECTIONS.items():
        page.goto(f"{site}#at={section}")
        page.locator(content).first.wait_for(state="visible")
        assert width_beyond(page) <= 0, section


def width_beyond(page: Page) -> int:
    """By how many pixels the page, or its panel, could be scrolled sideways."""
    beyond: int = page.evaluate(
        "Math.max(...[document.documentElement, document.querySelector('.panel')]"
        ".map((element) => element.scrollWidth - element.clientWidth))"
    )
    return beyond


def test_a_resource_alone_is_shown_in_bytes_under_its_limit(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=system")
    section = page.locator("[data-title='Resources']")
    section.get_by_text("share of what there is").wait_for()
    section.get_by_role("button", name="RAM", exact=True).click()
    section.get_by_text("RAM in bytes").wait_for()
    section.get_by_role("button", name="RAM", exact=True).click()
    section.get_by_text("share of what there is").wait_for()


def test_one_gpu_of_two_has_charts_of_its_own(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=system")
    section = page.locator("[data-title='GPU · Temperature, °C']")
    page.get_by_role("tab", name="All 2 GPUs").wait_for()
    section.scroll_into_view_if_needed()
    section.get_by_text("GPU 0", exact=True).wait_for()
    page.get_by_role("tab", name="GPU 1").click()
    section.get_by_text("GPU 0", exact=True).wait_for(state="detached")
    until(page, lambda: "gpu=1" in page.url)


def test_experts_are_chosen_by_layer_and_step(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=experts")
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
    page = open_page(site + "#at=experts")
    page.get_by_text("As a table").click()
    row = page.get_by_role("row", name="blocks.7.mlp")
    until(page, lambda: row.get_by_role("cell").all_inner_texts()[0] == "8")
    until(page, lambda: row.get_by_role("cell").last.inner_text() == "2")
    page.get_by_role("button", name="<b>blocks.9</b>&mlp").click()
    page.locator("[data-title='<b>blocks.9</b>&mlp over steps']").wait_for()


def test_the_time_of_a_step_is_shown_by_phase(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=performance")
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
    page = open_page(site + "#at=performance")
    section = page.locator("[data-title='Lost time by cause']")
    section.get_by_text("steps 380–399 · 2000.0 ms a step · newest").wait_for()
    bar = section.locator(".chart-stack-track")
    told = bar.get_attribute("aria-label") or ""
    assert told.startswith("useful 1560.4 ms, 78\xa0%, ")
    assert re.search(r"input wait \d+\.\d ms, \d+\xa0%, communication \d+\.\d ms", told), told
    point_at(page, section.locator("canvas"), 0.4)
    section.locator(".chart-tooltip").get_by_text("2000.0 ms in all").wait_for()


def test_the_timeline_shows_a_slow_stretch_and_its_cause(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=performance")
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
    page = open_page(site + "#at=performance")
    section = page.locator("[data-title='Timeline']")
    records = json.loads(saved(page, section, "Downloads of the timeline", "JSON"))
    assert [record["log"] for record in records].count("timeline") == 1
    text = saved(page, section, "Downloads of the timeline", "CSV")
    rows = list(csv.DictReader(io.StringIO(text)))
    stall = next(row for row in rows if row["lane"] == "data")
    assert float(stall["duration_ms"]) == pytest.approx(4600, abs=1)
    assert {row["name"] for row in rows if row["lane"] == "GPU 1 idle"} == {"data"}


def test_the_speed_of_light_stands_beside_what_was_reached(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=performance")
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
    page = open_page(site + "#at=histograms")
    section = page.locator("[data-title='weights/blocks.0']")
    section.get_by_text("step 399 · newest").wait_for()
    section.get_by_role("button", name="Earlier step").click()
    section.get_by_text("step 349").wait_for()
    page.get_by_role("radio", name="Percentiles").check()
    section.locator("canvas[aria-label*='percentiles']").wait_for()


def test_the_log_is_newest_first_and_can_be_narrowed(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=log")
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
    page = open_page(site + "#at=findings")
    finding = page.locator(".found").filter(has_text="jumped by 6.0 at step 310")
    finding.get_by_role("button", name="Show in charts").click()
    page.wait_for_url(re.compile("zoom=step:"))
    low, high = page.url.split("zoom=step:")[1].split("&")[0].split("..")
    assert float(low) < 310 < float(high)


def test_a_finding_says_what_it_means_and_what_is_healthy(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=findings")
    finding = page.locator(".found").filter(has_text="was NaN at step 150")
    finding.get_by_text("What does this mean?").click()
    finding.get_by_text("A value overflowed or was not defined").wait_for()
    finding.get_by_text("Every value is a number.").wait_for()


def test_the_overview_says_where_the_newest_steps_time_went(site: str, open_page: OpenPage) -> None:
    page = open_page(site)
    card = page.get_by_role("region", name="Time of a step")
    card.get_by_text("backward").wait_for()
    card.get_by_role("button", name="all steps").click()
    page.locator(SECTIONS["performance"]).wait_for()


def test_the_link_of_the_open_section_is_in_sight_on_a_phone(
    site: str, open_page: OpenPage
) -> None:
    page = open_page(site + "#at=experts", viewport=PHONE, has_touch=True, is_mobile=True)
    link = page.get_by_role("link", name="Experts")

    def is_in_sight() -> bool:
        box = link.bounding_box()
        return box is not None and box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]

    until(page, is_in_sight)


def test_the_picture_of_the_model_zooms_and_runs_nothing(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#at=graph")
    picture = page.locator(".picture img")
    until(page, lambda: (picture.get_attribute("src") or "").startswith("data:image/svg+xml"))
    page.get_by_label("Zoom in").click()
    page.get_by_text("125 %").wait_for()
    page.get_by_role("button", name="Graph", expanded=True).click()
    picture.wait_for(state="detached")
    until(page, lambda: "at=" not in page.url)


def test_the_overview_has_what_a_run_is_about(site: str, open_page: OpenPage) -> None:
    page = open_page(site)
    page.get_by_role("heading", name="every-kind", level=2).wait_for()
    head = page.locator(".run-head")
    head.get_by_text("step 400 of 400 · 100\xa0%").wait_for()
    head.get_by_text("2 × NVIDIA H100 80GB HBM3").wait_for()
    losses = page.get_by_role("region", name="train/loss, eval/loss")
    losses.get_by_role("button", name="eval/loss", exact=True).wait_for()  # in the legend
    for name in ("accuracy", "learning rate", "gradient norm", "throughput", "GPU"):
        page.get_by_role("region", name=name, exact=True).locator("canvas").first.wait_for()
    samples = page.get_by_role("region", name="Newest samples")
    samples.get_by_text("made up at step 399").wait_for()


def test_sections_stay_open_for_the_next_run(
    start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    for name, lr in (("one", 0.1), ("two", 0.2)):
        with start_run(name, companion=False, config={"lr": lr, "same": 1}) as run:
            run.log({"loss": 1.0}, step=0)
    page = open_page(serve(run.dir.parent.parent).url + "#at=config")
    row = page.get_by_role("row", name="lr")
    until(page, lambda: row.get_by_role("cell").all_inner_texts() == ["0.2", "0.1"])
    assert page.get_by_role("rowheader", name="same").count() == 0
    page.get_by_role("button", name="Log", expanded=False).click()
    page.get_by_role("list", name="Log of two").wait_for()
    page.keyboard.press("j")
    page.get_by_role("heading", name="one", level=2).wait_for()
    page.get_by_role("list", name="Log of one").wait_for()
    page.locator("[data-section=config] .tree-key", has_text="same").wait_for()


def test_sections_without_content_are_left_out(
    start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run("words", companion=False) as run:
        run.log({"reply": "Hello!"}, step=0)
    page = open_page(serve(run.dir.parent.parent).url)
    page.get_by_text("This run recorded no metrics.").wait_for()
    page.locator("[data-section=samples] .sample-text", has_text="Hello!").wait_for()
    links = page.get_by_role("navigation", name="Sections of the run").get_by_role("link")
    assert links.all_inner_texts() == ["Samples", "Config", "Log"]


def test_a_section_appears_with_its_first_record(
    start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run("grows", companion=False) as run:
        run.log({"loss": 1.0}, step=0)
        page = open_page(serve(run.dir.parent.parent).url)
        page.get_by_role("link", name="Config").wait_for()
        assert page.get_by_role("link", name="Samples").count() == 0
        run.log({"reply": "Hello!"}, step=1)
        page.get_by_role("link", name="Samples").wait_for()


def test_a_section_that_fails_takes_no_other_with_it(
    every_kind: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(every_kind).url + "#at=log")
    page.locator(".log-line").first.wait_for()
    address = re.compile(r"/api/runs/\w+/data\b")
    broken = json.dumps({"splits": [{"name": "train"}]})
    page.route(address, lambda route: route.fulfill(body=broken))
    page.get_by_role("button", name="Data", expanded=False).click()
    page.get_by_role("alert").get_by_text("Data cannot be shown").wait_for()
    page.locator(".log-line").first.wait_for()
    page.unroute(address)
    page.get_by_role("button", name="Try again").click()
    page.locator(SECTIONS["data"]).first.wait_for()


def test_the_first_chart_is_the_loss_of_the_focused_run(
    start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    for name, metric in (("one", "loss"), ("two", "train/loss")):
        with start_run(name, companion=False) as run:
            run.log({metric: 1.0}, step=0)
            run.log({metric: 0.5}, step=1)
    page = open_page(serve(run.dir.parent.parent).url)
    page.locator(".overview-top [data-metric='train/loss']").wait_for()
    page.get_by_text("one", exact=True).first.click()
    page.locator(".overview-top [data-metric='loss']").wait_for()


def test_name_note_and_tags_are_changed_in_their_places(
    start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run("first", companion=False) as run:
        run.log({"loss": 1.0}, step=0)
    page = open_page(serve(run.dir.parent.parent).url)
    head = page.locator(".run-head")
    head.get_by_role("button", name="first").click()
    head.get_by_label("Name of the run").fill("renamed")
    page.keyboard.press("Enter")
    head.get_by_role("button", name="renamed").wait_for()
    head.get_by_role("button", name="Add a note").click()
    head.get_by_label("Note").fill("Keep for the paper.")
    page.keyboard.press("Control+Enter")
    head.get_by_role("button", name="Keep for the paper.").wait_for()
    head.get_by_role("button", name="Add a tag").click()
    head.get_by_label("New tag").fill("baseline")
    page.keyboard.press("Enter")
    head.get_by_role("button", name="Remove the tag baseline").wait_for()
