import json
import math

from epochal.health.finding import Finding, finding_id, is_more_severe
from epochal.journal.diagnosis import evidence_text


def finding(**changes: object) -> Finding:
    fields: dict[str, object] = {
        "id": finding_id("loss-spike", "train/loss", 12),
        "rule": "loss-spike",
        "severity": "warning",
        "sentence": "The loss jumped.",
        "series": "train/loss",
        "steps": (12, 14),
        "evidence": {"value": 8.9, "was": 2.3},
        "advice": "Look at the batch.",
        "state": "open",
        "t": 17.5,
    }
    return Finding(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_finding_survives_its_record() -> None:
    record = json.loads(json.dumps(finding().record(), allow_nan=False))
    assert Finding.from_record(record) == finding()


def test_a_figure_that_json_cannot_hold_becomes_a_word() -> None:
    assert finding(evidence={"value": math.inf}).record()["evidence"] == {"value": "inf"}


def test_what_is_not_understood_is_none() -> None:
    record = finding().record()
    assert Finding.from_record({**record, "severity": "awful"}) is None
    assert Finding.from_record({**record, "id": None}) is None
    assert Finding.from_record({**record, "log": "event"}) is None


def test_the_id_depends_on_rule_subject_and_opening_only() -> None:
    assert finding_id("a", "b", 3) == finding_id("a", "b", 3)
    assert len({finding_id("a", "b", 3), finding_id("a", "c", 3), finding_id("a", "b", 4)}) == 3
    assert len(finding_id("a", "b", 3)) == 12


def test_severities_are_ordered() -> None:
    assert is_more_severe("error", "warning")
    assert not is_more_severe("info", "info")


def test_evidence_that_is_a_size_reads_as_one() -> None:
    assert evidence_text("before_bytes", 490733568.0) == "before 468.0 MiB"
    assert evidence_text("loss", 15764840887091.2) == "loss 1.58e+13"
    assert evidence_text("steps", 1200) == "steps 1200"
    assert evidence_text("loss", "nan") == "loss nan"
