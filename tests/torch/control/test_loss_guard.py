import math
import random
from pathlib import Path

import pytest

import epochal
from epochal.errors import UsageError, ValueTypeError
from epochal.torch.control.loss_guard import LossGuard
from epochal.torch.schedule.formulas import ConstantLR
from tests.doubles.journals import of_kind


def guard(**more: float) -> LossGuard:
    """A guard that acts, and takes one jump for a reason."""
    return LossGuard(inner=ConstantLR(1e-3), acts=True, **{"lasting": 1, **more})  # type: ignore[arg-type]


def train(guarded: LossGuard, *, steps: int, first: int = 0) -> None:
    rng = random.Random(first)
    for step in range(first, first + steps):
        loss = 2 + (step + 10) ** -0.3 + rng.gauss(0, 0.02)
        assert guarded.observe(step, loss, norm=1 + abs(rng.gauss(0, 0.3))) is None


def test_a_healthy_training_keeps_its_rate() -> None:
    guarded = guard()
    train(guarded, steps=5000)
    assert guarded.lr(5000) == 1e-3


def test_a_jump_halves_the_rate_which_comes_back() -> None:
    guarded = guard()
    train(guarded, steps=200)
    cut = guarded.observe(200, 9.0, norm=1.0)
    assert cut is not None
    assert (cut.kind, cut.lr_before, cut.lr_after) == ("temporary", 1e-3, 5e-4)
    assert guarded.lr(200) == 1e-3
    assert guarded.lr(201) == 5e-4
    assert guarded.lr(226) == pytest.approx(7.5e-4)
    assert guarded.lr(251) == 1e-3


def test_a_jump_of_the_gradient_counts() -> None:
    guarded = guard()
    train(guarded, steps=200)
    cut = guarded.observe(200, 2.0, norm=50.0)
    assert cut is not None
    assert "gradient norm jumped to 50" in cut.reason


def test_the_third_cut_stays_and_there_is_an_end_to_cuts() -> None:
    guarded = guard(cooldown=0, most_permanent=2)
    train(guarded, steps=100)
    kinds = []
    for step in range(100, 110):
        cut = guarded.observe(step, math.nan)
        kinds.append(None if cut is None else cut.kind)
    assert kinds == ["temporary"] * 2 + ["permanent"] * 2 + [None] * 6
    assert guarded.lr(1000) == pytest.approx(1e-3 / 4)


def test_a_jump_does_not_raise_what_is_usual() -> None:
    guarded = guard(cooldown=0)
    train(guarded, steps=200)
    assert all(guarded.observe(200 + i, 9.0) is not None for i in range(5))


def test_one_batch_that_stands_out_is_no_reason() -> None:
    guarded = LossGuard(inner=ConstantLR(1e-3))
    train(guarded, steps=200)
    assert guarded.observe(200, 9.0) is None
    train(guarded, steps=50, first=201)
    assert [guarded.observe(251 + i, 9.0) is None for i in range(3)] == [True, True, False]


def test_cuts_that_help_come_back_however_many() -> None:
    guarded = guard(cooldown=5)
    train(guarded, steps=200)
    for n in range(6):
        cut = guarded.observe(200 + 50 * n, 9.0)
        assert cut is not None
        assert cut.kind == "temporary"
        train(guarded, steps=49, first=201 + 50 * n)
    assert guarded.lr(600) == 1e-3


def test_nothing_is_judged_for_a_while_after_a_cut() -> None:
    guarded = guard(cooldown=10)
    train(guarded, steps=200)
    assert guarded.observe(200, 9.0) is not None
    assert guarded.observe(205, 9.0) is None
    assert guarded.observe(206, math.inf) is not None


def test_it_goes_on_after_a_resume() -> None:
    before = guard()
    train(before, steps=200)
    before.observe(200, 9.0)
    after = guard()
    after.load_state_dict(before.state_dict())
    assert [after.lr(step) for step in (200, 201, 230, 300)] == [
        before.lr(step) for step in (200, 201, 230, 300)
    ]
    assert after.cuts == before.cuts


def test_a_cut_is_an_event_of_the_run(tmp_path: Path) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False)
    run.log({"loss": math.nan}, step=3)
    guard().observe(3, math.nan)
    run.finish()
    (event,) = [e for e in of_kind(run.dir, "event") if e["name"] == "lr-cut"]
    assert (event["kind"], event["at_step"], event["lr_after"]) == ("temporary", 3, 5e-4)


def test_a_guard_that_was_not_asked_to_act_reports_and_changes_nothing(tmp_path: Path) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False)
    guarded = LossGuard(inner=ConstantLR(1e-3))
    cut = guarded.observe(3, math.nan)
    assert cut is not None
    assert (cut.kind, cut.lr_before, cut.lr_after) == ("reported", 1e-3, 1e-3)
    assert guarded.lr(4) == 1e-3
    assert [guarded.observe(step, math.nan) for step in range(4, 300)] == [None] * 296
    after = LossGuard(inner=ConstantLR(1e-3))
    after.load_state_dict(guarded.state_dict())
    assert (after.cuts, after.lr(4)) == (guarded.cuts, 1e-3)
    run.finish()
    (event,) = [e for e in of_kind(run.dir, "event") if e["name"] in ("lr-cut", "loss-jump")]
    assert (event["name"], event["reason"], event["at_step"]) == ("loss-jump", "the loss is nan", 3)


@pytest.mark.parametrize("wrong", [{"factor": 1.0}, {"warmup": 200}, {"norm_factor": 1.0}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        guard(**wrong)


@pytest.mark.parametrize("wrong", [(0, "x"), (0, 1.0, "x"), ("x", 1.0), (0.5, 1.0)])
def test_what_is_observed_must_be_numbers(wrong: tuple[object, ...]) -> None:
    with pytest.raises(ValueTypeError, match="must be"):
        guard().observe(*wrong)  # type: ignore[arg-type]


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(UsageError, match="lacks losses, norms, quiet_until, cuts"):
        guard().load_state_dict({})
    with pytest.raises(ValueTypeError, match="got list"):
        guard().load_state_dict([])  # type: ignore[arg-type]
