"""TensorBoard's own readers are the judge: its accumulator, and its server over HTTP."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochal.exchange.imports.formats.tensorboard import TensorboardFolder
from epochal.exchange.sinks.reporting import options_from
from epochal.exchange.sinks.worker import Forwarding
from epochal.journal.layout import RunFolder
from epochal.run.run import Run, recorder_of
from tests.conftest import StartRun
from tests.exchange.sinks.member import Member
from tests.exchange.sinks.trackers import ask, python_with

SERIES = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({
    tag: [[point.step, point.value] for point in events.Scalars(tag)]
    for tag in events.Tags()["scalars"]
}))
"""
MEMBER = Member(
    reader=SERIES,
    package="tensorboard",
    options=lambda folder: {"tensorboard_dir": str(folder), "run_name": "Named by hand"},
    argument=lambda folder, _run: str(folder / "Named by hand"),
)

ACCUMULATED = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
events = EventAccumulator(sys.argv[1], size_guidance=dict.fromkeys(
    ("scalars", "histograms", "images", "tensors"), 0))
events.Reload()
tags = events.Tags()
def histogram(value):
    return [value.num, value.sum, list(value.bucket_limit), list(value.bucket)]
print(json.dumps({
    "scalars": {tag: [[e.step, e.wall_time, e.value] for e in events.Scalars(tag)]
                for tag in tags["scalars"]},
    "histograms": {tag: [histogram(e.histogram_value) for e in events.Histograms(tag)]
                   for tag in tags["histograms"]},
}))
"""


def send(run: Run, *, is_live: bool = False, **options: str | int) -> Path:
    """Send a run; the folder of its event file."""
    reporting = options_from({"report_to": "tensorboard", **options})
    forwarding = Forwarding(RunFolder(run.dir), reporting, tries=1, is_live=is_live)
    forwarding.finish()
    forwarding.start()
    assert forwarding.wait(120)
    assert forwarding.unsent() == {}
    return Path(str(forwarding.progress_by_sink()["tensorboard"].state["file"])).parent


def accumulated(folder: Path) -> dict[str, Any]:
    return dict(ask(python_with("tensorboard"), ACCUMULATED, str(folder)))


def log_steps(run: Run, steps: range, *, loss: float = 1.0) -> None:
    for step in steps:
        run.log_step(step, step / 10, 1000, 100, 0.5, loss + step, 1e-3, norm_clipped=0.4)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """TensorBoard on a folder; its address."""
    tensorboard = Path(python_with("tensorboard")).with_name("tensorboard")
    command = [str(tensorboard), "--logdir", str(folder), "--port", "0", "--reload_interval", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield _address(process)
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    said = b""
    for line in process.stderr:
        said += line
        if b" at http://" in line:
            return "http" + line.decode().partition("http")[2].split()[0]
    raise AssertionError(said.decode())


def fetch(address: str, question: str, body: Any = None) -> Any:
    """Ask until there is an answer: the server reads files after it has said its address."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address.rstrip("/") + "/data/" + question,
        data=data,
        headers={"Content-Type": "application/json"},
    )
    for _ in range(1200):
        with (
            contextlib.suppress(urllib.error.HTTPError),
            urllib.request.urlopen(request, timeout=120) as response,
        ):
            answer = json.load(response)
            if answer:
                return answer
        time.sleep(0.1)
    raise AssertionError(f"no answer to {question}")


def test_scalars_have_their_tags_steps_times_and_values(start_run: StartRun) -> None:
    run = start_run()
    log_steps(run, range(3))
    run.log_eval(2, 0.2, 500, 50, 1.5, metrics={"hellaswag_accuracy": 0.25})
    run.log({"mine/x": 7.0}, step=2)
    run.finish()
    scalars = accumulated(send(run, tensorboard_tags="usual"))["scalars"]
    assert [[step, value] for step, _, value in scalars["Loss/train"]] == [[0, 1], [1, 2], [2, 3]]
    assert scalars["Performance/tokens_per_sec"][0][2] == 10_000
    assert scalars["Performance/step_time_ms"][0][2] == 100
    assert scalars["Loss/validation"][0][2] == 1.5
    assert scalars["Evaluation/hellaswag_accuracy"][0][2] == 0.25
    assert scalars["mine/x"][0][2] == 7
    assert abs(scalars["Loss/train"][0][1] - time.time()) < 300
    wanted = {"Learning_Rate/lr", "Gradient/norm", "Gradient/norm_clipped", "Training/epoch"}
    assert wanted <= scalars.keys()


def test_names_stay_as_they_were_logged(start_run: StartRun) -> None:
    run = start_run()
    log_steps(run, range(3))
    run.log({"lr": 0.1, "val_loss": 1.0}, step=2)
    run.log({"weights/wte": [0.0, 1.0]}, step=2)
    run.finish()
    found = accumulated(send(run))
    assert {"train/loss", "train/lr", "lr", "val_loss"} <= found["scalars"].keys()
    assert found["histograms"].keys() == {"weights/wte"}


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("tensorboard_tags", "Usual", "must be 'names' or 'usual'"),
        ("tensorboard_metrics", "most", "must be 'all' or a number above 0"),
        ("tensorboard_metrics", 0, "must be 'all' or a number above 0"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    start_run: StartRun, option: str, value: str | int, problem: str
) -> None:
    run = start_run()
    reporting = options_from({"report_to": "tensorboard", option: value})
    forwarding = Forwarding(RunFolder(run.dir), reporting, tries=1, is_live=True)
    forwarding.finish()
    forwarding.start()
    assert forwarding.wait(120)
    assert problem in forwarding.unsent()["tensorboard"]


