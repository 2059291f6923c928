from collections.abc import Sequence

from epochal.health.layer_series import StreakCounter
from epochal.health.rule import Verdict


def judge(ailing: StreakCounter) -> list[tuple[str, bool, str]]:
    def describe(names: Sequence[str]) -> Verdict:
        return Verdict(names[0], active=True, sentence=" ".join(names))

    return [(v.subject, v.active, v.sentence) for v in ailing.verdicts(str, describe)]


def test_a_part_ails_after_samples_in_a_row() -> None:
    ailing = StreakCounter(needed=2)
    ailing.note("a", ails=True, step=1)
    assert judge(ailing) == []
    ailing.note("a", ails=True, step=2)
    assert judge(ailing) == [("a", True, "a")]
    assert ailing.since("a") == 1


def test_the_one_that_is_named_stays_named_while_it_ails() -> None:
    ailing = StreakCounter(needed=1)
    ailing.note("b", ails=True, step=1)
    judge(ailing)
    ailing.note("a", ails=True, step=2)
    assert judge(ailing) == [("b", True, "b a")]
    ailing.note("b", ails=False, step=3)
    assert judge(ailing) == [("b", False, ""), ("a", True, "a")]


def test_all_clear_is_said_once() -> None:
    ailing = StreakCounter(needed=1)
    ailing.note("a", ails=True, step=1)
    judge(ailing)
    ailing.note("a", ails=False, step=2)
    assert judge(ailing) == [("a", False, "")]
    assert judge(ailing) == []
