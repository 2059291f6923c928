from __future__ import annotations

import pytest

from epochal.series.goals import guess_goal


@pytest.mark.parametrize("name", ["accuracy", "val_acc", "eval/F1", "test.bleu", "top5"])
def test_more_is_better(name: str) -> None:
    assert guess_goal(name) == "max"


@pytest.mark.parametrize("name", ["eval/perplexity", "kd_loss", "wer"])
def test_less_is_better(name: str) -> None:
    assert guess_goal(name) == "min"


@pytest.mark.parametrize("name", ["lr", "accuracy/seconds", "", "lossless", "grads/w/norm"])
def test_of_others_nothing_is_known(name: str) -> None:
    assert guess_goal(name) is None
