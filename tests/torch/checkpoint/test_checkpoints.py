from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from epochal import Checkpoints, Retention, TrainingState
from epochal.errors import UsageError
from epochal.torch import load_checkpoint, save_checkpoint
from epochal.torch.checkpoint.manifest import CheckpointNotFoundError, list_manifests, pointed
from tests.conftest import StartRun
from tests.doubles.journals import failing_sync, of_kind
from tests.torch.checkpoint.trainings import Training, restore, save

SCRIPT = Path(__file__).with_name("interrupted.py")
FOREVER = Path(__file__).with_name("saving_forever.py")
RANKS = Path(__file__).with_name("ranks_training.py")


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_every_so_many_steps_are_saved_and_the_newest_stay(tmp_path: Path) -> None:
    with Checkpoints(tmp_path, TrainingState(nn.Linear(1, 1)), every=2) as checkpoints:
        saved = [step for step in range(9) if checkpoints.step(step)]
    assert saved == [1, 3, 5, 7]
    assert names(tmp_path) == ["latest", "step-3", "step-5", "step-7"]


def test_the_best_metric_is_saved_whenever_it_comes_and_stays(tmp_path: Path) -> None:
    keep = Retention(rolling=1)
    metrics = [3.0, 2.0, math.nan, 2.5, 1.0, 1.5, 1.0, 4.0]
    with Checkpoints(tmp_path, TrainingState(nn.Linear(1, 1)), every=4, keep=keep) as checkpoints:
        saved = [s for s, metric in enumerate(metrics) if checkpoints.step(s, metric=metric)]
    assert saved == [0, 1, 3, 4, 7]
    assert names(tmp_path) == ["best", "latest", "step-4", "step-7"]
    assert pointed(tmp_path, "best") == "step-4"


