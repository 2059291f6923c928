import pytest

from epochal.companion.idle import Doing, Gap, Sample, cause_of, doing_of, idle_gaps


def test_a_gap_is_where_use_stays_low_for_long_enough() -> None:
    samples = [(0.0, 90.0), (0.1, 2.0), (0.2, 0.0), (0.3, 1.0), (0.4, 80.0), (0.5, 0.0)]
    assert idle_gaps(samples, below_pct=5, least_s=0.2) == [Gap(0.1, 0.4)]
    assert idle_gaps(samples, below_pct=5, least_s=0.5) == []


def test_a_gap_may_last_to_the_end() -> None:
    assert idle_gaps([(0.0, 0.0), (1.0, 0.0)], below_pct=5, least_s=0.5) == [Gap(0.0, 1.0)]
    assert idle_gaps([], below_pct=5, least_s=0.5) == []


@pytest.mark.parametrize(
    ("record", "doing"),
    [
        ({"log": "span", "t": 9.0, "start": 7.5, "name": "save"}, Doing("save", 7.5, 9.0)),
        ({"log": "eval", "t": 9.0, "duration_ms": 2000}, Doing("eval", 7.0, 9.0)),
        ({"log": "epoch", "t": 9.0}, Doing("epoch boundary", 8.5, 9.5)),
        ({"log": "event", "t": 9.0, "name": "checkpoint"}, Doing("save", 8.5, 9.5)),
        ({"log": "step", "t": 9.0, "duration_ms": 100}, None),
        ({"log": "span", "t": None}, None),
    ],
)
def test_records_say_what_was_done(record: dict[str, object], doing: Doing | None) -> None:
    assert doing_of(record) == doing


def cause(*doings: Doing, cpu: list[Sample] | None = None, started: float | None = None) -> str:
    return cause_of(Gap(100.0, 110.0), doings=doings, cpu=cpu or [], started=started)


def test_the_largest_overlap_explains_a_gap() -> None:
    assert cause(Doing("data", 100, 103), Doing("save", 104, 110)) == "save"
    assert cause(Doing("data", 90, 101)) == "unexplained"


def test_without_a_doing_the_start_or_the_host_may_explain_it() -> None:
    assert cause(started=80.0) == "start-up"
    assert cause(cpu=[(101.0, 99.0), (105.0, 100.0)]) == "host"
    assert cause(cpu=[(101.0, 3.0)], started=10.0) == "unexplained"
