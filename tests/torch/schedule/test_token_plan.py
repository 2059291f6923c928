import pytest

from epochal.errors import UsageError
from epochal.torch.schedule.token_plan import token_budget


def test_twenty_tokens_to_a_parameter() -> None:
    budget = token_budget(124_000_000, planned_tokens=10_000_000_000, dataset_tokens=10**9)
    assert budget.optimal_tokens == 2_480_000_000
    assert budget.epochs == pytest.approx(2.48)
    assert budget.steps(524_288) == 4731
    assert budget.ratio == pytest.approx(4.03, abs=0.01)


@pytest.mark.parametrize(
    ("planned", "words"), [(100, "undertrained"), (2000, "The plan fits"), (9000, "larger model")]
)
def test_the_advice_follows_the_ratio(planned: int, words: str) -> None:
    assert words in token_budget(100, planned_tokens=planned).advice


def test_unknown_data_have_no_epochs() -> None:
    assert token_budget(1, planned_tokens=1).epochs is None


def test_nothing_planned_is_refused() -> None:
    with pytest.raises(UsageError, match="planned_tokens"):
        token_budget(1, planned_tokens=0)
