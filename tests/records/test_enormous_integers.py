"""Integers beyond a double in every field of every kind of record: all that reads runs goes on."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.cli.main import main
from epochal.exports.export import FORMATS
from epochal.server.endpoints import ENDPOINTS
from tests.doubles.every_kind import write_every_kind
from tests.server.live import serving

Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.slow

ENORMOUS = 10**400
# Fields that say whose record it is; the first of the records that are kept also keep their place.
IDENTITY = {"v", "id", "rank", "attempt", "part", "pid", "pid_start"}
PLACES = IDENTITY | {"t", "step", "epoch"}
STREAMS = {"events", "epoch_events"}


def enormous(value: Any, *, keep: set[str]) -> Any:
    if isinstance(value, dict):
        return {k: v if k in keep else enormous(v, keep=keep) for k, v in value.items()}
    if isinstance(value, list):
        return [enormous(item, keep=keep) for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return -ENORMOUS if value < 0 else ENORMOUS


def enlarge(part: Path) -> None:
    """Keep a few records of each kind and name, and make their numbers enormous."""
    seen: Counter[tuple[Any, ...]] = Counter()
    lines = []
    for record in map(json.loads, part.read_text().splitlines()):
        sort = (record["log"], record.get("name"))
        seen[sort] += 1
        if seen[sort] <= 3:
            keep = PLACES if seen[sort] <= 2 else IDENTITY
            lines.append(json.dumps(enormous(record, keep=keep)))
    part.write_text("\n".join([*lines, ""]))


@pytest.fixture(scope="module", params=["journal", "sealed"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for seed in range(2):
        folder = write_every_kind(root, seed=seed)
        for part in (folder / "journal").iterdir():
            enlarge(part)
        identity = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(enormous(identity, keep=PLACES)))
    if request.param == "sealed":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("epochal.cli.pack.WORTH_SEALING_BYTES", 0)
            assert main(["manage", "pack", "--all", "--dir", str(root)]) == 0
    return root


def answered(capsys: Capture, *arguments: str) -> str:
    """What a command prints; it reports no error of its own."""
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert code in (0, 1), err
    assert "Error" not in err, err
    return out


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls --all --json --sort=-summary.train/loss.last",
        "ls 'config.lr > 1'",
        "show every-kind",
        "show every-kind --json",
        "tail every-kind -a -n 1000",
        "tail every-kind --json -n 1000",
        "doctor every-kind",
        "doctor every-kind --json",
        "compare every-kind every-kind-2",
        "compare every-kind every-kind-2 --json -m train/loss",
        "why every-kind every-kind-2",
        "why every-kind every-kind-2 --metric train/loss --json",
        "series every-kind train/loss",
        "manage checkpoints every-kind",
        "manage verify every-kind",
        "manage repair every-kind",
        "watch every-kind --once",
    ],
)
def test_every_command_that_reads_answers(root: Path, command: str, capsys: Capture) -> None:
    assert answered(capsys, *shlex.split(command), "--dir", str(root))


@pytest.mark.parametrize("options", [*FORMATS, "csv --rows step"])
def test_every_export_is_written(root: Path, options: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "run"
    chosen = ("--format", *options.split(), "-o", str(file))
    answered(capsys, "export", "every-kind", *chosen, "--dir", str(root))
    assert file.stat().st_size


def test_every_series_is_read(root: Path) -> None:
    with epochal.open(root) as runs:
        for run in runs.runs():
            assert run.config["lr"] == ENORMOUS
            for metric in run.metrics():
                for rank in metric.ranks:
                    assert len(run.series(metric.name, axis=metric.axis, rank=rank).values)
                for x in ("epoch", "tokens", "wall", "relative"):
                    run.series(metric.name, axis=metric.axis, rank=metric.ranks[0], x=x)


def parameters(name: str, ids: list[str]) -> dict[str, Any]:
    metric = "train/loss"
    known: dict[str, dict[str, Any]] = {
        "series": {"name": [metric, "eval/loss"], "run": ids, "smooth": "ema:0.9"},
        "groups": {"metric": metric, "by": "lr"},
        "group_curves": {"metric": metric, "by": "lr"},
        "importance": {"metric": metric},
        "why": {"run": ids},
    }
    return known.get(name, {})


def test_every_endpoint_answers(root: Path) -> None:
    with serving(root) as server:
        listed = server.ask("/api/runs", config=1, summary=["role:loss"]).json["rows"]
        ids = [row["id"] for row in listed]
        for endpoint in ENDPOINTS:
            if endpoint.method == "GET" and endpoint.name not in STREAMS:
                path = endpoint.path.replace("{run_id}", ids[0])
                answer = server.ask(path, **parameters(endpoint.name, ids))
                assert answer.status < 500, (path, answer.body)
        with epochal.open(f"http://127.0.0.1:{server.port}") as runs:
            assert runs.run("every-kind").config["lr"] == ENORMOUS


def test_the_sinks_that_write_files_take_all_records(
    root: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = shutil.copytree(root, tmp_path / "runs")
    sinks = "json_log,plain_log,tensorboard"
    code = main(["sync", "every-kind", "--to", sinks, "--dir", str(folder)])
    assert code == 0, capsys.readouterr()
