"""Samples of every type: of one run, of several runs on a board, and in an archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pytest

import epochal
from tests.conftest import StartRun
from tests.doubles.archives import write_archive
from tests.e2e.browsing import PHONE, OpenPage, Serve, until
from tests.e2e.test_run_place import width_beyond
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

SCRIPT = "<script>document.body.textContent = 'it ran'</script>"
LEFT = "(one) => one.getBoundingClientRect().left"
# From the end, on from the start.
SCROLL_ON = """(all) => all.scrollTo(0,
  all.scrollTop + all.clientHeight >= all.scrollHeight - 1 ? 0 : all.scrollTop + 200)"""
# Several runs beside each other are a block of a board.
BLOCK = {"kind": "samples", "series": ["*"], "width": 12, "height": 3}
BOARD = "#place=board&draft=" + quote(json.dumps({"name": "", "blocks": [BLOCK]}))
BOXES = [
    {"box": (0.1, 0.1, 0.5, 0.5), "label": "cat", "score": 0.9, "group": "guess"},
    {"box": (0.5, 0.5, 0.9, 0.9), "label": "<b>dog</b>", "score": 0.2, "group": "guess"},
]


def samples(seed: int, step: int) -> dict[str, Any]:
    pixels = np.random.default_rng(seed + step).random((16, 24, 3))
    mask = np.zeros((16, 24), dtype=np.uint8)
    mask[:8] = 1
    return {
        "words": f"seed {seed} wrote <i>this</i> at {step}",
        "picture": epochal.Image(pixels, caption="made up"),
        "boxes": epochal.Image(
            pixels, boxes=BOXES, masks={"guess": {"mask": mask, "labels": {1: "sky"}}}
        ),
        "list": [epochal.Image(pixels, caption=f"item {place}") for place in range(3)],
        "film": epochal.Video((np.stack([pixels] * 3) * 255).astype(np.uint8)),
        "sound": epochal.Audio(np.sin(np.arange(4000) / 9), sample_rate=8000),
        "report": epochal.Markdown("# A report"),
        "page": epochal.Html(f"<h1>A page</h1>{SCRIPT}"),
        "guesses": [{"n": place, "words": f"<b>row {place}</b>"} for place in range(40)],
    }


@pytest.fixture(scope="module")
def runs(start_for_all: StartRun) -> list[Path]:
    folders = []
    for seed in range(2):
        with start_for_all(f"seed-{seed}", config={"seed": seed}, companion=False) as run:
            for step in (0, 10, 20, 30):
                run.log({"loss": 1.0 / (1 + step)}, step=step)
                run.log(samples(seed, step) if step % 20 == 0 else {"words": "less"}, step=step)
        folders.append(run.dir)
    return folders


@pytest.fixture(scope="module")
def site(runs: list[Path], serve_all: Serve) -> str:
    return serve_all(runs[0].parent.parent).url


def row(page: Page, name: str) -> Locator:
    """The row of a name, scrolled into view: it is not on the page before."""
    found = page.locator(f"[data-title='{name}']")

    def is_found() -> bool:
        if found.count() == 0:
            page.locator(".samples").evaluate(SCROLL_ON)
        else:
            found.evaluate_all("(all) => all[0]?.scrollIntoView({ block: 'center' })")
        return found.is_visible()

    until(page, is_found)
    return found


def check_every_type(page: Page) -> None:
    row(page, "words").get_by_text("<i>this</i>").or_(page.get_by_text("less")).first.wait_for()
    for name in ("picture", "list", "film"):
        picture = row(page, name).locator("img").first
        until(page, lambda picture=picture: picture.evaluate("(one) => one.naturalWidth") == 24)  # type: ignore[misc]
    until(page, lambda: row(page, "list").get_by_text("item 2").count() >= 1)
    row(page, "boxes").locator("rect").first.wait_for(state="attached")
    row(page, "sound").locator("audio").first.wait_for()
    row(page, "sound").get_by_text("0.50 s").first.wait_for()
    row(page, "film").get_by_text("3 frames").first.wait_for()
    row(page, "report").get_by_text("A report").first.wait_for()
    frame = row(page, "page").frame_locator("iframe").first
    frame.get_by_role("heading", name="A page").wait_for()
    assert frame.get_by_text("it ran").count() == 0
    row(page, "guesses").get_by_text("<b>row 3</b>").first.wait_for()


def test_every_type_is_shown_for_both_runs(site: str, open_page: OpenPage) -> None:
    page = open_page(site + BOARD)
    until(page, lambda: row(page, "picture").locator("img").count() == 2)
    sizes = (
        row(page, "picture")
        .locator("img")
        .evaluate_all("(all) => all.map((one) => [one.clientWidth, one.clientHeight])")
    )
    assert sizes[0] == sizes[1]
    check_every_type(page)
    assert width_beyond(page) <= 0


def test_an_archive_shows_every_type_without_a_network(
    runs: list[Path], tmp_path: Path, open_page: OpenPage
) -> None:
    write_archive(runs, tmp_path / "runs.html")
    page = open_page("about:blank", offline=True)
    page.goto((tmp_path / "runs.html").as_uri() + "#place=run&at=samples")
    check_every_type(page)


def test_an_archive_says_what_did_not_fit_and_a_file_is_downloaded(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path / "runs", "big")
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "a.wav").write_bytes(bytes(100_000))
    (journal.folder.blobs / "b.json").write_text("[1]")
    sound = {"file": "a.wav", "media_type": "audio/wav", "bytes": 100_000}
    kept = {"file": "b.json", "media_type": "application/json", "bytes": 3}
    journal.add({"log": "blob", "step": 1, "name": "sound", **sound})
    journal.add({"log": "file", "step": 1, "name": "vocabulary.json", **kept}).finish()
    path = tmp_path / "run.html"
    write_archive(journal.folder.path, path, sample_bytes=50_000)
    page = open_page(path.as_uri() + "#place=run&at=samples", offline=True)
    row(page, "sound").get_by_text("This sample is not in the archive").wait_for()
    page = open_page(serve(tmp_path / "runs").url + "#place=run&at=samples")
    with page.expect_download() as caught:
        row(page, "Files").get_by_role("link", name="vocabulary.json, 3 B").click()
    assert Path(caught.value.path()).read_text() == "[1]"
    assert caught.value.suggested_filename == "vocabulary.json"


def test_the_slider_shows_what_was_there_at_a_step(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=samples")
    note = row(page, "picture").locator(".samples-note").first
    until(page, lambda: note.inner_text() == "step 20")
    page.get_by_label("Earlier step").click()
    page.get_by_label("Earlier step").click()
    until(page, lambda: "sample-step=10" in page.url)
    # The picture of the step before, and the text of this one.
    until(page, lambda: note.inner_text() == "step 0")
    page.keyboard.press("ArrowRight")
    row(page, "words").get_by_text("seed 1 wrote <i>this</i> at 20").wait_for()
    assert row(page, "words").locator("i").count() == 0


def test_texts_are_marked_where_they_differ_between_runs_and_steps(
    site: str, open_page: OpenPage
) -> None:
    page = open_page(site + BOARD)
    page.get_by_label("Earlier step").click()
    until(page, lambda: row(page, "words").locator("mark").all_inner_texts() == ["0"])
    page.get_by_role("radio", name="Steps").check()
    until(page, lambda: row(page, "words").locator(".sample-text").count() == 3)
    heads = page.locator(".samples-head .samples-column").all_inner_texts()
    assert heads == ["step 0", "step 10", "step 20"]


def test_boxes_are_chosen_by_class_and_score(site: str, open_page: OpenPage) -> None:
    page = open_page(site + "#place=run&at=samples&sample-hidden=&sample-score=0.1")
    rects = row(page, "boxes").locator("rect")
    until(page, lambda: rects.count() == 2)
    row(page, "boxes").get_by_text("cat 0.90").first.wait_for()
    page.get_by_role("button", name="cat", exact=True).click()
    until(page, lambda: rects.count() == 1)
    page.get_by_label("Score at least").press("End")
    until(page, lambda: rects.count() == 0)
    colored = """(canvas) => canvas.width === 0 ? [] : [0, 15].map((y) =>
      canvas.getContext('2d').getImageData(0, y, 1, 1).data[3])"""
    canvas = row(page, "boxes").locator("canvas").first
    until(page, lambda: canvas.evaluate(colored) == [140, 0])


def test_the_full_view_compares_pictures_and_goes_by_keys(site: str, open_page: OpenPage) -> None:
    page = open_page(site + BOARD)
    row(page, "picture").get_by_role("button", name="Open picture").first.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="picture")
    until(page, lambda: dialog.locator("img").count() == 2)
    dialog.get_by_role("button", name="Zoom in").click()
    contents = page.locator("dialog[open] .picture-content")
    styles = "(all) => [...new Set(all.map((one) => one.style.transform))]"
    until(page, lambda: contents.evaluate_all(styles) == ["translate(0px, 0px) scale(1.25)"])
    page.keyboard.press("ArrowLeft")
    until(page, lambda: dialog.locator(".step-slider output").inner_text() == "step 20")
    for _ in range(2):
        page.keyboard.press("ArrowUp")
    page.get_by_role("dialog", name="list · 3 of 3").get_by_text("item 2").first.wait_for()
    page.keyboard.press("ArrowUp")
    page.get_by_role("dialog", name="list · 2 of 3").get_by_text("item 1").first.wait_for()
    page.keyboard.press("-")
    until(page, lambda: contents.evaluate_all(styles) == ["translate(0px, 0px) scale(0.8)"])
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")


def test_runs_scroll_sideways_on_a_phone_under_names_that_stay(
    site: str, open_page: OpenPage
) -> None:
    page = open_page(site + BOARD, viewport=PHONE, has_touch=True, is_mobile=True)
    name = row(page, "boxes").get_by_role("heading", name="boxes")
    left = name.evaluate(LEFT)
    page.locator(".samples").evaluate("(one) => one.scrollTo({ left: 1000 })")
    until(page, lambda: page.locator(".samples").evaluate("(one) => one.scrollLeft") > 100)
    assert name.evaluate(LEFT) == pytest.approx(left, abs=10)
    assert width_beyond(page) <= 0


def test_names_are_filtered_and_hundreds_of_them_are_not_all_on_the_page(
    start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run("many", companion=False) as run:
        run.log({f"group{place % 7}/text{place}": f"words {place}" for place in range(400)}, step=1)
    page = open_page(serve(run.dir.parent.parent).url + "#place=run&at=samples")
    page.get_by_text("400 of 400").wait_for()
    page.locator(".sample-text").first.wait_for()
    assert page.locator(".sample-text").count() < 200
    page.get_by_placeholder("Filter samples").fill("text399")
    page.get_by_text("words 399").wait_for()
    until(page, lambda: page.locator(".sample-text").count() == 1)


def test_a_long_list_and_runs_without_a_name_leave_room_for_the_others(
    start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    pictures = [epochal.Image(np.full((4, 4, 3), place, np.uint8)) for place in range(100)]
    with start_run("one", companion=False) as run:
        run.log({"list": pictures, "both": "x"}, step=1)
    with start_run("two", companion=False) as run:
        run.log({"both": "y"}, step=1)
    page = open_page(serve(run.dir.parent.parent).url + BOARD)
    shown = row(page, "list").locator("img")
    until(page, lambda: shown.count() == 60)
    assert row(page, "list").locator(".samples-column").all_inner_texts() == ["one"]
    assert row(page, "list").get_by_text("no sample yet").count() == 0
    row(page, "list").get_by_role("button", name="Show 40 more of 100").click()
    until(page, lambda: shown.count() == 100)
    assert row(page, "both").locator(".sample-text").all_inner_texts() == ["y", "x"]


def test_a_sample_that_is_logged_later_appears_by_itself(
    start_run: StartRun, tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    with start_run("live") as run:
        run.log({"loss": 1.0}, step=0)
        page = open_page(serve(tmp_path / "runs").url + "#place=run&at=samples")
        page.get_by_text("This run recorded nothing for Samples.").wait_for()
        run.log({"sample": "hello from step 1"}, step=1)
        page.get_by_role("navigation").get_by_role("link", name="Samples").wait_for()
        row(page, "sample").get_by_text("hello from step 1").wait_for()
