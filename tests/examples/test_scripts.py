"""Every short script of ``examples/`` runs as it is, and logs what its name promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import epochal

EXAMPLES = Path(__file__).parents[2] / "examples"
# What the run of each script has: names of samples, and the beginning of their media types.
EXPECTED = {
    "audio": {"tone": "audio/"},
    "figures": {"prediction": "image/"},
    "files": {"vocabulary.json": "application/json", "tokenizer/vocabulary.json": "application/"},
    "pictures": {"input": "image/", "prediction": "image/", "batch": "image/"},
    "reports": {"report": "text", "page": "text/html", "sample": "text"},
    "rollouts": {"rollouts": "application/vnd.epochal.table+json"},
    "tables": {"predictions": "application/vnd.epochal", "confusion": "application/vnd.epochal"},
    "video": {"episode": "image/"},
}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("GIT", "COMPANION", "CONSOLE"):
        monkeypatch.setenv(f"EPOCHAL_{setting}", "0")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    run = epochal.load(tmp_path / "runs" / "samples" / name)
    kinds = {
        entry.record["name"]: str(entry.record.get("media_type", "text"))
        for kind in ("blob", "text", "file")
        for entry in run.view.entries(kind)
    }
    for sample, media_type in EXPECTED[name].items():
        assert kinds[sample].startswith(media_type), kinds
    assert run.info.status.state == "finished"
    assert not [e for e in run.view.entries("event") if e.record["name"] == "value-dropped"]


def test_every_example_is_listed() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in EXAMPLES.glob("*.py")} == {f"{name}.py" for name in EXPECTED}
    assert all(f"[{name}.py]({name}.py)" in page for name in EXPECTED)
