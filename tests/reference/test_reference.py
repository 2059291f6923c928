"""The server and the commands answer about the reference as they did when it was made.

README.md says how it was made, and when an answer may change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epochal.server.endpoints import ENDPOINTS
from epochal.store.local.by_path import load_run
from tests.reference.gather import ANSWERS, REQUESTS, gather

NAMES = sorted(path.stem for path in ANSWERS.glob("*.json"))
# Endpoints that are asked in another way than by an address in REQUESTS. What /api/plotly answers
# depends on the package that is installed.
ASKED_ELSEWHERE = {
    *("page", "events", "epoch_events", "labels", "many_labels", "remove", "restore"),
    *("request_control", "plotly", "remove_board"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reference").resolve()


@pytest.fixture(scope="module")
def answers(root: Path) -> dict[str, Any]:
    return gather(root)


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_that_of_the_reference(name: str, answers: dict[str, Any]) -> None:
    expected = json.loads((ANSWERS / f"{name}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(answers[name]))
    assert list(differences(expected, found, name)) == []


def test_every_answer_is_compared(answers: dict[str, Any]) -> None:
    assert sorted(answers) == NAMES


def test_every_endpoint_is_asked() -> None:
    asked = [address.partition("?")[0].split("/") for address in REQUESTS.values()]
    for endpoint in ENDPOINTS:
        parts = endpoint.path.split("/")
        assert endpoint.name in ASKED_ELSEWHERE or any(
            len(parts) == len(one)
            and all(p == o or p.startswith("{") for p, o in zip(parts, one, strict=True))
            for one in asked
        ), endpoint.path


def test_a_sealed_part_holds_the_records_of_its_lines(root: Path, answers: object) -> None:
    kept = sorted((root / "lines").rglob("*.jsonl"))
    assert kept
    for path in kept:
        run = load_run(root / "runs" / path.parent.relative_to(root / "lines"))
        stem = path.stem.split(".")
        found = [
            record
            for at, record in run.records()
            if [at.writer, f"{at.attempt:04}", f"{at.part:04}"] == stem
        ]
        expected = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert found == expected, path


def differences(expected: Any, found: Any, where: str) -> Iterator[str]:
    """Where two answers differ; numbers may differ in their last digits."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            if key not in found:
                yield f"{where}.{key} is gone"
            elif key not in expected:
                yield f"{where}.{key} is new"
            else:
                yield from differences(expected[key], found[key], f"{where}.{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{where} has {len(found)} items, not {len(expected)}"
        for place, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from differences(one, other, f"{where}[{place}]")
    elif not is_same(expected, found):
        yield f"{where}: {expected!r:.100}, now {found!r:.100}"


def is_same(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-12)
    return type(expected) is type(found) and bool(expected == found)
