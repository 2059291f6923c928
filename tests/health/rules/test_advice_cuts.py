import random

import pytest

from epochal.health.rules.advice_cuts import AdviceCuts
from epochal.records import Record
from tests.health.machine_records import START, noisy, opened, step, updated


def run(losses: list[float], cuts: tuple[int, ...], kind: str = "permanent") -> list[Record]:
    noise = noisy(1.0, 0.01, len(losses))
    records: list[Record] = []
    for n, loss in enumerate(losses):
        if n in cuts:
            event = {"log": "event", "name": "lr-cut", "kind": kind, "at_step": n}
            records.append({**event, "t": START + n, "step": n})
        records.append(step(n, loss=loss * noise[n], lr=1e-3))
    return records


def test_cuts_that_do_not_help_are_said_so() -> None:
    found, *_ = opened(AdviceCuts, run([2.0] * 800, (200, 300)))
    assert (
        "cut permanently 2 times, last at step 300, and the loss has not fallen" in found.sentence
    )
    assert found.severity == "info"


def test_a_loss_that_stays_up_is_a_warning() -> None:
    found, *more = opened(AdviceCuts, run([2.0] * 220 + [3.0] * 500, (230, 300)))
    assert (found.severity, more) == ("warning", [])
    assert "is higher than before the first: 2.0" in found.sentence


def test_a_loss_that_came_down_with_the_last_cut_was_helped() -> None:
    assert opened(AdviceCuts, run([2.0] * 220 + [3.0] * 80 + [2.0] * 500, (230, 300))) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_loss_that_falls_with_spikes_is_left_alone(seed: int) -> None:
    chance = random.Random(seed)
    losses = [(2 + 8 * (n + 10) ** -0.4) * (1 + 0.01 * chance.gauss(0, 1)) for n in range(1200)]
    for spike in (300, 400, 500, 600):
        losses[spike] *= 4
    assert opened(AdviceCuts, run(losses, (500, 600))) == []


def test_noise_that_may_hide_a_fall_is_no_standstill() -> None:
    chance = random.Random(1)
    assert opened(AdviceCuts, run([2 + chance.gauss(0, 1) for _ in range(800)], (200, 300))) == []


def test_it_is_said_once_and_closed_by_a_fall() -> None:
    losses = [2.0] * 800 + [2.0 - n / 1000 for n in range(600)]
    said = updated(AdviceCuts, run(losses, (200, 300)))
    assert [finding.state for finding in said] == ["open", "closed"]


def test_cuts_that_help_are_left_alone() -> None:
    losses = [2.0] * 300 + [2.0 - n / 400 for n in range(500)]
    assert opened(AdviceCuts, run(losses, (200, 300))) == []


def test_cuts_that_come_back_do_not_count() -> None:
    assert opened(AdviceCuts, run([2.0] * 800, (200, 300), "temporary")) == []
