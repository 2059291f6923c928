from epochal.health.rules.advice_rate_room import AdviceRateRoom
from epochal.records import Record
from tests.health.machine_records import noisy, opened, step, updated


def run(losses: list[float], *, warmup: int = 60) -> list[Record]:
    noise = noisy(1.0, 0.005, len(losses))
    return [
        step(n, loss=loss * noise[n], norm=1.0, lr=1e-3 * min(1.0, (n + 1) / warmup))
        for n, loss in enumerate(losses)
    ]


def test_a_loss_held_back_by_the_rate_leaves_room() -> None:
    # The rate grows linearly, and so does the speed of the fall.
    found, *_ = opened(AdviceRateRoom, run([8 * 0.99 ** (n * n / 60) for n in range(100)]))
    assert found.severity == "info"
    assert "a peak rate of 1.5 times" in found.advice


def test_a_loss_that_falls_ever_slower_is_the_usual_picture() -> None:
    assert opened(AdviceRateRoom, run([2 + 8 * (1 + n / 20) ** -0.7 for n in range(500)])) == []


def test_without_a_warm_up_nothing_is_said() -> None:
    losses = [8 * 0.99 ** (n * n / 60) for n in range(100)]
    assert opened(AdviceRateRoom, run(losses, warmup=1)) == []


def test_it_is_said_once_and_closes() -> None:
    losses = [8 * 0.99 ** (min(n, 80) ** 2 / 60) for n in range(500)]
    assert [f.state for f in updated(AdviceRateRoom, run(losses))] == ["open", "closed"]
