from epochal.health.rules.advice_cuts import AdviceCuts
from epochal.record import Record
from tests.health.machine_records import START, noisy, opened, step


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
    assert "cut for good 2 times, last at step 300" in found.sentence


def test_cuts_that_help_are_left_alone() -> None:
    losses = [2.0] * 300 + [2.0 - n / 400 for n in range(500)]
    assert opened(AdviceCuts, run(losses, (200, 300))) == []


def test_cuts_that_come_back_do_not_count() -> None:
    assert opened(AdviceCuts, run([2.0] * 800, (200, 300), "temporary")) == []
