"""The steps of W&B's own logs, written by W&B's own package, are those of the program."""

from __future__ import annotations

import json
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import epochal
from epochal.cli.main import main
from tests.conftest import StartRun
from tests.exchange.imports.samples import opened, records_in, values_of
from tests.exchange.sinks.trackers import python_with, run_script, send

START = """
import wandb

run = wandb.init(project="p", mode="offline", dir=".", settings=wandb.Settings(silent=True))
"""


def written(folder: Path, source: str, *arguments: str, **environment: str) -> Path:
    """The folder of what a script logged to W&B in a process of its own."""
    python = python_with("wandb")
    moved = f"import os\nos.chdir({str(folder)!r})\n"
    done = run_script(python, moved + textwrap.dedent(source), *arguments, **environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "wandb"


def test_a_run_that_was_sent_comes_back_at_its_steps(
    start_run: StartRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run("sent")
    for step in range(0, 300, 3):
        run.log({"train/loss": 1 / (step + 1)}, step=step)
        if step % 60 == 0:
            run.log({"noise": epochal.Image(np.full((4, 6, 3), step % 256, np.uint8))}, step=step)
    run.finish()
    options = {"wandb_mode": "offline", "wandb_dir": str(tmp_path)}
    send(python_with("wandb"), run.dir, "wandb", options=options)
    back = tmp_path / "back"
    assert main(["import", str(tmp_path / "wandb"), "--dir", str(back)]) == 0
    (found,) = epochal.open(back)
    assert found.series("train/loss").steps.tolist() == list(range(0, 300, 3))
    assert "trainer/global_step" not in [metric.name for metric in found.metrics()]
    capsys.readouterr()
    assert main(["export", "sent", "--format", "csv", "--dir", str(back)]) == 0
    assert "297" in capsys.readouterr().out.strip().splitlines()[-1].split(",")
    assert main(["ls", "--json", "--dir", str(back)]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["step"] == 297


LIGHTNING = """
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import WandbLogger

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, index):
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.layer(batch[0]).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(20, 2)))
logger = WandbLogger(project="p", save_dir=".", offline=True)
trainer = Trainer(
    max_epochs=2, logger=logger, log_every_n_steps=5, accelerator="cpu",
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Model(), data, data)
logger.experiment.finish()
"""


def test_lightning_s_logger(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    records = records_in(written(tmp_path, LIGHTNING))
    assert [step for step, _ in values_of(records, "loss")] == [4, 9, 14, 19, 24, 29, 34, 39]
    assert [step for step, _ in values_of(records, "val_loss")] == [19, 39]
    assert values_of(records, "trainer/global_step") == []
    assert [record for record in records if record["log"] in ("define", "summary")] == []


@pytest.mark.parametrize(
    ("program", "loss", "other"),
    [
        pytest.param(
            """
            run.define_metric("*", step_metric="global_step", step_sync=False)
            run.log({"before": 1})
            for step in (0, 10, 20):
                run.log({"loss": 1, "global_step": step})
            run.log({"other": 2})
            """,
            [0, 10, 20],
            [20],
            id="some rows do not have it",
        ),
        pytest.param(
            """
            run.define_metric("train/*", step_metric="train/step")
            run.define_metric("other", step_metric="other_step")
            for step in (0, 10, 20):
                run.log({"loss": 1, "train/step": step})
            run.log({"other": 2, "other_step": 1})
            """,
            [0, 10, 20],
            [20],
            id="two of them: the one of most rows",
        ),
        pytest.param(
            """
            run.define_metric("*", step_metric="epoch")
            for step in (0, 1, 2):
                run.log({"loss": 1, "epoch": step / 2})
            run.log({"other": 2})
            """,
            [0, 1, 2],
            [3],
            id="no whole numbers",
        ),
        pytest.param(
            """
            run.define_metric("*", step_metric="epoch")
            for step in range(6):
                run.log({"loss": 1, "epoch": step // 3})
            run.log({"other": 2})
            """,
            [0, 1, 2, 3, 4, 5],
            [6],
            id="many rows of one epoch",
        ),
        pytest.param(
            """
            run.define_metric("*", step_metric="epoch")
            for step in (5.0, 6.0):
                run.log({"loss": 1, "epoch": step})
            run.log({"other": 2, "epoch": 7})
            """,
            [5, 6],
            [7],
            id="a row for each epoch",
        ),
        pytest.param(
            """
            run.define_metric("*", step_metric="global_step")
            for step in (0, 1, 2):
                run.log({"loss": 1})
            run.log({"other": 2})
            """,
            [0, 1, 2],
            [3],
            id="never logged, so W&B writes 0",
        ),
    ],
)
def test_the_axis_of_all_is_the_step(
    tmp_path: Path, program: str, loss: list[int], other: list[int]
) -> None:
    source = START + textwrap.dedent(program) + "run.finish()\n"
    records = records_in(written(tmp_path, source))
    assert [step for step, _ in values_of(records, "loss")] == loss
    assert [step for step, _ in values_of(records, "other")] == other


SHARED = """
import sys
import wandb

address, label = sys.argv[1:]
settings = wandb.Settings(
    silent=True, mode="shared", x_label=label, x_primary=False, base_url=address,
    api_key="x" * 40, init_timeout=60,
)
run = wandb.init(project="p", id="together", dir=".", settings=settings)
if label == "second":
    run.define_metric("*", step_metric="global_step")
for step in range(0, 50, 10):
    run.log({f"{label}/loss": 1 / (step + 1), "global_step": step})
run.finish()
"""


class Backend(BaseHTTPRequestHandler):
    """As much of W&B's server as a run in shared mode needs, which cannot be offline."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        bucket = {"id": "1", "name": "together", "displayName": "together", "historyLineCount": 0}
        bucket["project"] = {"name": "p", "entity": {"name": "e"}}
        viewer = {"id": "1", "entity": "e", "username": "e", "flags": "{}", "teams": {"edges": []}}
        data: dict[str, object] = {}
        if b"upsertBucket" in asked:
            data = {"upsertBucket": {"bucket": bucket, "inserted": True}}
        elif b"viewer" in asked:
            data = {"viewer": viewer}
        answer = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def backend() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_each_writer_of_a_shared_run_has_steps(tmp_path: Path) -> None:
    with backend() as address:
        for label in ("first", "second"):
            written(tmp_path, SHARED, address, label)
    runs = {
        (values_of(records, "first/loss") and "first") or "second": records
        for records in (
            [record for batch in run.read_new() for record in batch.records]
            for run in opened(tmp_path / "wandb").runs()
        )
    }
    assert [step for step, _ in values_of(runs["first"], "first/loss")] == [0, 1, 2, 3, 4]
    assert [step for step, _ in values_of(runs["second"], "second/loss")] == [0, 10, 20, 30, 40]
