"""Sources that are only copied: a fault of one is a sentence, and so is a missing package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.errors import InternalError, MissingPackageError
from epochal.exchange.imports.registry import open_source, own_sources
from epochal.exchange.imports.sources.aim import series_name
from tests.members.faults import broken


@pytest.mark.parametrize("name", own_sources())
def test_a_source_that_fails_is_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"epochal.exchange.imports.sources.{name}.find", broken)
    with pytest.raises(InternalError, match=f"importer {name} failed"):
        open_source(str(tmp_path))
    assert main(["import", str(tmp_path)]) == 2
    assert f"importer {name} failed" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("aim") is not None, reason="aim is installed")
def test_aim_is_named_when_it_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".aim" / "meta" / "chunks").mkdir(parents=True)
    source = open_source(str(tmp_path))
    assert source is not None
    with pytest.raises(MissingPackageError, match="pip install aim"):
        source.runs()
    assert main(["import", str(tmp_path / ".aim")]) == 2
    assert "needs the package 'aim': pip install aim." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "context", "shown"),
    [
        ("loss", {}, "loss"),
        ("loss", {"subset": "train"}, "train/loss"),
        ("power", {"gpu": 0}, "power/gpu=0"),
        ("loss", {"subset": "val", "fold": 2}, "loss/fold=2/subset=val"),
        ("__system__cpu", {}, "system/cpu"),
        ("__system__gpu", {"gpu": 1}, "system/gpu/gpu=1"),
    ],
)
def test_the_context_stands_in_the_name(name: str, context: dict[str, Any], shown: str) -> None:
    assert series_name(name, context) == shown
