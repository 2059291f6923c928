from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epochal.errors import FormatError, UsageError
from epochal.torch.checkpoint.manifest import (
    CheckpointNotFoundError,
    FileFacts,
    Manifest,
    find,
    list_manifests,
    point,
    pointed,
    problem_of,
    read_manifest,
    scan,
    sha256_of,
    step_name,
    write_manifest,
)


def make(folder: Path, step: int, **fields: Any) -> Manifest:
    path = folder / f"step-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"weights")
    facts = FileFacts(7, sha256_of(path / "model.safetensors"))
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
        ({"version": 2}, "has version 2; this Epochal reads version 1"),
        ({"step": -1}, "step must be"),
        ({"step": "3"}, "step must be"),
        ({"kind": "great"}, "unknown"),
        ({"world_size": 0}, "world_size is 0"),
        ({"files": {"../../etc/passwd": {"bytes": 1, "sha256": ""}}}, "no name of a file"),
        ({"files": {"/etc/passwd": {"bytes": 1, "sha256": ""}}}, "no name of a file"),
        ({"files": {"..": {"bytes": 1, "sha256": ""}}}, "no name of a file"),
        ({"files": {"a": 1}}, "damaged"),
        ({"files": None}, "damaged"),
        ({"surprise": 1}, "damaged"),
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
    point(tmp_path, "latest", make(tmp_path, 3))
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
