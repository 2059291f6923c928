import random

from epochal.health.rules.gradients import GradientsAddUp
from epochal.records import Record
from tests.health.curve_records import flat, steps
from tests.health.machine_records import START, opened


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


def test_a_long_sum_is_smoother_than_the_loss_of_its_batches() -> None:
    losses = flat(300, 2.0, width=0.05)
    # It turns soon, and grows later: no sum by its first steps.
    norms = [1.0 + 0.05 * max(0, n - 60) for n in range(300)]
    norms = [norm * around for norm, around in zip(norms, flat(300, 1.0, width=1e-4), strict=True)]
    (found,) = opened(GradientsAddUp, steps(losses, norm=norms))
    assert "gradients add up" in found.sentence
    for every, is_found in ((5, True), (6, False)):
        sparse = [{**one, "step": every * one["step"]} for one in steps(losses, norm=norms)]
        assert bool(opened(GradientsAddUp, sparse)) == is_found
    # One batch for ever is smooth in both.
    smooth = flat(300, 2.0, width=1e-4)
    assert opened(GradientsAddUp, steps(smooth, norm=norms)) == []
    rough = [norm * around for norm, around in zip(norms, flat(300, 1.0, width=0.1), strict=True)]
    assert opened(GradientsAddUp, steps(losses, norm=rough)) == []


def test_gradients_that_rise_as_a_model_begins_to_learn_are_no_sum() -> None:
    norms = [0.113, 0.165, 0.208, 0.229, 0.274, 0.354, 0.467, 0.522, 0.443, 0.326, 0.256, 0.68]
    assert opened(GradientsAddUp, steps(flat(14, 2.0), norm=[*norms, 0.234, 0.314])) == []


def test_gradients_that_explode_are_no_sum() -> None:
    norms = [0.02 * (1 + 0.8 * n**2) for n in range(60)]
    assert opened(GradientsAddUp, steps(flat(60, 2.0), norm=norms)) == []
    slow = [0.0196, 0.0215, 0.0252, 0.0337, 0.0492, 0.0665, 0.0964, 0.129, 0.171, 0.224]
    assert opened(GradientsAddUp, steps(flat(10, 2.0), norm=slow)) == []


def event(name: str, **fields: object) -> Record:
    return {"log": "event", "t": START, "name": name, **fields}


def test_what_a_watched_model_tells_is_the_one_finding() -> None:
    told = event("gradients-kept", at_step=5, parameter="0.weight", steps=5)
    (found,) = opened(GradientsAddUp, [told, *steps(flat(100, 2.0), norm=summed(100))])
    assert (found.severity, found.steps) == ("warning", (0, 5))
    assert "5 steps in a row, up to step 5, began with the gradients" in found.sentence
    assert "optimizer.zero_grad()" in found.advice


def test_it_joins_the_finding_of_the_norm() -> None:
    told = event("gradients-kept", at_step=90, parameter="0.weight", steps=5)
    assert len(opened(GradientsAddUp, [*steps(flat(100, 2.0), norm=summed(100)), told])) == 1
    assert opened(GradientsAddUp, [event("no-optimizer-step", passes=200)]) == []
