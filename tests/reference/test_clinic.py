"""The rules find in the journals of the clinic what they found when the journals were kept.

One journal in twenty is replayed, and all of them with ``--thorough``.
"""

from __future__ import annotations

import json

import pytest

from benchmarks.clinic.journal import fault_of
from tests.reference.replay import FINDINGS, findings_of, journals

NAMES = journals()
EXPECTED = json.loads(FINDINGS.read_text(encoding="utf-8"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "journal" in metafunc.fixturenames:
        every = 1 if metafunc.config.getoption("--thorough") else 20
        metafunc.parametrize("journal", NAMES[::every])


def test_the_findings_are_those_of_the_reference(journal: str) -> None:
    assert findings_of(journal) == EXPECTED[journal], (
        "a rule reports something else than before: if that is better, run "
        "'python -m tests.reference.make --findings' and commit findings.json"
    )


def test_there_are_enough_journals() -> None:
    assert sorted(EXPECTED) == NAMES
    assert len(NAMES) >= 200
    assert sum(fault_of(name) == "healthy" for name in NAMES) >= 50
    assert len({fault_of(name) for name in NAMES}) >= 30
