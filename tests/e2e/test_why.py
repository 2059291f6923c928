from __future__ import annotations

from pathlib import Path

from tests.e2e.browsing import OpenPage, Serve, until
from tests.store.journals import Journal


def test_why_explains_the_runs_of_the_charts_and_any_two(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    for name, lr, last in (("good", 1e-3, 1.0), ("bad", 1e-1, 2.0), ("third", 1e-3, 1.0)):
        journal = Journal(tmp_path, name, config={"lr": lr, "num_workers": len(name)})
        for step in range(60):
            journal.metrics(step, loss=last + 2.0 * 0.9**step + 0.01 * (step % 3))
        journal.finish()
    page = open_page(serve(tmp_path).url + "#place=compare&compare=why")
    page.get_by_label("Run", exact=True).select_option(label="bad")
    page.get_by_label("Compared with").select_option(label="good")
    verdict = page.locator(".groups-verdict")
    until(page, lambda: "bad is worse than good by" in verdict.inner_text())
    causes = page.get_by_role("region", name="What can explain it")
    until(page, lambda: "config lr" in causes.locator("tbody tr").first.inner_text())
    until(page, lambda: "The remaining difference does not explain the gap" in causes.inner_text())
    page.get_by_label("Compared with").select_option(label="its group or project")
    until(page, lambda: "2 other runs" in verdict.inner_text())
    until(page, lambda: "2 of 2" in causes.inner_text())
