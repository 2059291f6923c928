from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epochal.errors import FormatError, UsageError
from epochal.torch.checkpoint.manifest import (
    CheckpointNotFoundError,
    Kind,
    Manifest,
    Retention,
    _point,
    facts_of,
    find,
    list_manifests,
    pointed,
    problem_of,
    read_manifest,
    scan,
    step_name,
    write_manifest,
)


def make(folder: Path, step: int, **fields: Any) -> Manifest:
    path = folder / f"step-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"weights")
    facts = facts_of(path / "model.safetensors")
    manifest = Manifest(
        step=step, kind="rolling", saved=step, files={"model.safetensors": facts}, **fields
    )
    write_manifest(path, manifest)
    return manifest


def test_a_manifest_comes_back(tmp_path: Path) -> None:
    manifest = make(tmp_path, 3, metric=0.5, epoch=1.5, run_id="r", attempt=2, config={"a": [1]})
    assert read_manifest(tmp_path / "step-3") == manifest
    assert manifest.size_bytes == 7


def test_checkpoints_are_listed_by_step(tmp_path: Path) -> None:
    for step in (10, 9, 0, 100):
        make(tmp_path, step)
    for other in ("step-07", "step--1", "step-x", ".step-5.1.tmp", "steps", "step-1"):
        (tmp_path / other).mkdir()
    assert [m.step for m in list_manifests(tmp_path)] == [0, 9, 10, 100]
    assert list_manifests(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "other"}, "not the manifest of a checkpoint"),
        ({"version": 2}, "has version 2, expected 1"),
        ({"step": -1}, "step"),
        ({"step": "3"}, "step"),
        ({"kind": "great"}, "kind"),
        ({"world_size": 0}, "world_size"),
        ({"files": {"../../etc/passwd": {"bytes": 1, "sha256": ""}}}, "files"),
        ({"files": {"/etc/passwd": {"bytes": 1, "sha256": ""}}}, "files"),
        ({"files": {"..": {"bytes": 1, "sha256": ""}}}, "files"),
        ({"files": {"a": 1}}, "files"),
        ({"files": None}, "files"),
    ],
)
def test_a_damaged_manifest_is_a_sentence(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    make(tmp_path, 3)
    path = tmp_path / "step-3/manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FormatError, match=sentence):
        read_manifest(tmp_path / "step-3")
    assert [type(found) for _, found in scan(tmp_path)] == [FormatError]


def test_pointers_name_a_checkpoint_and_nothing_else(tmp_path: Path) -> None:
    _point(tmp_path, "latest", make(tmp_path, 3))
    assert pointed(tmp_path, "latest") == "step-3"
    assert pointed(tmp_path, "best") is None
    (tmp_path / "latest").write_text("../../elsewhere")
    assert pointed(tmp_path, "latest") is None
    assert find(tmp_path, "latest") == tmp_path / "step-3"
    with pytest.raises(CheckpointNotFoundError, match="no checkpoint best; there are: step-3"):
        find(tmp_path, "best")


def test_problems_are_found_by_size_and_by_checksum(tmp_path: Path) -> None:
    manifest = make(tmp_path, 3)
    path = tmp_path / "step-3"
    assert problem_of(path, manifest, thorough=True) is None
    (path / "model.safetensors").write_bytes(b"heights")
    assert problem_of(path, manifest) is None
    assert problem_of(path, manifest, thorough=True) == (
        "model.safetensors does not fit its checksum"
    )
    (path / "model.safetensors").write_bytes(b"w")
    assert problem_of(path, manifest) == "model.safetensors has 1 bytes instead of 7"
    (path / "model.safetensors").unlink()
    assert problem_of(path, manifest) == "model.safetensors is missing"


@pytest.mark.parametrize("step", [-1, 10**18, True, 1.0, "1"])
def test_a_step_is_a_whole_number(step: Any) -> None:
    with pytest.raises(UsageError, match="step must be a whole number"):
        step_name(step)


def made(*steps: int, kind: Kind = "rolling", saved: float | None = None) -> list[Manifest]:
    return [
        Manifest(step=s, kind=kind, saved=s if saved is None else saved, files={}) for s in steps
    ]


def gone(keep: Retention, manifests: list[Manifest], *names: str) -> list[int]:
    return [m.step for m in keep.superseded(manifests, keep=names)]


def test_the_newest_stay() -> None:
    assert gone(Retention(rolling=2), made(1, 2, 3, 4)) == [1, 2]
    assert gone(Retention(rolling=9), made(1, 2)) == []
    assert gone(Retention(rolling=0), made(1, 2)) == [1, 2]
    assert gone(Retention(rolling=None), made(1, 2)) == []


def test_latest_and_best_stay_whatever_their_age() -> None:
    assert gone(Retention(rolling=1), made(1, 2, 3), "step-1", "step-3") == [2]


def test_kinds_are_counted_apart() -> None:
    manifests = made(1, 3, 5) + made(2, 4, kind="epoch") + made(6, 7, 8, kind="emergency")
    assert gone(Retention(rolling=1), manifests) == [1, 3, 6]
    assert gone(Retention(rolling=1, epoch=1, emergency=0), manifests) == [1, 2, 3, 6, 7, 8]


def test_major_ones_stay_for_good() -> None:
    assert gone(Retention(rolling=1, every=100), made(99, 149, 199, 249, 299, 349)) == [149, 249]


def test_steps_that_were_given_up_are_the_older_ones() -> None:
    manifests = made(80, 90, 100, saved=1.0) + made(60, 70, saved=2.0)
    assert gone(Retention(rolling=2), manifests) == [80, 90, 100]


def test_misuse_of_retention_names_the_argument() -> None:
    with pytest.raises(UsageError, match="epoch must be at least 0 or None"):
        Retention(epoch=-1)
    with pytest.raises(UsageError, match="every must be at least 1"):
        Retention(every=0)
