import math
import random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.health.phase import Phase, PhaseDetector


def phase_of(losses: list[float]) -> str:
    detector = PhaseDetector()
    for step, loss in enumerate(losses):
        detector.observe(step, loss)
    return detector.phase


def noise(seed: int, size: float, count: int) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(0, size) for _ in range(count)]


def test_it_warms_up_first() -> None:
    assert phase_of([3.0] * 40) == "warm-up"


@pytest.mark.parametrize("scale", [1e-6, 1.0, -1e6])
def test_a_falling_loss_converges_whatever_its_scale(scale: float) -> None:
    falling = [abs(scale) * (3 - step / 100) + scale for step in range(250)]
    assert (
        phase_of([a + abs(scale) * b for a, b in zip(falling, noise(1, 0.1, 250), strict=True)])
        == "converging"
    )


def test_a_flat_loss_is_a_plateau() -> None:
    falling = [3 - step / 100 for step in range(200)] + [1.0] * 400
    assert phase_of([a + b for a, b in zip(falling, noise(2, 0.1, 600), strict=True)]) == "plateau"


def test_a_rising_loss_diverges() -> None:
    course = [3 - step / 100 for step in range(200)] + [1 + step / 100 for step in range(150)]
    assert phase_of([a + b for a, b in zip(course, noise(3, 0.1, 350), strict=True)]) == "diverging"


@pytest.mark.parametrize("slope", [0.0002, 0.002, 0.01])
def test_a_loss_that_climbs_steadily_goes_on_diverging(slope: float) -> None:
    detector = PhaseDetector()
    around = noise(6, 0.02, 4000)
    course = [2 + 8 * (step + 10) ** -0.4 for step in range(1000)]
    course += [2.5 + step * slope for step in range(3000)]
    phases = [detector.observe(step, loss + around[step]) for step, loss in enumerate(course)]
    assert phases[2000:].count("diverging") > 0.9 * 2000


def test_a_loss_that_stays_far_up_diverges_until_it_falls() -> None:
    detector = PhaseDetector()
    around = noise(7, 0.05, 2000)
    course = [2 + 8 * (step + 10) ** -0.4 for step in range(700)] + [5.0] * 500
    course += [5.0 - step / 400 for step in range(800)]
    phases = [detector.observe(step, loss + around[step]) for step, loss in enumerate(course)]
    assert set(phases[720:1200]) == {"diverging"}
    assert set(phases[1300:]) == {"converging"}


def test_a_loss_that_fell_by_decades_diverges_when_it_triples() -> None:
    falling = [10 * 0.99**step for step in range(1000)]
    rising = [falling[-1] * (1 + step / 100) for step in range(200)]
    assert phase_of(falling + rising) == "diverging"


def test_swings_that_are_undone_again_and_again_are_no_divergence() -> None:
    detector = PhaseDetector()
    around = noise(8, 0.02, 4000)
    swings = [1 + 0.3 * math.sin(step / 60) + around[step] for step in range(4000)]
    phases = [detector.observe(step, loss) for step, loss in enumerate(swings)]
    assert phases[1500:].count("diverging") < 0.02 * 2500


@pytest.mark.parametrize("factor", [2, 4, 100])
def test_losses_that_stand_out_singly_change_nothing(factor: int) -> None:
    spiky, plain = PhaseDetector(), PhaseDetector()
    around = noise(9, 0.02, 1000)
    for step in range(1000):
        loss = 2 + 8 * (step + 10) ** -0.4 + around[step]
        is_spike = step in (300, 400, 500, 600)
        assert spiky.observe(step, loss * factor if is_spike else loss) == plain.observe(step, loss)


def test_losses_that_stand_out_often_are_unstable() -> None:
    around = noise(9, 0.02, 600)
    losses = [2 + value for value in around]
    losses[560::10] = [8.0] * 4
    assert phase_of(losses) == "unstable"


def test_a_bend_without_noise_is_not_unstable() -> None:
    detector = PhaseDetector()
    course = [2 + 8 * (step + 10) ** -0.4 for step in range(1000)]
    course += [course[-1] + step * 0.002 for step in range(1000)]
    assert "unstable" not in {detector.observe(step, loss) for step, loss in enumerate(course)}


def test_noise_far_beyond_the_usual_is_unstable() -> None:
    assert phase_of([1 + n for n in noise(4, 0.01, 400)] + [1 + n for n in noise(5, 0.1, 50)]) in (
        "unstable",
        "diverging",
    )


def test_a_loss_that_is_not_finite_diverges() -> None:
    assert phase_of([1.0] * 5 + [float("nan")]) == "diverging"


def test_a_single_loss_that_is_not_finite_is_soon_forgotten() -> None:
    assert phase_of([1.0] * 5 + [float("nan"), 1.0]) == "warm-up"


def test_a_cut_forgets_what_came_after() -> None:
    detector = PhaseDetector()
    for step in range(300):
        detector.observe(step, 3 - step / 100 if step < 250 else 50.0)
    detector.forget_from(250)
    for step in range(250, 310):
        phase = detector.observe(step, 3 - step / 100)
    assert phase == "converging"


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_fall_under_noise_is_mostly_said_to_converge(seed: int) -> None:
    detector = PhaseDetector()
    around = noise(seed, 0.12, 600)
    losses = [0.8 + 1.5 * (1 + step / 60) ** -0.7 + around[step] for step in range(600)]
    phases = [detector.observe(step, loss) for step, loss in enumerate(losses)]
    assert phases.count("plateau") < 60


@pytest.mark.parametrize("seed", range(5))
def test_a_plateau_is_known_for_one_in_time(seed: int) -> None:
    detector = PhaseDetector()
    around = noise(seed, 0.1, 4000)
    course = [max(1.0, 3 - step / 500) + around[step] for step in range(4000)]
    phases = [detector.observe(step, loss) for step, loss in enumerate(course)]
    assert phases[200:1000].count("converging") > 700
    assert phases[1700:].count("plateau") > 0.9 * 2300


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=True, allow_infinity=True), st.integers(1, 40), st.integers(0, 60)
        ),
        max_size=30,
    )
)
def test_no_losses_and_no_resumes_are_too_much_for_it(
    stretches: list[tuple[float, int, int]],
) -> None:
    detector = PhaseDetector()
    step = 0
    for loss, count, back in stretches:
        for _ in range(count):
            assert detector.observe(step, loss) in get_args(Phase)
            step += 1
        step = max(0, step - back)
        detector.forget_from(step)


def test_the_warm_up_is_over_after_its_points() -> None:
    assert phase_of([3.0] * 50) == "warm-up"
    assert phase_of([3.0] * 51) == ""


def test_a_short_run_is_not_warming_up_to_its_end() -> None:
    detector = PhaseDetector(total=40)
    said = [detector.observe(step, 3.0 - 0.01 * step) for step in range(40)]
    assert said == ["warm-up"] * 4 + [""] * 36
