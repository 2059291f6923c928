"""What no rule has met can be judged alone, and faults are drawn from nothing else then."""

from __future__ import annotations

import pytest

from benchmarks.health.__main__ import main
from benchmarks.health.families import families
from benchmarks.health.families.heldout import NEWEST
from benchmarks.health.faults import sicknesses
from benchmarks.health.generate import sick_case, sick_cases
from benchmarks.health.report import judge


def test_newest_families_are_some_of_those_held_out() -> None:
    names = families(heldout=True).keys()
    assert set(NEWEST) < names
    assert len(set(NEWEST)) == len(NEWEST)


def test_only_newest_families_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--newest", "--family", "scenes"])
    assert f"no family scenes; there are {', '.join(NEWEST)}\n" in capsys.readouterr().err


def test_sick_runs_are_drawn_from_the_families_named() -> None:
    sickness = sicknesses()["clock-anomaly"]
    drawn = {one.family for one in sick_cases(sickness, count=12, heldout=True, among=NEWEST)}
    assert len(drawn) > 1
    assert drawn <= set(NEWEST)


def test_naming_all_families_draws_what_naming_none_does() -> None:
    sickness, names = sicknesses()["divergence"], list(families(heldout=True))
    one = sick_case(sickness, seed=3, heldout=True)
    assert one == sick_case(sickness, seed=3, heldout=True, among=names)


def test_the_judge_draws_from_the_families_named() -> None:
    # A loss that never falls has no divergence, so that there is nothing to draw.
    with pytest.raises(LookupError, match="no run of reinforcement can have"):
        judge(
            heldout=False,
            family_names=[],
            rules=["divergence"],
            steps=1500,
            cases=1,
            jobs=1,
            tell=print,
            among=["reinforcement"],
        )


@pytest.mark.parametrize("rule", sicknesses())
def test_every_class_of_faults_can_be_drawn_from_newest_families(rule: str) -> None:
    assert sick_case(sicknesses()[rule], seed=2, heldout=True, among=NEWEST).family in NEWEST
