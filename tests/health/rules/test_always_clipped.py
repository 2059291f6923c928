from epochal.health.rules.gradients import AlwaysClipped
from tests.health.curve_records import falling, flat, steps
from tests.health.machine_records import opened


def test_norms_far_above_the_limit_are_noted_then_warned_of() -> None:
    norms = flat(800, 10.0, width=0.2)
    found = opened(AlwaysClipped, steps(falling(800), norm=norms, norm_clipped=1.0))
    assert [finding.severity for finding in found] == ["info", "warning"]
    assert "100 % of the last 100 steps" in found[0].sentence


def test_clipping_now_and_then_is_healthy() -> None:
    norms = flat(2000, 0.8, width=0.25)
    clipped = [min(norm, 1.0) for norm in norms]
    assert opened(AlwaysClipped, steps(falling(2000), norm=norms, norm_clipped=clipped)) == []


def test_norms_of_three_times_the_limit_are_only_noted() -> None:
    norms = flat(800, 3.5, width=0.2)
    found = opened(AlwaysClipped, steps(falling(800), norm=norms, norm_clipped=1.0))
    assert {finding.severity for finding in found} == {"info"}


def test_an_optimizer_that_divides_by_the_size_of_gradients_is_only_told() -> None:
    records = steps(falling(800), norm=flat(800, 20.0, width=0.2), norm_clipped=1.0)
    found = opened(AlwaysClipped, records, config={"optimizer": "Adafactor"})
    assert {finding.severity for finding in found} == {"info"}
    assert opened(AlwaysClipped, records, config={"optimizer": "SGD"})[-1].severity == "warning"
