"""A run as the last expression of a cell."""

from __future__ import annotations

import re
import urllib.request
from typing import Any

import pytest

from tests.conftest import StartRun


def test_a_running_run_shows_the_live_page(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epochal.run.pages.LINGER_S", 1.0)
    run = start_run()
    run.log({"loss": 1.0})
    shown = run._repr_html_()
    address = re.search(r'src="(http://127\.0\.0\.1:\d+/)#run=', shown)
    assert address is not None, shown
    with urllib.request.urlopen(address[1] + "healthz", timeout=120) as answer:
        assert b"epochal" in answer.read()
    assert run._repr_html_() == shown


def test_a_finished_run_shows_its_archive(start_run: StartRun) -> None:
    run = start_run()
    run.log({"loss": 1.0})
    run.finish()
    shown = run._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!')
    assert "http://127" not in shown


def test_a_run_that_is_switched_off_shows_its_name(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    run: Any = start_run("<b>bold</b>")
    assert "&lt;b&gt;" in run._repr_html_()