def log_a_watched_training(run: Run) -> None:
    """Telemetry, norms of 60 tensors at each step, and later a metric with a declared goal."""
    run.define("hellaswag", goal="max")
    run.write({"log": "system", "t": 1.0, "cpu_pct": 3.0, "ram_used": 1.0})
    for step in range(3):
        log_steps(run, range(step, step + 1))
        run.log({f"grads/{n}/norm": 1.0 for n in range(60)}, step=step)
    run.log({"mine": 1.0, "hellaswag": 0.3}, step=2)


def test_a_live_file_has_the_twenty_most_important_metrics_and_sync_writes_all(
    start_run: StartRun,
) -> None:
    run = start_run()
    log_a_watched_training(run)
    live = accumulated(send(run, is_live=True))["scalars"]
    tensors = [tag for tag in live if tag.startswith("grads/")]
    assert {"train/loss", "train/norm_clipped", "mine", "hellaswag"} <= live.keys()
    assert len(live) - len({"mine", "hellaswag"}) == 20
    assert tensors[:2] == ["grads/0/norm", "grads/1/norm"]
    assert [len(live[tensor]) for tensor in tensors] == [3] * len(tensors)
    # A resumed training goes on with the metrics that are there.
    run.log({"grads/0/norm": 2.0, "grads/59/norm": 2.0}, step=3)
    again = accumulated(send(run, is_live=True))["scalars"]
    assert again.keys() == live.keys()
    assert len(again["grads/0/norm"]) == 4
    everything = accumulated(send(run))["scalars"]
    assert {"system/cpu_pct", *(f"grads/{n}/norm" for n in range(60))} <= everything.keys()
    # What is complete stays complete.
    run.log({"new": 2.0}, step=4)
    assert accumulated(send(run, is_live=True))["scalars"].keys() == {*everything, "new"}


@pytest.mark.parametrize(("given", "count"), [("all", 72), (4, 5)])
def test_a_live_file_has_as_many_metrics_as_were_asked_for(
    start_run: StartRun, given: str | int, count: int
) -> None:
    run = start_run()
    log_a_watched_training(run)
    found = accumulated(send(run, is_live=True, tensorboard_metrics=given))["scalars"]
    assert len(found) == count
    assert {"train/loss", "train/lr", "hellaswag"} <= found.keys()


def test_tensorboard_names_a_run_by_its_folder(start_run: StartRun, tmp_path: Path) -> None:
    for name in ("ref", "other"):
        run = start_run(name)
        log_steps(run, range(2))
        if name == "other":  # the file of a run that 0.2.0 began lies one folder deeper
            old = run.dir / "tensorboard"
            old.mkdir()
            (file,) = send(run).glob("*tfevents*")
            file.rename(old / file.name)
            text = (run.dir / "sinks.json").read_text()
            (run.dir / "sinks.json").write_text(text.replace(str(file), str(old / file.name)))
            log_steps(run, range(2, 3))
        run.finish()
        send(run)
    assert TensorboardFolder.find(tmp_path / "runs") is None, "they are no runs of another tracker"
    with server(tmp_path / "runs") as address:
        assert fetch(address, "plugin/scalars/tags").keys() == {
            "tests/ref",
            "tests/other/tensorboard",
        }
        points = fetch(
            address, "plugin/scalars/scalars?run=tests%2Fother%2Ftensorboard&tag=train%2Floss"
        )
    assert [step for _, step, _ in points] == [0, 1, 2]
    with server(tmp_path / "runs" / "tests") as address:
        assert fetch(address, "plugin/scalars/tags").keys() == {"ref", "other/tensorboard"}


def test_histogram_keeps_its_counts_and_edges(start_run: StartRun) -> None:
    run = start_run()
    recorder_of(run).write_histogram("weights/wte", [0.0, 0.5, 1.0, 1.0], 0, bins=2)
    run.log({"weights/empty": [float("nan")]}, step=0)
    found = accumulated(send(run, tensorboard_tags="usual"))["histograms"]
    assert found["Parameters/wte"] == [[4.0, 2.5, [0.0, 0.5, 1.0], [0.0, 1.0, 3.0]]]
    assert "Parameters/empty" in found


def test_nonfinite_and_huge_values_are_numbers_too(start_run: StartRun) -> None:
    run = start_run()
    run.log({"a": float("nan"), "b": float("-inf"), "c": 1e300}, step=0)
    found = accumulated(send(run))["scalars"]
    assert np.isnan(found["a"][0][2])
    assert (found["b"][0][2], found["c"][0][2]) == (float("-inf"), float("inf"))


