"""The page says where Epochal itself failed, and that the run is not affected."""

from __future__ import annotations

from pathlib import Path

from epochal.companion.process import Companion
from tests.conftest import StartRun
from tests.doubles.companions import companion_config
from tests.e2e.browsing import OpenPage, Serve, until
from tests.members.faults import raising


def test_internal_errors_stand_below_the_findings_and_come_live(
    start_run: StartRun, tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    run = start_run("sick")
    run.log({"loss": 1.0}, step=0)
    site = serve(tmp_path / "runs").url
    page = open_page(f"{site}#place=run")
    page.locator(".run-head").wait_for(state="visible")
    assert page.locator(".internal-errors").count() == 0
    companion = Companion(companion_config(run.dir))
    companion.guard.run("task sealing", raising(ValueError("broken on purpose")))
    shown = page.locator(".internal-errors")
    shown.wait_for(state="visible")
    until(page, lambda: "Epochal itself had an internal error" in shown.inner_text())
    until(page, lambda: "task sealing: ValueError: broken on purpose" in shown.inner_text())
    until(page, lambda: "not affected" in shown.inner_text())
    page.goto(f"{site}#place=run&at=findings")
    page.locator(".internal-errors").wait_for(state="visible")
    companion.journal.close()
    run.finish()
