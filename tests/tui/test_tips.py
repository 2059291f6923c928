from __future__ import annotations

from pathlib import Path

import pytest

from epochal.store.local import LocalStore
from epochal.tui.app_state import AppState
from epochal.tui.cells import plain
from epochal.tui.control import is_quit, press
from epochal.tui.glyphs import UNICODE
from epochal.tui.screen import compose
from epochal.tui.tips import hints, tip
from epochal.tui.view import TABS, View
from tests.store.journals import Journal


def tip_of(root: Path, view: View | None = None) -> str | None:
    state = AppState(LocalStore(root))
    assert state.run is not None
    return tip(state.run.info, view or View(), state.run_log())


def footer(state: AppState, view: View) -> str:
    return plain(compose(state, view, columns=100, rows=30, glyphs=UNICODE)[-1])


def test_every_tab_has_keys_of_its_own() -> None:
    shown = {hints(View(tab=tab)) for tab in TABS} | {hints(View(is_enlarged=True))}
    assert all(text.startswith("? keys  q quit  ") for text in shown)
    assert "Enter enlarge" in hints(View(tab="charts"))
    assert "j k scroll" in hints(View(tab="log"))
    assert "Esc back" in hints(View(tab="charts", is_enlarged=True))


def test_a_run_that_goes_well_needs_no_advice(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    assert tip_of(tmp_path) is None


def test_a_run_that_ended_early_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(tmp_path, "a b").metrics(1, loss=1.0).finish("failed")
    said = "epochal resume 'p/a b'  prints the command that goes on with it"
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path))
    assert tip_of(tmp_path) == said
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path / "others"))
    monkeypatch.chdir(tmp_path.parent)
    assert tip_of(tmp_path) == said.replace("b'", f"b' --dir {tmp_path.name}")


def test_a_grave_finding_points_to_the_doctor(tmp_path: Path) -> None:
    finding = {"log": "finding", "id": "1", "rule": "nonfinite", "severity": "error"}
    Journal(tmp_path).metrics(1, loss=1.0).add(
        {**finding, "sentence": "nan", "state": "open"}, writer="findings"
    )
    assert "epochal doctor p/x" in (tip_of(tmp_path) or "")


def test_a_held_picture_says_how_to_go_on(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    assert "p shows what has come since" in (tip_of(tmp_path, View(is_paused=True)) or "")


def test_the_tip_is_on_the_screen_where_there_is_room(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish("failed")
    state = AppState(LocalStore(tmp_path))
    large = compose(state, View(), columns=100, rows=30, glyphs=UNICODE)
    small = compose(state, View(), columns=60, rows=12, glyphs=UNICODE)
    assert any(plain(line).startswith("tip epochal resume") for line in large)
    assert not any(plain(line).startswith("tip") for line in small)


@pytest.mark.parametrize(("key", "verb"), [("X", "Stop"), ("Z", "Suspend")])
def test_nothing_is_done_to_a_run_without_a_second_key(tmp_path: Path, key: str, verb: str) -> None:
    # Its process is this one: were anything sent, the tests would end here.
    Journal(tmp_path).metrics(1, loss=1.0)
    state = AppState(LocalStore(tmp_path))
    asked = press(key, View(), state)
    assert f"{verb} p/x?" in footer(state, asked)
    assert not is_quit("q", asked)
    assert press("q", asked, state) == View()
    assert press("escape", asked, state) == View()
    assert state.notice == ""


def test_a_run_that_has_ended_is_not_asked_about(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish()
    state = AppState(LocalStore(tmp_path))
    assert press("X", View(), state) == press("Z", View(), state) == View()


def test_why_a_run_cannot_be_stopped_is_said_until_the_next_key(tmp_path: Path) -> None:
    Journal(tmp_path, host="node-7", pid=1).metrics(1, loss=1.0)
    state = AppState(LocalStore(tmp_path))
    view = press("X", press("X", View(), state), state)
    assert "on the machine 'node-7'" in footer(state, view)
    assert "? keys" in footer(state, press("1", view, state))
