"""Saved pages: opened from a file, in a browser without a network."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from epochal.cli.main import main
from epochal.server.page import load_page
from tests.conftest import StartRun
from tests.doubles.archives import write_archive
from tests.doubles.every_kind import write_every_kind
from tests.e2e.browsing import NEXT_FRAME, PHONE, OpenPage, download, wait_for_lines
from tests.e2e.test_run_place import SECTIONS, width_beyond
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Page

# In every place where somebody's words are shown: each would run a script if it were HTML.
NASTY = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg onload=alert(3)>\u2028"
)
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" onload="alert(4)">'
    "<script>alert(5)</script></svg>"
)


def open_offline(open_page: OpenPage, path: Path, *, place: str = "run", **options: Any) -> Page:
    """The file, in a browser that can reach nothing; asking for anything is a fault.

    ``place`` is open from the start: to go there later is to race with what is shown before.
    """
    page = open_page("about:blank", offline=True, **options)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{path.as_uri()}#place={place}")
    page.locator("[role=tab]").first.wait_for()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    return page


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    write_archive(write_every_kind(folder, seed=0), folder / "run.html")
    return folder / "run.html"


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_every_section_works_from_a_file(every_kind: Path, open_page: OpenPage, size: str) -> None:
    phone: dict[str, Any] = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    page = open_offline(open_page, every_kind, **(phone if size == "phone" else {}))
    for section, content in SECTIONS.items():
        page.goto(f"{every_kind.as_uri()}#at={section}")
        page.locator(content).first.wait_for(state="visible")
        assert width_beyond(page) <= 0, section


def test_its_csv_has_every_point_of_the_journal(
    tmp_path: Path, start_run: StartRun, open_page: OpenPage
) -> None:
    values = [math.exp(-step / 7) + 0.1 for step in range(500)]
    with start_run("exact") as run:
        for step, value in enumerate(values):
            run.log({"train/loss": value}, step=step)
    path = tmp_path / "run.html"
    code = main(["export", str(run.dir), "--format", "html", "--output", str(path)])
    assert code == 0
    page = open_offline(open_page, path, place="board")
    wait_for_lines(page, "train/loss", 1)
    rows = list(csv.DictReader(io.StringIO(download(page, "train/loss", "CSV"))))
    assert [float(row["value"]) for row in rows] == values


def test_a_long_series_says_how_coarse_it_is(tmp_path: Path, open_page: OpenPage) -> None:
    points = 20_000
    Journal(tmp_path).add(
        *({"log": "metrics", "step": step, "m": {"loss": 1 / (1 + step)}} for step in range(points))
    )
    path = tmp_path / "run.html"
    write_archive(tmp_path / "p/x", path, budget_bytes=len(load_page().html) + 60_000)
    page = open_offline(open_page, path, place="board")
    card = page.locator('[data-metric="loss"]').first
    card.get_by_text("1 bucket =").wait_for()
    rows = list(csv.DictReader(io.StringIO(download(page, "loss", "CSV"))))
    assert sum(int(float(row["points"])) for row in rows) == points
    assert rows[0]["bucket"].startswith("1 bucket = ")


def test_several_runs_are_compared_from_a_file(
    tmp_path: Path, start_run: StartRun, open_page: OpenPage
) -> None:
    folders = []
    for name, lr in (("one", 0.1), ("two", 0.2)):
        with start_run(name, config={"lr": lr}) as run:
            run.log({"train/loss": lr}, step=0)
            folders.append(run.dir)
    write_archive(folders, tmp_path / "runs.html")
    page = open_offline(open_page, tmp_path / "runs.html", place="compare")
    for name, lr in (("one", 0.1), ("two", 0.2)):
        words = rf"Show {name} in the charts .*\b{lr} {lr:.4f} 0 .*finished"
        page.get_by_role("row", name=re.compile(words)).wait_for()


def test_a_saved_page_says_why_it_has_no_queries(every_kind: Path, open_page: OpenPage) -> None:
    page = open_offline(open_page, every_kind)
    page.get_by_label("Filter runs").fill("config.lr < 3e-4")
    page.get_by_text("Queries need the server").first.wait_for()


def nasty_run(root: Path) -> Path:
    journal = Journal(root, config={NASTY: {NASTY: NASTY}}, tags=[NASTY], notes=NASTY)
    for step in range(3):
        journal.add({"log": "metrics", "step": step, "m": {NASTY: float(step), "loss": 1.0}})
        journal.add({"log": "text", "step": step, "name": NASTY, "text": NASTY + str(step)})
        histogram = {"lo": 0.0, "hi": 1.0, "counts": [1, 2]}
        journal.add({"log": "histogram", "step": step, "name": NASTY, **histogram})
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "a.svg").write_text(SVG)
    blob = {"file": "a.svg", "media_type": "image/svg+xml", "bytes": len(SVG), "caption": NASTY}
    journal.add({"log": "blob", "step": 1, "name": NASTY, **blob})
    journal.add({"log": "define", "name": "loss", "unit": NASTY})
    journal.add({"log": "graph", "name": NASTY, "svg": SVG, "fact": NASTY})
    journal.add({"log": "message", "level": NASTY, "text": NASTY})
    journal.add({"log": "event", "name": NASTY, "fact": NASTY, "traceback": NASTY})
    journal.add({"log": "epoch", "epoch": 1, "duration_s": 1.0, "m": {NASTY: 1.0}})
    finding: dict[str, Any] = {
        "id": "f",
        "rule": NASTY,
        "severity": "error",
        "sentence": NASTY,
        "advice": NASTY,
    }
    finding |= {"series": NASTY, "steps": [1, 2], "evidence": {NASTY: NASTY}}
    journal.add({"log": "finding", **finding}, writer="findings")
    journal.add({"log": "gpu-model", "id": 0, "name": NASTY})
    add_nasty_performance(journal)
    journal.add({"log": "finish", "status": "failed", "reason": NASTY})
    (journal.folder.path / "labels.json").write_text(json.dumps({"name": NASTY}))
    return journal.folder.path


def add_nasty_performance(journal: Journal) -> None:
    for step in range(3):
        journal.add({"log": "step", "step": step, "loss": 1.0, "phase": NASTY + str(step)})
        layers = {"layers": [NASTY, "b"], "load": [[0.5, 0.5], [1.0]], "top_k": 1}
        journal.add({"log": "experts", "step": step, **layers})
        phases = {"steps": 1, "wall_ms": 9.0, "m": {f"phase/{NASTY}": 4.0}}
        journal.add({"log": "phases", "step": step, **phases})
    journal.add({"log": "event", "name": "checkpoint", "step": 1, "path": f"/a/{NASTY}"})
    journal.add({"log": "event", "name": "gpu-throttle", "id": 0, "throttle": NASTY})
    journal.add({"log": "span", "name": NASTY, "start": 1000.0, "duration_ms": 900.0, "step": 1})
    gap = {"device": NASTY, "start": 1000.0, "end": 1001.0, "cause": NASTY}
    timeline = {"start": 1000.0, "period_s": 0.1, "samples": {NASTY: [1, None]}, "gaps": [gap]}
    journal.add({"log": "timeline", **timeline, "reason": NASTY}, writer="telemetry-n")
    journal.add({"log": "sol", "blocks": 1.0, "device": NASTY, "note": NASTY, "dtype": NASTY})


def walk(page: Page, address: str) -> None:
    """Open every place in every way that words can be shown; a dialog would be a fault."""
    ways = [f"at={section}" for section in SECTIONS]
    ways += ["at=log&log=epochs", "at=samples&sample-columns=steps"]
    modes = ("parallel", "scatter", "groups", "importance", "why")
    ways += ["place=board", "place=projects", *(f"place=compare&compare={mode}" for mode in modes)]
    for way in ways:
        page.goto(f"{address}#{way}")
        page.locator(".panel > *").first.wait_for()
        page.evaluate(NEXT_FRAME)
        page.mouse.move(700, 300)
    # The page has one script, and a saved one its data.
    assert page.locator("script").count() <= 2
    assert page.locator("img[onerror], svg[onload]").count() == 0


def test_no_word_of_a_user_runs_in_a_saved_page(tmp_path: Path, open_page: OpenPage) -> None:
    path = tmp_path / "nasty.html"
    write_archive(nasty_run(tmp_path / "runs"), path)
    page = open_offline(open_page, path)
    walk(page, path.as_uri())
    page.goto(path.as_uri() + "#place=run&at=samples")
    page.locator(".sample-text").first.get_by_text("<script>alert(1)</script>").wait_for()


def test_no_word_of_a_user_runs_in_the_live_page(
    tmp_path: Path, serve: Any, open_page: OpenPage
) -> None:
    nasty_run(tmp_path / "runs")
    url = serve(tmp_path / "runs").url
    walk(open_page(url), url)