def test_the_best_is_remembered_by_a_resumed_training(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    with Checkpoints(tmp_path, state, mode="max") as checkpoints:
        checkpoints.save(1, metric=0.9)
        checkpoints.save(2, metric=0.5)
    with Checkpoints(tmp_path, state, mode="max") as checkpoints:
        checkpoints.restore()
        assert not checkpoints.is_best(0.8)
        checkpoints.save(3, metric=0.8)
        assert checkpoints.is_best(0.95)
    assert pointed(tmp_path, "best") == "step-1"


def test_epochs_stay(tmp_path: Path) -> None:
    keep = Retention(rolling=1)
    with Checkpoints(tmp_path, TrainingState(nn.Linear(1, 1)), every=1, keep=keep) as checkpoints:
        for step in range(6):
            checkpoints.step(step)
            if step % 2:
                checkpoints.save(step, kind="epoch", epoch=(step + 1) / 2)
        assert [(m.step, m.kind) for m in checkpoints.list()] == [
            (1, "epoch"),
            (3, "epoch"),
            (5, "epoch"),
        ]


def test_a_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    expected = Training().steps(10)
    first = Training()
    with Checkpoints(tmp_path, first.state(), every=3) as checkpoints:
        assert checkpoints.restore() is None
        for step in range(5):
            first.step()
            checkpoints.step(step)
    second = Training(seed=8)
    with Checkpoints(tmp_path, second.state()) as checkpoints:
        restored = checkpoints.restore()
        assert restored is not None
        assert restored.next_step == 3
    assert second.steps(7) == expected[3:]


def test_a_folder_of_another_training_is_refused(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    with Checkpoints(tmp_path, state) as checkpoints:
        checkpoints.save(5)
    with Checkpoints(tmp_path, state) as checkpoints:
        with pytest.raises(UsageError, match=r"another training, up to step-5: call restore\(\)"):
            checkpoints.save(0)
        checkpoints.restore()
        checkpoints.save(6)
    with Checkpoints(tmp_path, state, overwrite=True) as checkpoints:
        checkpoints.save(0)


def test_a_run_has_its_checkpoints_in_its_folder_and_records_them(
    start_run: StartRun, tmp_path: Path
) -> None:
    run = start_run(config={"lr": 0.1})
    state = TrainingState(nn.Linear(1, 1))
    with Checkpoints(run, state, external={"wandb": "abc"}) as checkpoints:
        path = checkpoints.save(3, metric=0.5, kind="epoch")
    assert path == run.dir / "checkpoints/step-3"
    (event,) = (e for e in of_kind(run.dir, "event") if e["name"] == "checkpoint")
    assert (event["step"], event["kind"], event["metric"]) == (3, "epoch", 0.5)
    assert (event["path"], event["is_best"]) == (str(path), True)
    with Checkpoints(run, state, folder=tmp_path / "elsewhere") as checkpoints:
        checkpoints.save(4)
    assert [m.run_id for m in list_manifests(tmp_path / "elsewhere")] == [run.id]
    run.finish()
    again = start_run(resume="must", config={"lr": 0.2, "new": 2})
    with Checkpoints(again, state) as checkpoints:
        restored = checkpoints.restore()
    assert restored is not None
    assert (restored.manifest.run_id, restored.manifest.attempt) == (run.id, 1)
    assert restored.manifest.external == {"wandb": "abc"}
    assert restored.manifest.config == {"lr": 0.1}
    assert [str(drift) for drift in restored.drift] == ["lr: 0.1 → 0.2", "new: (absent) → 2"]


def saved_twice(folder: Path) -> TrainingState:
    """Checkpoints of steps 1 and 2, each with weights of its own."""
    state = TrainingState(nn.Linear(4, 1))
    with Checkpoints(folder, state, signals=()) as checkpoints:
        for step in (1, 2):
            nn.init.constant_(state.model.weight, step)  # type: ignore[arg-type]
            checkpoints.save(step)
    return state


def weights(state: TrainingState) -> set[float]:
    return set(next(state.model.parameters()).flatten().tolist())


def cut_the_newest(folder: Path) -> None:
    os.truncate(folder / "step-2/model.safetensors", 40)


def spoil_the_newest_manifest(folder: Path) -> None:
    (folder / "step-2/manifest.json").write_text("{")


def remove_the_newest(folder: Path) -> None:
    shutil.rmtree(folder / "step-2")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (cut_the_newest, r"step-2 is damaged: model.safetensors has 40 bytes instead of \d+"),
        (spoil_the_newest_manifest, r"step-2 is damaged: .*manifest.json is not valid JSON"),
        (
            remove_the_newest,
            r"latest names step-2, which is no checkpoint here; there are: step-1\.",
        ),
    ],
)
def test_a_damaged_latest_checkpoint_is_replaced_on_request(
    spoil: Callable[[Path], None], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = saved_twice(tmp_path)
    spoil(tmp_path)
    hint = r".* restore\(fallback=True\) takes the newest one that is whole"
    with pytest.raises((ValueError, LookupError), match=f"(?s){sentence}{hint}"):
        restore(tmp_path, state)
    assert weights(state) == {2.0}  # nothing was changed
    assert capsys.readouterr().err == ""
    assert restore(tmp_path, state, None, fallback=True).step == 1
    assert weights(state) == {1.0}
    said = capsys.readouterr().err
    assert re.search(f"(?s){sentence}.* Training goes on from step-1\\.", said)
    assert said.count("goes on from") == 1


def test_a_run_records_that_another_checkpoint_was_used(start_run: StartRun) -> None:
    run = start_run()
    saved_twice(run.dir / "checkpoints")
    cut_the_newest(run.dir / "checkpoints")
    with Checkpoints(run, TrainingState(nn.Linear(4, 1)), signals=()) as checkpoints:
        restored = checkpoints.restore(fallback=True)
    assert restored is not None
    assert restored.next_step == 2
    (message,) = of_kind(run.dir, "message")
    assert message["level"] == "warning"
    assert "Training goes on from step-1." in message["text"]


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0\0\0\0", None])
def test_a_latest_that_names_nothing_is_told(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = saved_twice(tmp_path)
    (tmp_path / "latest").unlink()
    if content is None:
        (tmp_path / "latest").mkdir()
    else:
        (tmp_path / "latest").write_bytes(content)
    assert restore(tmp_path, state).step == 2
    said = f"epochal: {tmp_path / 'latest'} names no checkpoint. Training goes on from step-2.\n"
    assert capsys.readouterr().err == said


def test_a_training_never_starts_anew_beside_damaged_checkpoints(tmp_path: Path) -> None:
    state = saved_twice(tmp_path)
    spoil_the_newest_manifest(tmp_path)
    (tmp_path / "step-1/model.safetensors").unlink()
    with pytest.raises(ValueError, match="has no checkpoint that is whole"):
        restore(tmp_path, state, None, fallback=True)
    with pytest.raises(UsageError, match="fallback=True goes with the latest checkpoint"):
        restore(tmp_path, state, "best", fallback=True)


def test_changed_hyperparameters_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = TrainingState(nn.Linear(1, 1))
    with Checkpoints(tmp_path, state, config={"lr": 0.1}) as checkpoints:
        checkpoints.save(1)
    with Checkpoints(tmp_path, state, config={"lr": 0.2}) as checkpoints:
        checkpoints.restore()
    assert "changed since step-1 was saved:\n  lr: 0.1 → 0.2" in capsys.readouterr().err
    restore(tmp_path, state)
    assert capsys.readouterr().err == ""


def test_a_training_may_begin_where_another_one_was(tmp_path: Path) -> None:
    first = Training(seed=1)
    with Checkpoints(tmp_path / "first", first.state()) as checkpoints:
        first.steps(3)
        checkpoints.save(2, metric=0.5)
    expected = first.steps(2)
    second = Training(seed=2)
    with Checkpoints(tmp_path / "second", second.state()) as checkpoints:
        restored = checkpoints.restore("step-2", source=tmp_path / "first")
        assert restored is not None
        assert second.steps(2) == expected
        assert checkpoints.is_best(0.9)
        checkpoints.save(4, metric=0.9)
    steps = {
        name: [m.step for m in list_manifests(tmp_path / name)] for name in ("first", "second")
    }
    assert steps == {"first": [2], "second": [4]}


def test_what_a_dead_writer_left_is_cleared_away(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    with Checkpoints(tmp_path, state) as checkpoints:
        checkpoints.save(5)
    script = (
        "import os, pathlib, sys\n"
        "from epochal.torch.checkpoint.manifest import prepare\n"
        "prepare(pathlib.Path(sys.argv[1]) / 'step-6')\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    (tmp_path / "step-5").rename(tmp_path / ".step-5.old")
    assert len([name for name in names(tmp_path) if name.startswith(".")]) == 2
    with Checkpoints(tmp_path, state) as checkpoints:
        assert [m.step for m in checkpoints.list()] == [5]
    assert names(tmp_path) == ["latest", "step-5"]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of Unix")
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", -signal.SIGTERM), ("SIGUSR1", 0)])
def test_a_signal_saves_at_the_end_of_its_step_and_no_step_is_lost(
    tmp_path: Path, name: str, status: int
) -> None:
    expected = Training().steps(20)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == status, done.stderr
    first = done.stdout.split()
    assert first == expected[: len(first)]
    assert len(first) == (20 if name == "SIGUSR1" else 8)
    training = Training(seed=6)
    with Checkpoints(tmp_path, training.state()) as checkpoints:
        restored = checkpoints.restore()
    assert restored is not None
    assert restored.manifest.kind == "emergency"
    assert restored.next_step == 8
    assert training.steps(12) == expected[8:]


def test_a_signal_after_the_last_step_is_not_swallowed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Checkpoints(tmp_path, TrainingState(nn.Linear(1, 1))):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_metric_that_comes_after_the_save_is_saved_with_it(tmp_path: Path) -> None:
    with Checkpoints(tmp_path, TrainingState(nn.Linear(1, 1))) as checkpoints:
        checkpoints.save(1, metric=0.5)
        checkpoints.save(4)
        assert checkpoints.step(4, metric=0.75) == tmp_path / "step-4"
    assert [m.metric for m in list_manifests(tmp_path)] == [0.5, 0.75]


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 10 kB, which a write notices as it notices a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["m.safetensors", "m.safetensors.gz", "m.fdl.gz"])
def test_a_full_disk_leaves_the_older_file(tmp_path: Path, name: str) -> None:
    save_checkpoint(tmp_path / name, {"a": torch.ones(2)})
    with full_disk(), pytest.raises(OSError, match="File too large"):
        save_checkpoint(tmp_path / name, {"a": torch.randn(10_000)})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert load_checkpoint(tmp_path / name, {"a": torch.zeros(2)}).is_complete


def test_a_full_disk_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(100, 100))
    save(tmp_path, state, 1)
    with full_disk(), pytest.raises(OSError, match="File too large"):
        save(tmp_path, state, 2)
    assert names(tmp_path) == ["latest", "step-1"]
    assert restore(tmp_path, state).step == 1


def test_a_training_that_is_killed_while_saving_has_complete_checkpoints(tmp_path: Path) -> None:
    model = nn.Linear(100, 100)
    acknowledged = -1
    for wait in (2, 5, 9):
        process = subprocess.Popen(
            [sys.executable, str(FOREVER), str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with process:
            assert process.stdout is not None
            for _ in range(wait):
                acknowledged = int(process.stdout.readline())
            process.kill()
            rest = process.stdout.read().split()
            acknowledged = int(rest[-1]) if rest else acknowledged
        restored = restore(tmp_path, TrainingState(model))
        assert restored.step in (acknowledged, acknowledged + 1)
        assert bool((model.weight == restored.step).all())


@pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")
def test_two_ranks_resume_exactly_fail_together_and_heed_each_others_signals(
    tmp_path: Path,
) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANKS), str(rank), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for rank in range(2)
    ]
    for rank in ranks:
        out, err = rank.communicate(timeout=200)
        assert out == "every check passed\n", err
    alone = Training()
    with pytest.raises(UsageError, match="saved by 2 ranks and this training has 1"):
        restore(tmp_path / "exact", alone.state())
    restored = restore(tmp_path / "exact", alone.state(), any_world_size=True)
    assert restored.left == ("data", "rng")
    assert restored.step == 3


def test_ranks_without_torch_distributed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match=r"rank 1 of 2.*init_process_group"):
        Checkpoints(tmp_path, TrainingState(nn.Linear(1, 1)))


def test_misuse_names_the_argument(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(1, 1))
    with pytest.raises(UsageError, match="every must be at least 1"):
        Checkpoints(tmp_path, state, every=0)
    with pytest.raises(UsageError, match="mode must be one of min, max"):
        Checkpoints(tmp_path, state, mode="best")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="folder goes with a run"):
        Checkpoints(tmp_path, state, folder=tmp_path)
    with pytest.raises(UsageError, match="kind must be one of rolling, epoch, emergency"):
        save(tmp_path, state, 1, kind="best")
    with pytest.raises(UsageError, match="step must be a whole number"):
        save(tmp_path, state, -1)
    with pytest.raises(CheckpointNotFoundError, match=r"no checkpoint \.\./x; there are: none"):
        restore(tmp_path, state, "../x")
    with pytest.raises(CheckpointNotFoundError, match="no checkpoint step-7"):
        restore(tmp_path, state, 7)


def test_a_checkpoint_and_what_names_it_are_on_the_disk_when_it_is_saved(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, TrainingState(nn.Linear(1, 1)))
    with failing_sync(times=0) as synced:
        checkpoints.save(1)
    written = [path.name.split(".")[1] if path.name[0] == "." else path.name for path in synced]
    assert written.index("step-1") < written.index("latest") < len(written) - 1
    assert synced[-1] == tmp_path
    checkpoints.close()
