"""Healthy trainings get no fail, planted faults are named, and every training stays as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from epochal.torch.preflight.registry import QUESTIONS
from tests.torch.preflight.asking import asked
from tests.torch.preflight.faults import FAULTS
from tests.torch.preflight.hugging_face import HUGGING_FACE
from tests.torch.preflight.trainings import HEALTHY, Training

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "preflight.md"


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("make", HEALTHY, ids=lambda make: make.__name__)
def test_a_healthy_training_has_no_fail_and_stays_as_it_was(make: Callable[[], Training]) -> None:
    result = asked(make())
    assert result.failed == {}
    assert result.changed == ()


@pytest.mark.parametrize("make", HUGGING_FACE, ids=lambda make: make.__name__)
def test_a_model_of_transformers_has_no_fail_and_stays_as_it_was(
    make: Callable[[object], Training],
) -> None:
    transformers = pytest.importorskip("transformers")
    assert asked(make(transformers)).failed == {}


@pytest.mark.parametrize(
    ("make", "question"), FAULTS, ids=lambda one: getattr(one, "__name__", one)
)
def test_a_planted_fault_is_named_by_its_question(
    make: Callable[[], Training], question: str
) -> None:
    assert question in asked(make()).failed


def test_each_question_has_a_planted_fault_and_is_described() -> None:
    names = [one.name for one in QUESTIONS]
    assert len(names) == 12
    assert {question for _, question in FAULTS} == set(names)
    assert re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M) == names


def test_the_questions_of_a_language_model_are_answered() -> None:
    training = HEALTHY[0]()
    training.options["optimizer"] = torch.optim.AdamW(training.model.parameters(), lr=1e-2)
    training.options["loader"] = [training.batch, (training.batch[1], training.batch[0])]
    answers = asked(training).answers
    assert {name: one.reason for name, one in answers.items() if one.state != "pass"} == {}
    assert answers["labels"].facts["offset"] == 1
    assert answers["positions"].facts["causal"] is True
    assert answers["overfit"].facts["own"] == 1e-2
