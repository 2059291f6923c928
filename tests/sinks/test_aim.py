"""What an Aim repository answers after a run was sent to it."""

from pathlib import Path

from tests.conftest import StartRun
from tests.sinks.every_kind import CONFIG, log_every_kind
from tests.sinks.member import Member
from tests.sinks.trackers import ask, python_with, send

# A repository that no Aim server has looked after is indexed before it can be queried.
SERIES = """
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
MEMBER = Member(reader=SERIES, package="aim", options=lambda folder: {"aim_repo": str(folder)})

REPOSITORY = """
import json, sys
from aim import Repo
from aim.storage.context import Context
repo = Repo(sys.argv[1])
repo._recreate_index()
metrics = {}
for run in repo.query_metrics("metric.name != ''", report_mode=0).iter_runs():
    for metric in run:
        steps, (values, *_) = metric.data.items_list()
        metrics[metric.name] = dict(zip(map(int, steps), map(float, values)))
found = [one.run for one in repo.query_runs("run.config.lr == 0.1", report_mode=0).iter_runs()]
(run,) = found
context = Context({})
text = run.get_text_sequence("sample", context)
image = run.get_image_sequence("noise", context)
distribution = run.get_distribution_sequence("weights/wte", context)
print(json.dumps({
    "metrics": metrics, "name": run.name, "experiment": run.experiment, "hash": run.hash,
    "config": run["config"], "status": run["status"],
    "texts": [value.data for value in text.data.values_list()[0]],
    "images": [[value.width, value.height] for value in image.data.values_list()[0]],
    "distributions": [value.bin_count for value in distribution.data.values_list()[0]],
}))
"""


def test_metrics_config_and_objects(start_run: StartRun, tmp_path: Path) -> None:
    python = python_with("aim")
    run = start_run(config=CONFIG)
    log_every_kind(run)
    options = {"aim_repo": str(tmp_path / "aim"), "aim_experiment": "mine", "aim_name": "by hand"}
    progress = send(python, run.dir, "aim", options=options)
    found = ask(python, REPOSITORY, str(tmp_path / "aim"))
    assert (found["name"], found["experiment"], found["status"]) == ("by hand", "mine", "finished")
    assert found["hash"] == progress["state"]["hash"]
    assert found["config"] == CONFIG
    metrics = found["metrics"]
    assert metrics["train/loss"] == {"0": 3.0, "1": 2.0, "2": 1.0}
    assert metrics["gpu/1/dram_free"] == dict.fromkeys("012", 5.0)
    assert metrics["allocator/weights_mib"] == {"0": 6.0}
    assert metrics["allocator/optimizer_pinned_mib"] == {"0": 1.0}
    assert metrics["moe/load_imbalance"] == {"2": 1.5}
    assert found["texts"] == ["Hello <b>&</b>"]
    assert found["images"] == [[6, 4]]
    assert found["distributions"] == [5]
