"""What every export keeps to; the formats are those of the registry."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from epochal.exports.export import FORMATS, export_named
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal


def exported(name: str, root: Path, *keys: str) -> str:
    store, out = folder_store(root), io.StringIO()
    export_named(name).write([store.run(key) for key in keys], out)
    return out.getvalue()


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_without_records_gives_a_file_that_is_whole(name: str, tmp_path: Path) -> None:
    Journal(tmp_path)
    text = exported(name, tmp_path, "x")
    assert not text or text.endswith("\n")


@pytest.mark.parametrize("name", FORMATS)
def test_it_ends_with_a_newline_and_has_no_other_line_ends(name: str, tmp_path: Path) -> None:
    Journal(tmp_path).epoch(1, loss=0.5).add({"log": "metrics", "step": 1, "m": {"a\r\nb": 1.0}})
    text = exported(name, tmp_path, "x")
    assert text.endswith("\n")
    assert "\r\n" not in text or name == "csv"


@pytest.mark.parametrize("name", FORMATS)
def test_several_runs_can_be_told_apart(name: str, tmp_path: Path) -> None:
    Journal(tmp_path, "first").epoch(1, loss=0.5)
    Journal(tmp_path, "second").epoch(1, loss=0.6)
    text = exported(name, tmp_path, "first", "second")
    assert "first" in text
    assert "second" in text


@pytest.mark.parametrize("name", FORMATS)
def test_nan_never_breaks_it(name: str, tmp_path: Path) -> None:
    Journal(tmp_path).epoch(1, loss=float("nan"))
    assert "nan" in exported(name, tmp_path, "x")
