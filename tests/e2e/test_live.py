"""A page that is open while a training runs."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

from epochal import Monitor
from epochal.journal.process import process_identity
from tests.conftest import StartRun
from tests.e2e.browsing import OpenPage, Serve, drawn_lines, until, wait_for_lines, wait_for_points
from tests.store.journals import Journal


def test_a_run_appears_by_itself(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    start_run("first").finish()
    page = open_page(serve(tmp_path / "runs").url)
    page.locator(".run", has_text="first").wait_for()
    with start_run("second") as run:
        run.log({"loss": 1.0}, step=0)
        page.locator(".run", has_text="second").wait_for()


def test_the_address_of_a_run_opens_on_it_though_another_runs(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run("mine") as mine:
        mine.log({"loss": 1.0}, step=0)
    with start_run("newer") as newer:
        newer.log({"loss": 1.0}, step=0)
        page = open_page(f"{serve(tmp_path / 'runs').url}#run={mine.id}")
        page.locator(".run-head h2", has_text="mine").wait_for()
        page = open_page(serve(tmp_path / "runs").url)
        page.locator(".run-head h2", has_text="newer").wait_for()


def test_a_pattern_for_runs_is_asked_of_the_server(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    for name in ("gpt-a", "gpt-b", "resnet"):
        with start_run(name) as run:
            run.log({"train/loss": 1.0, "eval/loss": 1.0, "norm": 1.0}, step=0)
    address = serve(tmp_path / "runs").url
    page = open_page(address + "#filter=name+~+'(%3Fi)^GPT-[ab]$'")
    page.locator(".run", has_text="gpt-a").wait_for()
    until(page, lambda: page.locator(".run").count() == 2)
    page.locator(".run", has_text="resnet").wait_for(state="detached")
    with page.expect_request(lambda request: "api/runs?query=" in request.url):
        page.get_by_label("Filter runs").fill("name ~ 'resnet|\"'")
    page.locator(".run", has_text="resnet").wait_for()
    page.get_by_label("Filter runs").fill("name ~ 'a(?!b)'")
    page.get_by_text("use !~ for what must not occur").first.wait_for()


def test_the_list_and_the_head_of_a_run_never_have_two_numbers(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run() as run:
        run.log({"loss": 1000.0}, step=0)
        page = open_page(serve(tmp_path / "runs").url)
        page.locator(".run-values b", has_text="1000").wait_for()
        page.evaluate(
            """() => {
              window.pairs = [];
              const text = (one) => document.querySelector(one)?.textContent ?? '';
              const note = () => pairs.push([text('.run-values b'), text('.run-value')]);
              new MutationObserver(note).observe(document.body, {
                subtree: true, childList: true, characterData: true,
              });
            }"""
        )
        for step in range(1, 8):
            run.log({"loss": 1000.0 + step}, step=step)
            page.locator(".run-values b", has_text=f"{1000 + step}.").wait_for()
        pairs = page.evaluate("pairs")
    assert len(pairs) >= 7
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_a_chart_grows_without_asking_again(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run() as run:
        for step in range(5):
            run.log({"loss": 5.0 - step}, step=step)
        page = open_page(serve(tmp_path / "runs").url + "#place=board")
        wait_for_points(page, "loss", 5)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        steps = itertools.count(5)

        def grows_without_asking() -> bool:
            asked.clear()
            for step in itertools.islice(steps, 7):
                run.log({"loss": 5.0 - step}, step=step)
            line = wait_for_points(page, "loss", step + 1)
            assert [x for x, _ in line] == sorted({x for x, _ in line})
            return not [url for url in asked if "/api/series" in url]

        # While the page loads it may ask once more. One that asks whenever there is more never
        # stops.
        until(page, grows_without_asking)


def test_every_rank_grows_without_asking_again(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path, **process_identity())

    def log(step: int) -> None:
        journal.metrics(step, loss=1.0).metrics(step, writer="rank-0001", loss=2.0)

    log(0)
    log(1)
    url = serve(tmp_path).url + "#place=board&ranks=all"
    page = open_page("about:blank")
    streams: list[str] = []
    page.on("request", lambda r: streams.append(r.url) if "api/events" in r.url else None)
    page.goto(url)
    wait_for_lines(page, "loss", 2)
    until(page, lambda: any("rank=all" in url for url in streams))
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if "api/series" in r.url else None)
    steps = itertools.count(2)

    def grow_without_asking() -> bool:
        asked.clear()
        for step in itertools.islice(steps, 6):
            log(step)
        until(page, lambda: [len(one) for one in drawn_lines(page, "loss")] == [step + 1] * 2)
        return asked == []

    until(page, grow_without_asking)


def test_a_late_metric_gets_a_chart(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run() as run:
        run.log({"loss": 1.0}, step=0)
        page = open_page(serve(tmp_path / "runs").url + "#place=board")
        page.locator('[data-metric="loss"]').wait_for()
        run.log({"accuracy": 0.5}, step=1)
        page.locator('[data-metric="accuracy"]').wait_for()


def test_who_joins_late_sees_it_all(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    run = start_run(total_steps=50)
    for step in range(50):
        run.log({"loss": 1 / (step + 1)}, step=step)
    run.finish()
    page = open_page(serve(tmp_path / "runs").url + "#place=board")
    wait_for_points(page, "loss", 50)
    page.locator(".run .dot[aria-label^=finished]").first.wait_for()


def test_a_restarted_server_leaves_no_gap_and_no_repetition(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run() as run:
        run.log({"loss": 1.0}, step=0)
        run.log({"loss": 1.0}, step=1)
        site = serve(tmp_path / "runs")
        page = open_page(site.url + "#place=board")
        wait_for_points(page, "loss", 2)
        run.log({"loss": 2.0}, step=2)
        wait_for_points(page, "loss", 3)
        site.stop()
        page.locator(".live.is-lost").wait_for()
        run.log({"loss": 3.0}, step=3)
        site.start()
        run.log({"loss": 4.0}, step=4)
        page.locator("button.live").wait_for()
        line = wait_for_points(page, "loss", 5)
        run.log({"loss": 5.0}, step=5)
        line = wait_for_points(page, "loss", 6)
    assert [x for x, _ in line] == sorted({x for x, _ in line})


def test_tabs_share_one_stream(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run() as run:
        run.log({"loss": 1.0}, step=0)
        run.log({"loss": 1.0}, step=1)
        site = serve(tmp_path / "runs")
        first = open_page(site.url + "#place=board")
        wait_for_points(first, "loss", 2)
        second = first.context.new_page()
        streams: list[str] = []
        second.on("request", lambda request: streams.append(request.url))
        second.goto(site.url + "#place=board")
        wait_for_points(second, "loss", 2)
        run.log({"loss": 2.0}, step=2)
        wait_for_points(second, "loss", 3)
        assert not [url for url in streams if "/api/events" in url]
        first.close()
        until(second, lambda: any("/api/events" in url for url in streams))
        run.log({"loss": 3.0}, step=3)
        wait_for_points(second, "loss", 4)


def test_a_pause_holds_the_charts_still(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    with start_run() as run:
        run.log({"loss": 1.0}, step=0)
        run.log({"loss": 1.0}, step=1)
        page = open_page(serve(tmp_path / "runs").url + "#place=board")
        wait_for_points(page, "loss", 2)
        page.keyboard.press("p")
        run.log({"loss": 2.0}, step=2)
        page.locator(".run-value", has_text="2.0").first.wait_for()
        wait_for_points(page, "loss", 2)
        page.keyboard.press("p")
        wait_for_points(page, "loss", 3)


def test_the_header_says_how_a_run_ended(
    tmp_path: Path, start_run: StartRun, serve: Serve, open_page: OpenPage
) -> None:
    run = start_run(total_steps=10)
    run.log({"loss": 1.0}, step=0)
    page = open_page(serve(tmp_path / "runs").url)
    page.locator(".run-status", has_text="running").wait_for()
    until(page, lambda: page.get_by_role("progressbar").get_attribute("aria-valuenow") == "10")
    run.finish()
    page.locator(".run-status", has_text="finished").wait_for()


def test_the_header_has_name_epoch_and_times(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    monitor = Monitor(10, name="by-epoch", dir=tmp_path)
    for epoch in range(2):
        monitor.log(epoch, 60.0, {"encoder.loss": 1.0, "encoder.norm": 2.0, "decoder.loss": 3.0})
    page = open_page(serve(tmp_path).url)
    page.locator(".run-head h2", has_text="by-epoch").wait_for()
    page.locator(".progress-text", has_text="epoch 2 of 10 · 20").wait_for()
    page.locator(".progress-text", has_text="ETA").wait_for()
    page.get_by_role("tab", name="Board").click()
    for title in ("encoder", "decoder"):  # names with dots are sections of charts
        page.get_by_role("button", name=re.compile(rf"^{title}\b")).first.wait_for()
    monitor.finish()


def test_the_header_has_the_goodput_and_what_a_restart_cost(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path)
    for step in range(10):
        journal.metrics(step, loss=1.0)
    journal.add({"log": "resume", "attempt": 2, "step": 4}, attempt=2)
    for step in range(4, 10):
        journal.metrics(step, loss=1.0, attempt=2)
    journal.finish(attempt=2)
    page = open_page(serve(tmp_path).url)
    page.locator(".progress-text", has_text="goodput 61").wait_for()
    title = page.locator(".progress").get_attribute("title") or ""
    assert "6 steps (6s) were lost in 1 restart" in title


def test_the_header_says_the_phase_of_a_run_that_lives(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path, **process_identity()).metrics(0, loss=1.0)
    event = {"log": "event", "name": "phase"}
    journal.add({**event, "phase": "warm-up", "step": 0}, writer="findings")
    page = open_page(serve(tmp_path).url)
    page.locator(".run-phase-now.is-quiet", has_text="warm-up").wait_for()
    journal.add({**event, "phase": "diverging", "step": 1}, writer="findings")
    page.locator(".run-phase-now.is-critical", has_text="diverging").wait_for()
    journal.finish()
    page.locator(".run-phase-now").wait_for(state="detached")


def test_the_header_says_that_a_run_has_stalled(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path, **process_identity()).metrics(0, loss=1.0)
    silent = {"id": "s", "rule": "silent-run", "severity": "warning", "state": "open"}
    silence = {"log": "finding", **silent, "sentence": "Nothing has been recorded for 9 min."}
    journal.add(silence, writer="findings")
    page = open_page(serve(tmp_path).url)
    status = page.locator(".run-status.is-warning", has_text="stalled")
    status.wait_for()
    until(page, lambda: status.get_attribute("title") == "Nothing has been recorded for 9 min.")
    journal.add({**silence, "state": "closed"}, writer="findings")
    page.locator(".run-status", has_text="running").wait_for()


def test_the_header_says_why_a_run_vanished(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    journal = Journal(tmp_path, **{**process_identity(), "pid": gone.pid}).metrics(0, loss=1.0)
    path = journal.path()
    path.write_text(re.sub(r'"pid":\d+', f'"pid":{gone.pid}', path.read_text()))
    sentence = "the kernel killed it: memory was full"
    journal.add({"log": "event", "name": "vanished", "sentence": sentence}, writer="telemetry-n")
    page = open_page(serve(tmp_path).url)
    page.locator(".run-status.is-critical", has_text=f"crashed: {sentence}").wait_for()
