from collections.abc import Mapping

from epochal.health.rules.layers import InitScale
from epochal.records import Record
from tests.health.curve_records import falling, steps
from tests.health.machine_records import START, metrics, opened


def first(weight: float, *, updates: Mapping[str, float] | None = None) -> list[Record]:
    """The first watched step of three layers with biases of norm 1."""
    norms = {f"params/{layer}.weight/norm": weight for layer in "abc"}
    norms |= {f"params/{layer}.bias/norm": 1.0 for layer in "abc"}
    for layer in "abc":
        norms |= {f"update_ratio/{layer}.{n}": v for n, v in (updates or {}).items()}
    return [metrics(0, norms)]


def test_torch_defaults_are_fine() -> None:
    records = first(8.0, updates={"weight": 0.01, "bias": 0.01})
    assert opened(InitScale, records, config={"optimizer": "adam"}) == []


def test_a_first_loss_far_above_guessing_is_a_warning() -> None:
    losses = [120 * 0.85**n + 2.2 for n in range(60)]
    (found,) = opened(InitScale, steps(losses), config={"num_classes": 10})
    assert "guessing among 10 classes" in found.sentence


def test_a_first_loss_near_guessing_is_fine() -> None:
    losses = falling(100, start=2.5, floor=0.5)
    assert opened(InitScale, steps(losses), config={"num_classes": 10}) == []


def test_a_sum_over_the_batch_is_another_matter() -> None:
    losses = [64 * value for value in falling(100, start=2.3, floor=0.9)]
    assert opened(InitScale, steps(losses), config={"num_classes": 10, "batch_size": 64}) == []


def test_a_loss_that_converges_at_one_speed_is_fine() -> None:
    losses = [25 * 0.64**n for n in range(80)]
    assert opened(InitScale, steps(losses)) == []


def test_biases_that_were_set_to_almost_nothing_say_nothing_about_their_weights() -> None:
    records = first(4.0, updates={"weight": 0.001, "bias": 90.0})
    for name in records[0]["m"]:
        if name.endswith("bias/norm"):
            records[0]["m"][name] = 1e-5
    assert opened(InitScale, records, config={"optimizer": "adamw"}) == []


def test_a_loss_of_several_terms_may_start_at_five_times_that_of_guessing() -> None:
    losses = [10.4 * 0.95**n for n in range(60)]
    assert opened(InitScale, steps(losses), config={"num_classes": 8}) == []


def drawn(scale: float, at_step: int = 0) -> list[Record]:
    fields = {"at_step": at_step, "parameter": "a.weight", "parameters": 6, "scale": scale}
    return [
        metrics(0, {"loss": 1.0}),
        {"log": "event", "t": START, "name": "initial-scale", **fields},
    ]


def test_elements_far_from_what_torch_draws_are_a_warning() -> None:
    (large,) = opened(InitScale, drawn(17.2))
    assert (
        "median of 6 layers their elements are 17 times as large as torch draws" in large.sentence
    )
    (small,) = opened(InitScale, drawn(0.001))
    assert "are 1/1,000 of what torch draws: the initialisation is too small" in small.sentence
    assert opened(InitScale, drawn(4.0)) == []
    assert opened(InitScale, drawn(17.2, at_step=100)) == []
