from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochal.store.local.store import LocalStore
from epochal.tui.app_state import AppState
from epochal.tui.glyphs import ASCII, UNICODE, Glyphs
from epochal.tui.snapshot import snapshot
from tests.doubles.every_kind import write_every_kind
from tests.store.journals import Journal
from tests.tui.screens import shown as screen
from tests.tui.screens import watching


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppState]:
    root = tmp_path_factory.mktemp("demo")
    for seed in range(2):
        write_every_kind(root, seed=seed)
    with LocalStore(root) as store:
        yield AppState(store)


@pytest.fixture
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("size", ["60x20", "80x24", "100x30", "132x43", "200x50"])
def test_the_overview_has_its_parts_at_every_size(demo: AppState, size: str) -> None:
    text = screen(demo, size=size)
    assert "○ finished demo/every-kind" in text
    for part in ("train/loss", "◆ eval/loss", "grad norm", "tok/s", "SOL", "GPU 1", "CPU", "RAM"):
        assert part in text, part
    assert "GPU 1 slowed itself down for heat" in text
    assert "100 %" in text


@pytest.mark.usefixtures("utc")
def test_a_small_screen_line_by_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "tiny", totals={"steps": 60})
    for step in range(60):
        loss = 2 + 6 * math.exp(-step / 12)
        journal.add({"log": "step", "step": step, "loss": loss, "lr": 1e-3 * (60 - step)})
    journal.add({"log": "eval", "step": 59, "loss": 2.5}, {"log": "message", "text": "saved"})
    journal.finish()
    state = AppState(LocalStore(tmp_path))
    assert screen(state, size="60x16").splitlines() == [
        "○ finished p/tiny  ━━━━━━━  100 %  step 60/60  1m 03s in all",
        " 1 overview  2 charts  3 system  4 log  5 text  6 config",
        "train/loss 2.0439  ◆ eval/loss",
        "8┤⠑⠤⡀",
        "6┤  ⠈⠉⠢⡀",
        " │     ⠈⠉⠉⠢⢄⣀",
        "4┤           ⠉⠑⠒⠤⠤⠤⢄⣀",
        " │                   ⠉⠉⠉⠉⠑⠒⠒⠒⠒⠒⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀◆",
        " └┬──────────────────┬───────────────────┬──────────────────",
        "  0                 20                  40              step",
        "loss      ↘ 2.0439    █▇▆▅▄▃▃▂▂▂▂▂▁▁▁▁▁▁▁▁▁ best 2.0439 @ 59",
        "eval loss   2.5000    ▄                          gap -22.9 %",
        "lr          0.0010    ████▇▇▇▇▇▆▆▆▆▆▅▅▅▅▅▄▄▄▄▄▃▃▃▃▃▂▂▂▂▂▁▁▁▁",
        "00:17:42 saved",
        "00:17:43 finished",
        "? keys  q quit  / filter  c compare  + - zoom  s smooth  p p",
    ]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_tab_fits_every_screen(demo: AppState, glyphs: Glyphs) -> None:
    with watching(demo, glyphs=glyphs) as view:
        for size in ((1, 1), (10, 3), (40, 10), (83, 12), (84, 12), (131, 31)):
            view.resize(*size)
            for keys in ("1", "2", "3", "4", "5", "6", "r"):
                text = view.press(keys).text
                if glyphs is ASCII:
                    assert not set(text) & set("│─┤●○◆█")
                    # The other tabs have texts of the run, which are what they are.
                    assert keys != "3" or text.replace("°", "").replace("…", "").isascii()
            view.press("r", "r")


KEYS = [*"123456?rcC+-0solx[]jkgGpXZ/(a=", "tab", "shift+tab", "up", "down", "left", "right"]
KEYS += ["home", "end", "enter", "escape", "backspace", "ctrl+u", "ctrl+l", "space", "pageup"]
KEYS += ["pagedown", "f5"]


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(KEYS), min_size=20, max_size=40))
def test_no_keys_in_any_order_break_the_screen(demo: AppState, keys: list[str]) -> None:
    screen(demo, *keys, size="90x24")
    demo.filter("")
    demo.compared = []


def test_help_lists_the_keys_even_on_the_smallest_screen(demo: AppState) -> None:
    text = screen(demo, "?", size="60x20")
    assert "quit; the run continues" in text
    assert "suspend or continue it" in text


