"""Fault packs, as somebody writes and runs one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.clinic.pack import PackError, check_digest, keep_digest, load_pack
from benchmarks.clinic.plan import trainings_of_pack

TASKS = """
from benchmarks.clinic.tasks import TASKS as KNOWN

class Small(KNOWN["friedman"]):
    name = "small"

TASKS = [Small]
"""
FAULTS = """
from benchmarks.clinic.faults import Fault

def slow(setup):
    setup.lr /= 1000

FAULTS = [Fault("crawl", "the learning rate is 1,000 times too low", slow)]
"""
CRITERIA = {"crawl": {"rules": ["lr-too-low"], "words": ["rate.*low"]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "faults.py").write_text(FAULTS)
    (tmp_path / "criteria.json").write_text(json.dumps(CRITERIA))
    return tmp_path


def test_a_pack_has_its_own_trainings(folder: Path) -> None:
    pack = load_pack(folder)
    ids = [training.id for training in trainings_of_pack(pack.tasks, pack.faults)]
    assert ids == [*(f"small-healthy-{n}" for n in range(3)), "small-crawl-0", "small-crawl-1"]
    assert pack.accepted["crawl"].rules == ("lr-too-low",)


def test_criteria_are_written_before_the_results(folder: Path) -> None:
    out = folder / "out"
    with pytest.raises(PackError, match="before the results"):
        check_digest(load_pack(folder), out)
    keep_digest(load_pack(folder), out)
    check_digest(load_pack(folder), out)
    (folder / "criteria.json").write_text(json.dumps({"crawl": {"rules": ["plateau"]}}))
    with pytest.raises(PackError, match="before the results"):
        keep_digest(load_pack(folder), out)


def test_a_fault_without_criteria_and_a_known_name_are_refused(folder: Path) -> None:
    (folder / "criteria.json").write_text("{}")
    with pytest.raises(PackError, match="crawl"):
        load_pack(folder)
    (folder / "criteria.json").write_text(json.dumps(CRITERIA))
    (folder / "tasks.py").write_text(TASKS.replace('name = "small"', 'name = "friedman"'))
    with pytest.raises(PackError, match="friedman"):
        load_pack(folder)
