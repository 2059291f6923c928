"""Scripts that read a run back with each tracker's own reader.

Each prints ``{series name: [[step, value], …]}``; the arguments are those of ``Member.arguments``.
"""

from __future__ import annotations

JSON_LOG = """
import json, sys
records = json.load(open(sys.argv[1]))
print(json.dumps({"train/loss": [[r["step"], r["loss"]] for r in records if r["log"] == "step"]}))
"""

PLAIN_LOG = """
import json, sys
found = {}
for line in open(sys.argv[1]):
    step, kind, value = line.split()
    found.setdefault(kind, []).append([int(step), float(value)])
print(json.dumps(found))
"""

TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({
    tag: [[point.step, point.value] for point in events.Scalars(tag)]
    for tag in events.Tags()["scalars"]
}))
"""

WANDB = """
import json, pathlib, sys
from wandb.proto import wandb_internal_pb2
from epochal.imports.leveldb_log import LogFile
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

# A repository that no Aim server has looked after is indexed before it can be queried.
AIM = """
import json, sys
from aim import Repo
repo = Repo(sys.argv[1])
repo._recreate_index()
found = {}
for run in repo.query_metrics("True", report_mode=0).iter_runs():
    for metric in run:
        steps, (values, *_) = metric.data.items_list()
        found[metric.name] = [[int(step), float(value)] for step, value in zip(steps, values)]
print(json.dumps(found))
"""

MLFLOW = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=sys.argv[1])
experiment = client.get_experiment_by_name("tests")
(run,) = client.search_runs([experiment.experiment_id])
found = {
    name: [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, name)]
    for name in run.data.metrics
}
print(json.dumps(found))
"""

TRACKIO = """
import json, sys
from trackio.sqlite_storage import SQLiteStorage
found = {}
for row in SQLiteStorage.get_logs("tests", sys.argv[1]):
    for name, value in row.items():
        if name not in ("step", "timestamp"):
            found.setdefault(name, []).append([row["step"], value])
print(json.dumps(found))
"""
