"""The page of a sweep: the same numbers as ``tests/test_sweep.py`` has from Python and commands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sweep import Trial, curves, is_evaluated, last_step, write_sweep
from tests.e2e.browsing import OpenPage, Serve, until

STEPS = 120


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Trial]]:
    root = tmp_path_factory.mktemp("sweep")
    return root, write_sweep(root, steps=STEPS)


def test_the_table_sorted_by_a_metric_begins_with_the_best_run_of_numpy(
    sweep: tuple[Path, list[Trial]], serve_all: Serve, open_page: OpenPage
) -> None:
    root, trials = sweep
    lowest = {}
    for one in trials:
        evaluated = [
            at for at in range(last_step(one, steps=STEPS) + 1) if is_evaluated(at, steps=STEPS)
        ]
        lowest[one.name] = float(np.nanmin(curves(one, steps=STEPS)["eval/loss"][evaluated]))
    best = min(lowest, key=lambda name: lowest[name])
    page = open_page(serve_all(root).url + "#place=compare&compare-value=best")
    first = page.locator(".compare-row:not(.compare-head)").first
    until(page, lambda: first.locator(".compare-run").get_attribute("title") == best)
    cells = first.get_by_role("cell").all_inner_texts()
    assert f"{lowest[best]:.4f}" in cells
    # The run list has the same order.
    finals = {
        one.name: float(curves(one, steps=STEPS)["train/loss"][last_step(one, steps=STEPS)])
        for one in trials
    }
    page.get_by_role("button", name="Order of runs").click()
    page.get_by_role("menuitemcheckbox", name="Smallest loss").click()
    smallest = min(
        (name for name in finals if finals[name] == finals[name]), key=finals.__getitem__
    )
    row = page.locator(".run[data-run]").first
    until(page, lambda: smallest in str(row.inner_text()).replace("\n", ""))


def test_groups_have_all_members_and_the_means_of_numpy(
    sweep: tuple[Path, list[Trial]], serve_all: Serve, open_page: OpenPage
) -> None:
    root, trials = sweep
    site = serve_all(root)
    page = open_page(site.url + "#place=compare&compare=groups&group=lr,model&spread=std")
    row = page.locator(".groups-table tr.is-best").first
    until(page, lambda: row.count() == 1)
    inside = [
        float(curves(one, steps=STEPS)["eval/loss"][-1])
        for one in trials
        if (one.config["lr"], one.config["model"]) == (1e-3, "large")
    ]
    cells = row.locator("th, td").all_inner_texts()
    assert cells[:3] == ["0.001", "large", "6"]
    assert float(re.sub(r"[^\d.]", "", cells[3])) == pytest.approx(np.mean(inside), abs=5e-5)
    verdict = page.locator(".compare-verdict").inner_text()
    assert verdict.startswith("lr=0.001, model=large")
    # A group that members left says how many count.
    until(page, lambda: "4 of 6" in page.locator(".groups-table").first.inner_text())


def test_group_charts_say_how_many_there_are_and_who_left(
    sweep: tuple[Path, list[Trial]], serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(
        serve_all(sweep[0]).url + "#place=board&group=lr&spread=ci&metrics=train%2Floss"
    )
    card = page.locator('[data-metric="train/loss"]').first
    plot = card.locator(".chart-plot")
    until(page, lambda: plot.count() == 1)
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 60)
    tooltip = page.locator(".chart-tooltip").first
    until(page, lambda: "9 of 11" in tooltip.inner_text())
    until(page, lambda: "12 runs" in tooltip.inner_text())
    colours = page.get_by_role("group", name="Colours of groups").locator("span")
    until(
        page,
        lambda: (
            colours.all_inner_texts()
            == ["0.0001 12", "0.0003 13", "0.001 12", "0.003 12", "0.01 12"]
        ),
    )


def test_importance_ranks_the_learning_rate_first_and_another_pair_can_be_chosen(
    sweep: tuple[Path, list[Trial]], serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(sweep[0]).url + "#place=compare&compare=importance")
    rows = page.locator(".matters-row")
    until(page, lambda: rows.count() == 4)
    until(
        page, lambda: [one.split("\t")[0] for one in rows.all_inner_texts()[:2]] == ["lr", "model"]
    )
    until(
        page,
        lambda: (
            page.locator(".groups-verdict").inner_text().startswith("lr matters most for eval/loss")
        ),
    )
    page.get_by_label("Columns", exact=True).select_option("wd")
    until(page, lambda: page.get_by_role("region", name="lr and wd together").count() == 1)
    page.get_by_role("button", name="model", exact=True).click()
    until(page, lambda: page.get_by_role("region", name="eval/loss by model").count() == 1)


def test_one_switch_includes_unfinished_runs_in_every_view(
    sweep: tuple[Path, list[Trial]], serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve_all(sweep[0]).url + "#place=compare&compare=scatter&group=lr")
    note = page.locator(".compare-verdict")
    until(page, lambda: "2 unfinished runs are left out: " in note.inner_text())
    assert "(crashed, 57 % of its steps)" in note.inner_text()
    page.get_by_label("Include unfinished runs").check()
    until(page, lambda: "2 unfinished runs are included: " in note.inner_text())
    assert "unfinished=1" in page.url
    for view in ("Parallel", "Groups", "Importance"):
        page.get_by_role("tab", name=view, exact=True).click()
        until(page, lambda: "2 unfinished runs are included: " in note.inner_text())
        assert page.get_by_label("Include unfinished runs").is_checked()
