import random

from epochal.health.rules.gradients_add_up import GradientsAddUp
from tests.health.curve_records import flat, steps
from tests.health.machine_records import opened


def summed(count: int, *, agree: float = 0.6, seed: int = 0) -> list[float]:
    """The norms of sums of gradients that agree in a direction and are noise in twenty others."""
    chance = random.Random(seed)
    total = [0.0] * 21
    norms = []
    for _ in range(count):
        total = [t + chance.gauss(agree * (n == 0), 0.15) for n, t in enumerate(total)]
        norms.append(sum(t * t for t in total) ** 0.5)
    return norms


def test_a_norm_that_grows_as_a_sum_does_is_a_warning() -> None:
    (found,) = opened(GradientsAddUp, steps(flat(100, 2.0), norm=summed(100)))
    assert found.severity == "warning"
    assert "zero_grad" in found.advice


def test_norms_of_single_batches_are_fine() -> None:
    assert opened(GradientsAddUp, steps(flat(200, 2.0), norm=flat(200, 1.0, width=0.2))) == []


def test_norms_that_grow_from_batch_to_batch_are_fine() -> None:
    norms = [0.05 * (1 + 0.4 * n) * value for n, value in enumerate(flat(100, 1.0, width=0.2))]
    assert opened(GradientsAddUp, steps(flat(100, 2.0), norm=norms)) == []


def test_a_smooth_norm_that_stays_is_fine() -> None:
    assert opened(GradientsAddUp, steps(flat(100, 2.0), norm=1.0)) == []


def test_a_sum_that_turns_soon_is_found_at_once() -> None:
    norms = [12.9, 20.3, 32.1, 39.9, 45.5, 49.4, 52.2, 52.6, 50.6, 46.6, 41.8, 37.3]
    (found,) = opened(GradientsAddUp, steps(flat(12, 2.0), norm=norms))
    assert "step 7" in found.sentence
