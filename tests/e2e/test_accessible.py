"""axe finds nothing in any state of the page, and keys reach its controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.sweep import write_sweep
from tests.e2e.browsing import PHONE, TRY_MS, OpenPage, Serve, has_drawn, until
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
STEPS = 60
# By name, what the address says after ``#``.
STATES = {
    "overview": "place=run",
    "charts": "place=board",
    "grouped charts": "place=board&group=lr&spread=ci",
    "crowd": "place=board&all=1",
    "findings": "place=run&at=findings",
    "projects": "place=projects",
    "system": "place=run&at=system",
    "config": "place=run&at=config",
    "data": "place=run&at=data",
    "log": "place=run&at=log",
    "table": "place=compare",
    "parallel": "place=compare&compare=parallel",
    "scatter": "place=compare&compare=scatter",
    "groups": "place=compare&compare=groups&group=lr,model",
    "importance": "place=compare&compare=importance",
    "why": "place=compare&compare=why",
    "grouped table": "place=compare&group=lr,model",
    "colours and limits": "place=board&color-by=lr&limits=train/loss:1..3&log-x=1&pin=eval/loss",
    "one chart": "place=board&full=train/loss",
    "board": 'place=board&draft={"blocks":[{"kind":"text","text":"# A"},'
    '{"kind":"chart","series":["train/loss","acc %2B "]},{"kind":"samples","series":["words"]}]}',
    "empty board": 'place=board&draft={"name":"new"}',
    "heat map of ranks": "project=ranks&place=board&ranks=map",
    "samples": "project=ranks&place=run&at=samples",
    "one run": "project=ranks&place=compare&compare=scatter",
    "nothing fits": "place=board&filter=nothing-is-called-so",
    "wrong query": "place=board&filter=cofnig.lr+%3C+3",
    "no such run": "place=board&run=gone",
    "no such project": "project=gone",
}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    write_sweep(root, steps=STEPS)
    journal = Journal(root, "several", project="ranks")
    for rank in range(3):
        for step in range(STEPS):
            journal.metrics(step, writer=f"rank-{rank:04d}" if rank else "loop", loss=1.0 + rank)
    box = {
        "group": "truth",
        "label": "cat",
        "score": 0.5,
        "x0": 0.1,
        "y0": 0.1,
        "x1": 0.9,
        "y1": 0.9,
    }
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    picture = {"file": "a.svg", "media_type": "image/svg+xml", "width": 9, "height": 9}
    journal.add({"log": "text", "step": 1, "name": "words", "text": "hello"})
    journal.add({"log": "blob", "step": 1, "name": "boxes", **picture, "boxes": [box]})
    journal.finish()
    return root


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: run 'make web'")
    return AXE.read_text(encoding="utf-8")


def violations(page: Page, axe: str) -> list[str]:
    """What axe finds: rule, and the first elements."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found["violations"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", "phone"), ("dark", "desk")])
def test_axe_finds_nothing_in_any_state(
    scheme: str, width: str, sweep: Path, axe: str, serve_all: Serve, open_page: OpenPage
) -> None:
    options: dict[str, Any] = {"color_scheme": scheme, "bypass_csp": True}
    if width == "phone":
        options |= {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    page = open_page(serve_all(sweep).url, **options)
    found: list[str] = []
    for name, state in STATES.items():
        page.evaluate("hash => (location.hash = hash)", state)
        has_drawn(page)
        found += [f"{name}: {one}" for one in violations(page, axe)]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_dialogs_and_menus(
    scheme: str, tmp_path: Path, axe: str, serve: Serve, open_page: OpenPage
) -> None:
    write_sweep(tmp_path, steps=STEPS, seeds=1)
    page = open_page(f"{serve(tmp_path).url}#place=board", color_scheme=scheme, bypass_csp=True)
    has_drawn(page)
    found: list[str] = []

    def check(name: str) -> None:
        page.wait_for_timeout(TRY_MS)
        found.extend(f"{name}: {one}" for one in violations(page, axe))
        page.keyboard.press("Escape")

    menus = ("Axes", "Group runs", "Share", "Actions for train/loss", "Board:", "Order of runs")
    for name in menus:
        page.get_by_role("button", name=name).first.click()
        page.get_by_role("menu").wait_for()
        check(name)
    for kind in ("chart", "samples"):
        page.get_by_role("button", name=f"+ {kind}").click()
        page.get_by_role("dialog").wait_for()
        check(f"add {kind}")
    for name in ("Tags", "Note", "Delete"):
        page.get_by_role("button", name="Edit").first.click()
        page.get_by_role("menuitem", name=name).click()
        page.get_by_role("dialog", name=name).wait_for()
        check(name)
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    check("shortcuts")
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_axe_finds_nothing_without_runs_and_without_a_server(
    tmp_path: Path, axe: str, serve: Serve, open_page: OpenPage
) -> None:
    site = serve(tmp_path)
    page = open_page(site.url, bypass_csp=True)
    page.get_by_text("No runs in this folder yet").wait_for()
    assert violations(page, axe) == []
    site.stop()
    page.get_by_text("live", exact=True).wait_for(state="detached")
    assert violations(page, axe) == []


# Elements that look as if they could be clicked, and have no way for keys: nothing of them, around
# or inside them takes the focus.
UNREACHABLE = """() => {
  const focusable = 'a[href], button, input, select, textarea, summary, [tabindex], label';
  return [...document.querySelectorAll('body *')].filter((one) => {
    if (!one.checkVisibility() || getComputedStyle(one).cursor !== 'pointer') return false;
    return one.closest(focusable) === null && one.querySelector(focusable) === null;
  }).map((one) => one.outerHTML.slice(0, 160));
}"""
# What Tab has to stop at in the panel; of a group of choices, the chosen one.
TABBABLE = """() => [...document.querySelectorAll(
  '.panel button, .panel input, .panel select, .panel a[href], .panel summary, .panel [tabindex]'
)].filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility() &&
  (one.type !== 'radio' || one.checked))"""
COUNT = f"() => ({TABBABLE})().length"
MISSED = f"""() => ({TABBABLE})().filter((one) => !one.dataset.reached)
  .map((one) => one.outerHTML.slice(0, 160))"""
REACH = "() => { document.activeElement.dataset.reached = 'yes'; }"


def missed_by_tab(page: Page) -> list[str]:
    """Press Tab from the panel on; the controls that it did not come to."""
    page.locator(".panel").first.evaluate("panel => { panel.tabIndex = -1; panel.focus(); }")
    for _ in range(page.evaluate(COUNT) + 2):
        page.keyboard.press("Tab")
        page.evaluate(REACH)
    missed: list[str] = page.evaluate(MISSED)
    return missed


@pytest.mark.slow
@pytest.mark.parametrize(
    "state", ["table", "grouped table", "parallel", "scatter", "groups", "importance", "why"]
)
def test_keys_reach_every_control(
    state: str, sweep: Path, serve_all: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve_all(sweep).url}#{STATES[state]}", bypass_csp=True)
    has_drawn(page)
    assert page.evaluate(UNREACHABLE) == []
    assert page.evaluate(COUNT) > 0
    # A part that was drawn again meanwhile has new controls: these are reached in another round.
    until(page, lambda: missed_by_tab(page) == [])
