"""What W&B is given, read from the file that it writes while offline."""

from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.exchange.sinks.every_kind import CONFIG, log_every_kind
from tests.exchange.sinks.member import Member
from tests.exchange.sinks.trackers import ask, python_with, send

SERIES = """
import json, pathlib, sys
from wandb.proto import wandb_internal_pb2
from epochal.exchange.imports.formats.wandb import LogFile
rows = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("wandb/offline-run-*/*.wandb")):
    for _, data in LogFile(path).read():
        record = wandb_internal_pb2.Record.FromString(data)
        if record.WhichOneof("record_type") != "history":
            continue
        row = {
            item.key or "/".join(item.nested_key): json.loads(item.value_json)
            for item in record.history.item
        }
        # The server keeps one row per number.
        rows.setdefault(row["_step"], row)
found = {}
for number in sorted(rows):
    row = rows[number]
    for name, value in row.items():
        if not name.startswith("_"):
            found.setdefault(name, []).append([row["trainer/global_step"], value])
print(json.dumps(found))
"""
MEMBER = Member(
    reader=SERIES,
    package="wandb",
    options=lambda folder: {"wandb_mode": "offline", "wandb_dir": str(folder)},
)

RECORDS = """
import json, pathlib, sys
from wandb.proto import wandb_internal_pb2
from epochal.exchange.imports.formats.wandb import LogFile
(path,) = pathlib.Path(sys.argv[1]).glob("wandb/offline-run-*/*.wandb")
rows, config, run, code = [], {}, None, None
for _, data in LogFile(path).read():
    record = wandb_internal_pb2.Record.FromString(data)
    kind = record.WhichOneof("record_type")
    if kind == "history":
        rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json)
                     for item in record.history.item})
    elif kind == "run":
        run = record.run
        config |= {item.key: json.loads(item.value_json) for item in run.config.update}
    elif kind == "config":
        config |= {item.key: json.loads(item.value_json) for item in record.config.update}
    elif kind == "exit":
        code = record.exit.exit_code
print(json.dumps({"rows": rows, "config": config, "id": run.run_id, "name": run.display_name,
                  "project": run.project, "code": code}))
"""


def test_rows_config_and_media(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_with("wandb")
    monkeypatch.chdir(tmp_path)
    run = start_run(config=CONFIG)
    log_every_kind(run)
    options = {"wandb_mode": "offline", "wandb_dir": str(tmp_path), "wandb_name": "by hand"}
    progress = send(python, run.dir, "wandb", options=options)
    found = ask(python, RECORDS, str(tmp_path))
    assert (found["name"], found["project"], found["code"]) == ("by hand", "tests", 0)
    assert found["id"] == progress["state"]["id"] == run.id
    assert {name: found["config"][name] for name in CONFIG} == CONFIG
    rows = found["rows"]
    assert progress["state"]["rows"] == len(rows)
    assert [row["_step"] for row in rows] == list(range(len(rows)))
    losses = [row for row in rows if "train/loss" in row]
    assert [row["trainer/global_step"] for row in losses] == [0, 1, 2]
    assert [row["gpu/1/power"] for row in rows if "gpu/1/power" in row] == [300_001] * 3
    assert next(row for row in rows if "gpu/0/dram_free" in row)["gpu/0/dram_free"] == 5
    ending = "/_type"
    media = {
        name.removesuffix(ending): value
        for row in rows
        for name, value in row.items()
        if name.endswith(ending)
    }
    assert media["weights/wte"] == "histogram"
    assert media["words"] == "html-file"
    assert media["allocator/memory_table"] == "table-file"
    assert next(row for row in rows if "moe/aux_loss" in row)["moe/aux_loss"] == 0.5


def test_times_are_those_of_the_records(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_with("wandb")
    monkeypatch.chdir(tmp_path)
    run = start_run()
    with open(next((run.dir / "journal").iterdir()), "ab") as journal:
        journal.write(b'{"log":"metrics","t":1000000.5,"step":3,"m":{"a":1}}\n')
    send(python, run.dir, "wandb", options={"wandb_mode": "offline", "wandb_dir": str(tmp_path)})
    (row,) = ask(python, RECORDS, str(tmp_path))["rows"]
    assert row["_timestamp"] == 1000000.5


SAID = """
import json, pathlib, sys
from wandb.proto import wandb_internal_pb2
from epochal.exchange.imports.formats.wandb import LogFile
(path,) = pathlib.Path(sys.argv[1]).glob("wandb/offline-run-*/*.wandb")
metrics, run = {}, None
for _, data in LogFile(path).read():
    record = wandb_internal_pb2.Record.FromString(data)
    kind = record.WhichOneof("record_type")
    if kind == "metric":
        metrics[record.metric.name or record.metric.glob_name] = record.metric.step_metric
    elif kind == "run":
        run = record.run
print(json.dumps({"metrics": metrics, "group": run.run_group, "job_type": run.job_type}))
"""


def test_axes_and_group_arrive(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_with("wandb")
    monkeypatch.chdir(tmp_path)
    run = start_run(group="sweep", job_type="train")
    run.define("val/*", x="images")
    run.log({"images": 64, "val/acc": 0.5})
    send(python, run.dir, "wandb", options={"wandb_mode": "offline", "wandb_dir": str(tmp_path)})
    said = ask(python, SAID, str(tmp_path))
    assert (said["group"], said["job_type"]) == ("sweep", "train")
    assert said["metrics"]["val/*"] == "images"
