"""The page over a store of 20,000 runs: first rows, a filter, memory of the tab.

The filter also in CPU seconds of the server and of the browser, which other work on the machine
does not change much.

    python -m benchmarks.page_list [COUNT]

Needs playwright and Chromium (``CHROMIUM`` names it). The server has read the runs before: what it
costs to read them is measured by ``first_look``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.run_folders import write_many

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--expose-gc",
)
ROUNDS = 3
WAIT_S = 600.0


def main() -> int:
    """Measure, and print one JSON object."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    folder = Path(os.environ.get("RUNS") or tempfile.mkdtemp(prefix="page-list-"))
    if not (folder / "bench").exists():
        write_many(folder, count=count, steps=20, metrics=3)
    command = [sys.executable, "-m", "epochal.serving", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        wait_until_read(url)
        print(json.dumps(measured(url, count, server.pid), indent=1))
    finally:
        server.kill()
        server.wait()
        if "RUNS" not in os.environ:
            shutil.rmtree(folder)
    return 0


def wait_until_read(url: str) -> None:
    """Wait until the server has read every run."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        with urllib.request.urlopen(f"{url.rstrip('/')}/api/runs?limit=1") as answer:
            if json.load(answer)["pending"] == 0:
                return
        time.sleep(1.0)
    raise TimeoutError("the server has not read all runs.")


def measured(url: str, count: int, server: int) -> dict[str, Any]:
    """Seconds and megabytes, medians of some rounds."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        first, answers, filters, sorts = [], [], [], []
        memory: list[float] = []
        server_cpu: list[float] = []
        browser_cpu: list[float] = []
        session = browser.new_browser_cdp_session()
        for number in range(ROUNDS):
            page = browser.new_page(viewport={"width": 1360, "height": 860})
            page.set_default_timeout(60_000)
            answered: dict[str, float] = {}

            def note(got: Response, seen: dict[str, float] = answered) -> None:
                note_answer(got.url, seen)

            page.on("response", note)
            begun = time.perf_counter()
            page.goto(url)
            page.locator(".run[data-run]").first.wait_for()
            first.append(time.perf_counter() - begun)
            answers.append(time.perf_counter() - answered["runs"])
            page.wait_for_timeout(1500)
            before = cpu_s(server), cpu_of_browser_s(session)
            filters.append(timed(page, lambda p: p.keyboard.press("r"), f"run-{number + 3:02}12"))
            server_cpu.append(cpu_s(server) - before[0])
            browser_cpu.append(cpu_of_browser_s(session) - before[1])
            page.get_by_label("Filter runs").fill("")
            page.wait_for_timeout(1000)
            sorts.append(sorted_by(page, "Smallest loss"))
            scroll(page)
            page.wait_for_timeout(1000)
            memory.append(heap_mb(page))
            page.close()
        browser.close()
    return {
        "runs": count,
        "load": os.getloadavg()[0],
        "first rows, s": middle(first),
        "first rows after the first answer of the list, s": middle(answers),
        "filter typed to rows, s": middle(filters),
        "of it CPU of the server, s": middle(server_cpu),
        "of it CPU of the browser, s": middle(browser_cpu),
        "order to rows, s": middle(sorts),
        "heap of the tab after scrolling, MB": middle(memory),
    }


def note_answer(address: str, seen: dict[str, float]) -> None:
    """Remember when the first answer with runs came."""
    if "/api/runs?" in address:
        seen.setdefault("runs", time.perf_counter())


def timed(page: Page, focus: Any, word: str) -> float:
    """From the last key of a word to the rows that contain it."""
    focus(page)
    box = page.get_by_label("Filter runs")
    box.wait_for()
    box.focus()
    begun = time.perf_counter()
    box.fill(word)
    page.locator(f'.run[data-run*="{word}"]').first.wait_for()
    page.locator(f'.run[data-run]:not([data-run*="{word}"])').first.wait_for(state="detached")
    return time.perf_counter() - begun


def sorted_by(page: Page, order: str) -> float:
    """From the choice of an order to its first row."""
    before = page.locator(".run[data-run]").first.get_attribute("data-run")
    page.get_by_role("button", name="Order of runs").click()
    begun = time.perf_counter()
    page.get_by_role("menuitemcheckbox", name=order).click()
    page.locator(f'.run[data-run="{before}"]').wait_for(state="detached")
    return time.perf_counter() - begun


def scroll(page: Page) -> None:
    """Look at rows all over the list."""
    rows = page.locator(".list").first
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 0.0):
        rows.evaluate("(list, share) => (list.scrollTop = list.scrollHeight * share)", share)
        page.wait_for_timeout(400)


def heap_mb(page: Page) -> float:
    """The heap of the tab after a collection."""
    client = page.context.new_cdp_session(page)
    client.send("HeapProfiler.enable")
    client.send("HeapProfiler.collectGarbage")
    client.send("Performance.enable")
    metrics = client.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "JSHeapUsedSize")) / 1e6


def cpu_s(pid: int) -> float:
    """The CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_browser_s(session: Any) -> float:
    """The CPU time of all processes of the browser so far."""
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return sum(float(one["cpuTime"]) for one in found)


def middle(values: list[float]) -> float:
    """The median."""
    return round(sorted(values)[len(values) // 2], 3)


if __name__ == "__main__":
    sys.exit(main())