def test_the_list_of_runs_is_beside_where_there_is_room(demo: AppState) -> None:
    assert "Runs 2" in screen(demo, size="140x40")
    assert "Runs 2" not in screen(demo, size="100x30")
    assert "Runs 2" in screen(demo, "r")


def test_a_bad_run_is_marked_in_the_list(tmp_path: Path) -> None:
    found = {"log": "finding", "id": "1", "rule": "nonfinite", "sentence": "nan"}
    bad = Journal(tmp_path, "bad").metrics(1, loss=1.0).finish()
    bad.add({**found, "severity": "error"}, writer="findings")
    Journal(tmp_path, "good").metrics(1, loss=1.0).finish()
    text = screen(AppState(LocalStore(tmp_path)), "r")
    assert "○!bad" in text
    assert "○ good" in text


def test_the_tabs_show_what_they_are_called_after(demo: AppState) -> None:
    assert "30.5 GiB of 79.6 GiB" in screen(demo, "3")
    assert "resumed at step 200, attempt 2" in screen(demo, "4")
    assert "sample @ 399" in screen(demo, "5")
    assert "model.experts_per_token" in screen(demo, "6")
    charts = screen(demo, "2", size="160x45")
    assert all(name in charts for name in ("train/loss", "train/lr", "train/norm"))


def test_scrolling_turns_round_at_the_end(demo: AppState) -> None:
    with watching(demo) as view:
        for tab, to_end, back in (("5", "G", "k"), ("4", "g", "j")):
            start = view.press(tab).text
            end = view.press(to_end).text
            assert start != end
            assert view.press(to_end).text == end
            assert view.press(back).text != end


def test_the_log_follows_its_end_unless_it_was_scrolled(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(50):
        journal.add({"log": "message", "text": f"m{number}"})

    with watching(AppState(LocalStore(tmp_path)), size="80x12") as view:
        assert "m49" in view.press("4").text
        journal.add({"log": "message", "text": "newest"})
        assert "newest" in view.wait_for_news().text
        view.press("k", "k")
        journal.add({"log": "message", "text": "unseen"})
        assert "unseen" not in view.wait_for_news().text
        assert "unseen" in view.press("G").text


def test_names_that_are_hard_to_show_stay_on_their_line(demo: AppState) -> None:
    text = screen(demo, "2", "/", *"two|x{90}|bold|größe", "enter", size="160x45")
    assert "two\\nlines and a tab" in text
    assert "<b>bold</b>" in text


def test_nothing_that_a_run_says_reaches_the_terminal_unescaped(tmp_path: Path) -> None:
    evil = "\x1b]52;c;eA==\x07\x1b[2J"
    journal = Journal(tmp_path, f"n{evil}", config={f"k{evil}": f"v{evil}"})
    journal.add(
        {"log": "metrics", "step": 1, "m": {f"m{evil}": 1.0}},
        {"log": "message", "text": f"said {evil}"},
        {"log": "text", "name": f"s{evil}", "step": 1, "text": f"t{evil}"},
        {"log": "gpu", "id": f"0{evil}", "gpu_util": 50.0, "throttle": f"hot{evil}"},
        {"log": "finding", "id": "1", "severity": "error", "sentence": f"f{evil}", "advice": evil},
        {"log": "finish", "status": "failed", "reason": f"why {evil}"},
    )
    state = AppState(LocalStore(tmp_path))
    with watching(state, size="140x40") as view:
        for key in ("1", "2", "3", "4", "5", "6", "r", "?"):
            text = view.press(key).text
            assert "\x1b" not in text
            assert "\x07" not in text


def test_why_a_run_ended_is_said_at_the_top(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0)
    journal.add({"log": "finish", "status": "failed", "reason": "ValueError: no data"})
    assert screen(AppState(LocalStore(tmp_path))).splitlines()[2] == "ValueError: no data"


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
    assert "they appear by themselves" in screen(AppState(LocalStore(tmp_path)))


def test_a_snapshot_is_the_run_in_plain_lines(demo: AppState) -> None:
    lines = list(snapshot(demo, columns=100, now=0.0, glyphs=UNICODE))
    text = "\n".join(one.plain for one in lines)
    assert all(one.cell_len <= 100 for one in lines)
    for part in ("finished", "best", "gap +", "Machine", "Findings", "airflow", "Log"):
        assert part in text
