import math
import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from epochal.health.engine import Health
from epochal.health.rate_limiter import MOST_A_SECOND, RateLimiter, Sample
from epochal.records import Record


def passed(rate: float, *, seconds: int = 10, names: tuple[str, ...] = ("loss",)) -> int:
    limiter = RateLimiter()
    records = [
        {"log": "metrics", "t": 1000 + i / rate, "step": i, "m": dict.fromkeys(names, 1.0)}
        for i in range(int(rate * seconds))
    ]
    return len(limiter.accepted(records, 0))


def test_a_run_of_ordinary_speed_passes_whole() -> None:
    assert passed(20) == 200
    assert passed(MOST_A_SECOND) == 10 * MOST_A_SECOND


def test_a_flood_is_thinned_to_the_limit() -> None:
    assert passed(10_000) < 10 * 4 * MOST_A_SECOND


def test_records_of_one_moment_are_thinned_as_well() -> None:
    limiter = RateLimiter()
    record = {"log": "metrics", "t": 5.0, "m": {"loss": 1.0}}
    assert len(limiter.accepted([record] * 100_000, 0)) < 5000


def test_what_is_rare_or_not_finite_passes() -> None:
    limiter = RateLimiter()
    for i in range(50_000):
        limiter.accepted([{"log": "metrics", "t": 5.0, "step": i, "m": {"loss": 1.0}}], 0)
    assert limiter.accepted([{"log": "metrics", "t": 5.0, "m": {"val/loss": 1.0}}], 0)
    assert limiter.accepted([{"log": "metrics", "t": 5.0, "m": {"loss": 1.0}}], 1)
    nan = {"log": "metrics", "t": 5.0, "m": {"loss": None}, "nonfinite": {"loss": "nan"}}
    assert limiter.accepted([nan], 0)
    assert limiter.accepted([{"log": "event", "t": 5.0, "name": "x"}], 0)


def test_a_flood_that_ends_passes_whole_again() -> None:
    limiter = RateLimiter()
    for i in range(5000):
        limiter.accepted([{"log": "step", "t": 10 + i / 5000, "step": i}], 0)
    slow = [limiter.accepted([{"log": "step", "t": 20.0 + i, "step": i}], 0) for i in range(40)]
    assert all(slow[20:])


def test_a_thinned_run_gives_no_findings_about_its_steps() -> None:
    health = Health()
    found = [
        finding
        for i in range(60_000)
        for finding in health.feed(
            {"log": "metrics", "t": 100 + i / 5000, "step": i, "m": {"loss": 1 + 1 / (i + 1)}}
        )
        if finding.severity != "info"
    ]
    assert found == []


def test_records_thinned_many_at_a_time_are_those_that_are_fed_one_by_one() -> None:
    records = [
        {"log": "metrics", "t": 100 + i / 2000, "step": i, "m": {"loss": 1.0 if i % 7 else 50.0}}
        for i in range(6000)
    ]
    one_by_one, at_once = Health(), Health()
    fed = [finding for record in records for finding in one_by_one.feed(record)]
    passed = [sample for i in range(0, 6000, 500) for sample in at_once.thin(records[i : i + 500])]
    assert 0 < sum(not sample.is_extreme for sample in passed) < 3000
    assert [finding for sample in passed for finding in at_once.judge(sample)] == fed
    assert at_once.context.step == one_by_one.context.step


def extremes_of(records: list[Record], *names: str) -> set[int]:
    """The steps with the smallest and the largest value of each series."""
    return {
        pick(records, key=lambda record: record["m"][name])["step"]
        for name in names
        if records
        for pick in (min, max)
    }


def test_the_extremes_of_each_skipped_interval_pass_in_order() -> None:
    chance = random.Random(0)
    records: list[Record] = [{"log": "define", "t": 0.0, "name": "energy", "role": "loss"}]
    for i in range(20_000):
        values = {name: chance.random() for name in ("energy", "val/loss", "grad_norm", "other")}
        records.append({"log": "metrics", "t": 100 + i / 10_000, "step": i, "m": values})
    limiter = RateLimiter()
    samples = limiter.accepted(records, 0)[1:]
    steps = [sample.record["step"] for sample in samples]
    assert steps == sorted(set(steps))
    assert (limiter.num_accepted, limiter.num_records) == (len(samples), 20_000)
    regular = [-1] + [sample.record["step"] for sample in samples if not sample.is_extreme]
    for before, after in pairwise(regular):
        skipped = records[before + 2 : after + 1]
        passed = {s.record["step"] for s in samples if before < s.record["step"] < after}
        assert passed == extremes_of(skipped, "energy", "val/loss", "grad_norm")
    ((rank, rest),) = limiter.rest()
    skipped = records[regular[-1] + 2 :]
    assert (rank, {sample.record["step"] for sample in rest}) == (
        0,
        extremes_of(skipped, "energy", "val/loss", "grad_norm"),
    )


def test_a_value_that_is_not_finite_passes_unmarked_by_the_journal() -> None:
    records = [
        {"log": "step", "t": 5.0, "step": i, "loss": math.nan if i == 40_001 else 1.0}
        for i in range(50_000)
    ]
    samples = RateLimiter().accepted(records, 0)
    assert [s.is_extreme for s in samples if s.record["step"] == 40_001] == [False]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 900)), min_size=1, max_size=8),
    st.integers(1, 700),
)
def test_records_pass_in_pieces_as_they_do_at_once(
    seconds: list[tuple[int, int]], size: int
) -> None:
    records: list[Record] = []
    second = 1000
    for later, count in seconds:
        second += later
        records += [
            {
                "log": "metrics",
                "t": second + i / 1000,
                "step": i,
                "m": {"loss": i * 7 % 97, "lr": 1},
            }
            for i in range(count)
        ]
    in_pieces, at_once = RateLimiter(), RateLimiter()
    passed: list[Sample] = []
    for start in range(0, len(records), size):
        passed += in_pieces.accepted(records[start : start + size], 0)
    # Their names come in any order.
    turned = [{**record, "m": dict(reversed(record["m"].items()))} for record in records]
    assert passed == at_once.accepted(turned, 0)
    assert list(in_pieces.rest()) == list(at_once.rest())
    assert in_pieces.num_accepted == at_once.num_accepted
