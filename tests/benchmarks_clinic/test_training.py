"""A training of the clinic, from the harness to the judge."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

import epochal
from benchmarks.clinic import evidence
from benchmarks.clinic.diagnosis import findings_of
from benchmarks.clinic.evidence import Evidence
from benchmarks.clinic.faults import FAULTS
from benchmarks.clinic.harness import prepare, train
from benchmarks.clinic.kinds import KINDS

pytestmark = pytest.mark.slow


def trained(folder: Path, kind: str, optimizer: str, fault: str | None, *, steps: int) -> Evidence:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        quick = replace(KINDS[kind], steps=steps, pace_ms=0.0, world=1)
        bench = prepare(quick, optimizer, 0)
        if fault is not None:
            FAULTS[fault].plant(bench)
        name = f"{kind}-{optimizer}-{fault or 'healthy'}-0"
        run = epochal.init("clinic", name, dir=folder, console=False, companion=False)
        with run:
            result = train(bench, run)
    torch.set_num_threads(threads)
    torch.backends.mha.set_fastpath_enabled(True)  # a kind that needs it off is over
    return evidence.collect(name, Path(run.dir), result, ended=1e12)


def test_a_fault_makes_the_result_worse_and_evidence_survives_a_file(tmp_path: Path) -> None:
    healthy = trained(tmp_path, "linear", "sgd", None, steps=150)
    wrong = trained(tmp_path, "linear", "sgd", "wrong_sign", steps=150)
    assert wrong.result["result"] > 10 * healthy.result["result"]
    path = evidence.path_of(tmp_path, wrong.id)
    evidence.write(wrong, path)
    again = evidence.read(path)
    assert again.result == wrong.result
    assert [finding.id for finding in findings_of(again)] == [one.id for one in findings_of(wrong)]


def test_scalars_only_leaves_out_what_watching_gives(tmp_path: Path) -> None:
    kept = trained(tmp_path, "mlp", "adamw", None, steps=60)
    series = {name for _, _, record in kept.entries for name in record.get("m", {})}
    assert any(name.startswith("params/") for name in series)
    scalars = [record for _, _, record in kept.scalars_only()]
    assert not any("params/" in name for record in scalars for name in record.get("m", {}))
    assert sum(record["log"] == "step" for record in scalars) == 60


@pytest.mark.parametrize("kind", sorted(KINDS)[::20])
def test_a_kind_trains_and_is_diagnosed(tmp_path: Path, kind: str) -> None:
    kept = trained(tmp_path, kind, KINDS[kind].optimizers[1].name, None, steps=20)
    assert math.isfinite(kept.result["result"])
    findings_of(kept)


# The others wait, on purpose.
@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"memory_leak", "hang", "straggler"})[::8])
def test_a_fault_can_be_planted(tmp_path: Path, fault: str) -> None:
    kind, optimizer = FAULTS[fault].kinds()[-1]
    assert trained(tmp_path, kind, optimizer, fault, steps=20).entries


def test_data_of_training_and_evaluation_is_watched(tmp_path: Path) -> None:
    kept = trained(tmp_path, "mlp", "adamw", "eval_on_train", steps=150)
    names = {record["name"] for _, _, record in kept.entries if record["log"] == "data"}
    assert names == {"train", "eval"}
    assert "data-leak" in {finding.rule for finding in findings_of(kept)}
    assert "data-leak" not in {finding.rule for finding in findings_of(kept, scalars_only=True)}
