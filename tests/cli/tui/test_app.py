"""The screen of ``epochal watch``, without a terminal: keys in, text out."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochal.cli.tui.once import print_once
from epochal.cli.tui.state import AppState
from epochal.store.local.catalog import folder_store
from tests.cli.tui.screens import shown as screen
from tests.cli.tui.screens import watching
from tests.store.journals import Journal

FINDING: dict[str, Any] = {
    "log": "finding",
    "id": "1",
    "rule": "r",
    "severity": "error",
    "state": "open",
}
FINDING |= {"sentence": "The loss grows.", "advice": "Lower the learning rate.", "steps": [40, 59]}


def training(root: Path, name: str, *, has_finding: bool = False) -> Journal:
    journal = Journal(root, name, totals={"steps": 60})
    for step in range(60):
        loss = 2 + 6 * math.exp(-step / 12)
        journal.add({"log": "step", "step": step, "loss": loss, "lr": 1e-3 * (60 - step)})
    journal.add({"log": "eval", "step": 59, "loss": 2.5})
    if has_finding:
        journal.add({**FINDING, "evidence": {}, "t": 1.0}, writer="findings")
    return journal.finish()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppState]:
    root = tmp_path_factory.mktemp("demo")
    training(root, "good")
    training(root, "bad", has_finding=True)
    with folder_store(root) as store:
        yield AppState(store, chosen=store.run("bad"))


@pytest.mark.parametrize("size", ["60x20", "80x24", "120x40", "200x50"])
def test_the_screen_has_its_parts_at_every_size(demo: AppState, size: str) -> None:
    text = screen(demo, size=size)
    for part in ("○ finished p/bad", "◆ eval/loss", "━━ train/loss 2.0439", "gap -22.9 %", "lr"):
        assert part in text, part
    assert "▲ The loss grows." in text
    assert any("⠀" < character <= "⣿" for character in text)


@pytest.mark.parametrize("size", ["1x1", "10x3", "40x10", "110x12"])
def test_small_screens_are_no_error(demo: AppState, size: str) -> None:
    with watching(demo, size=size) as view:
        for key in ("r", "?", "c", "c", "s", "r", "escape"):
            view.press(key)


KEYS = [*"?rcslx[]/(a=", "up", "down", "home", "end", "enter", "escape", "backspace", "ctrl+l"]


@settings(max_examples=3, deadline=None)
@given(st.lists(st.sampled_from(KEYS), min_size=20, max_size=40))
def test_no_keys_in_any_order_break_the_screen(demo: AppState, keys: list[str]) -> None:
    chosen = demo.run
    screen(demo, *keys, size="90x24")
    demo.filter("")
    demo.run, demo.compared = chosen, []


def test_the_list_of_runs_is_beside_where_there_is_room(demo: AppState) -> None:
    assert "○! bad" in " ".join(screen(demo, size="120x40").split())
    with watching(demo, size="80x24") as view:
        assert "good" not in view.text
        text = view.press("r").text
        assert "good" in text
        assert "eval/loss" not in text


def test_keys_change_run_metric_and_chart(demo: AppState) -> None:
    with watching(demo, size="120x40") as view:
        names = [run.info.name for run in demo.runs]
        assert f"finished p/{names[1]}" in view.press("home", "down").text
        assert f"finished p/{names[0]}" in view.press("up").text
        assert "━━ eval/loss" in view.press("]").text
        text = view.press("[", "s", "l", "x", "x", "x").text
        assert all(mode in text for mode in ("log", "smooth 0.6", "x wall", "━━ train/loss"))
        assert "━━ good" in view.press("end", "c", "up", "c").text.replace("bad", "good")
        demo.compared = []
        assert "next metric" in view.press("?").text
        assert "next metric" not in view.press("?").text


def test_a_filter_is_applied_letter_by_letter_and_undone(demo: AppState) -> None:
    with watching(demo, size="120x40") as view:
        view.press("slash", *"goo")
        assert "filter runs: goo" in view.text
        assert "finished p/good" in view.text
        assert "1 of 1" not in view.press("enter").text
        assert len(demo.runs) == 1
        view.press("escape")
        assert len(demo.runs) == 2
        assert "missing )" in view.press("slash", "(").text
        view.press("escape")
        assert "filter runs" not in view.text


def test_news_appear(tmp_path: Path) -> None:
    with watching(AppState(folder_store(tmp_path))) as view:
        assert "they appear by themselves" in view.text
        journal = Journal(tmp_path, "late").metrics(0, loss=1.5)
        deadline = time.monotonic() + 60
        while "p/late" not in view.wait_for_news().text:
            assert time.monotonic() < deadline
        journal.metrics(1, loss=0.25)
        while "0.2500" not in view.wait_for_news().text:
            assert time.monotonic() < deadline


def test_nothing_that_a_run_says_reaches_the_terminal_unescaped(tmp_path: Path) -> None:
    evil = "\x1b]52;c;eA==\x07\x1b[2J"
    journal = Journal(tmp_path, f"n{evil}", config={f"k{evil}": f"v{evil}"})
    journal.add(
        {"log": "metrics", "step": 1, "m": {f"m{evil}": 1.0}},
        {**FINDING, "evidence": {}, "t": 1.0, "sentence": f"f{evil}", "advice": evil},
        {"log": "finish", "status": "failed", "reason": f"why {evil}"},
    )
    Journal(tmp_path, f"o{evil}").metrics(0, loss=1.0)
    with watching(AppState(folder_store(tmp_path)), size="140x40") as view:
        for key in ("c", "down", "slash", "(", "escape"):
            text = view.press(key).text
            assert "\x1b" not in text
            assert "\x07" not in text


def test_why_a_run_ended_is_said_at_the_top(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0)
    journal.add({"log": "finish", "status": "failed", "reason": "ValueError: no data"})
    assert screen(AppState(folder_store(tmp_path))).splitlines()[1] == "ValueError: no data"


def test_printed_once_it_is_plain_lines(demo: AppState) -> None:
    demo.choose(next(i for i, run in enumerate(demo.runs) if run.info.name == "bad"))
    lines = print_once(demo, columns=100, now=0.0)
    text = "\n".join("".join(piece for piece, _ in line) for line in lines)
    assert all(len(line) <= 100 for line in text.splitlines())
    for part in ("finished p/bad", "best 2.0439 @ 59", "The loss grows.", "Lower the learning"):
        assert part in text