def test_resumed_run_takes_over_from_its_step(start_run: StartRun) -> None:
    run = start_run("again")
    log_steps(run, range(10))
    run.finish()
    send(run)
    resumed = start_run("again", resume="must", resume_step=6)
    log_steps(resumed, range(6, 8), loss=100.0)
    resumed.finish()
    folder = send(resumed)
    assert len(list(folder.glob("*tfevents*"))) == 1
    loss = accumulated(folder)["scalars"]["train/loss"]
    assert [value for _, _, value in loss] == [1, 2, 3, 4, 5, 6, 106, 107]


def test_file_is_the_same_whenever_it_is_written(start_run: StartRun, tmp_path: Path) -> None:
    run = start_run(config={"lr": 0.1})
    log_steps(run, range(10))
    send(run, tensorboard_dir=str(tmp_path / "in two"))
    log_steps(run, range(10, 20))
    run.finish()
    (in_two,) = send(run, tensorboard_dir=str(tmp_path / "in two")).iterdir()
    (run.dir / "sinks.json").unlink()
    (at_once,) = send(run, tensorboard_dir=str(tmp_path / "at once")).iterdir()
    assert in_two.read_bytes() == at_once.read_bytes()


def test_deleted_file_is_written_again(start_run: StartRun) -> None:
    run = start_run()
    log_steps(run, range(10))
    run.finish()
    (file,) = send(run).glob("*tfevents*")
    before = file.read_bytes()
    file.unlink()
    (run.dir / "journal" / "child-7.0001.0000.jsonl").write_bytes(b"")
    with open(next((run.dir / "journal").glob("loop*")), "ab") as journal:
        journal.write(b'{"log":"message","t":1.0,"text":"late"}\n')
    send(run)
    assert file.read_bytes() == before


def test_server_shows_runs_with_their_final_metrics(start_run: StartRun, tmp_path: Path) -> None:
    for name, loss, extra in (("one", 1.0, {}), ("two", 5.0, {"depth": 12})):
        run = start_run(name, config={"lr": loss / 10, "opt": {"name": "adam"}, **extra})
        log_steps(run, range(5), loss=loss)
        run.log_eval(4, 0.4, 10, 1, loss=loss)
        run.log({"sample": "text"}, step=4)
        run.finish()
        send(run, tensorboard_dir=str(tmp_path / "tb"), tensorboard_tags="usual")
    with server(tmp_path / "tb") as address:
        tags = fetch(address, "plugin/scalars/tags")
        assert tags.keys() == {"one", "two"}
        points = fetch(address, "plugin/scalars/scalars?run=two&tag=Loss%2Ftrain")
        assert [point[1:] for point in points] == [[step, 5.0 + step] for step in range(5)]
        assert fetch(address, "plugin/text/tags")["one"] == ["Generated_Samples/text/text_summary"]
        groups = fetch(address, "plugin/hparams/session_groups", _EVERY_SESSION)["sessionGroups"]
    found = {
        group["hparams"]["lr"]: (
            group["hparams"]["opt.name"],
            {m["name"]["tag"]: m["value"] for m in group["metricValues"]}["Loss/validation"],
            group["sessions"][0]["status"],
        )
        for group in groups
    }
    assert found == {0.1: ("adam", 1.0, "STATUS_SUCCESS"), 0.5: ("adam", 5.0, "STATUS_SUCCESS")}


def test_the_table_of_hyperparameters_has_headline_metrics_only(
    start_run: StartRun, tmp_path: Path
) -> None:
    run = start_run("one", config={"lr": 0.1, "net": "small", "fast": True})
    run.define("score", goal="max")
    run.define("late", goal="max")
    for step in range(4):
        log_steps(run, range(step, step + 1))
        run.log({f"layer{n}/grad_norm": 1.0 for n in range(160)} | {"score": 0.5}, step=step)
        run.log_eval(step, 0.4, 10, 1, loss=2.0, metrics={"accuracy": 0.5})
    run.log({"late": 1.0}, step=4)
    run.finish()
    send(run, tensorboard_dir=str(tmp_path / "tb"))
    with server(tmp_path / "tb") as address:
        asked: dict[str, Any] = {"experimentName": "", "includeMetrics": True}
        experiment = fetch(address, "plugin/hparams/experiment", asked)
    metrics = [metric["name"]["tag"] for metric in experiment["metricInfos"]]
    assert metrics == ["score", "late", "train/loss", "eval/loss", "accuracy"]
    assert {one["name"]: one["type"] for one in experiment["hparamInfos"]} == {
        "lr": "DATA_TYPE_FLOAT64",
        "net": "DATA_TYPE_STRING",
        "fast": "DATA_TYPE_BOOL",
    }


_STATUSES = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
_EVERY_SESSION = {
    "experimentName": "",
    "allowedStatuses": _STATUSES,
    "colParams": [
        {"metric": {"group": "", "tag": "Loss/validation"}},
        {"hparam": "lr"},
        {"hparam": "opt.name"},
    ],
    "startIndex": 0,
    "sliceSize": 10,
}
