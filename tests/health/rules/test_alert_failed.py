from epochal.health.rules.condition import AlertFailed
from tests.health.machine_records import START, opened


def test_an_address_that_cannot_be_reached_is_a_warning() -> None:
    reason = "alerts cannot be sent (json: the message was not accepted)"
    event = {"log": "event", "t": START, "name": "alert-failed", "reason": reason}
    (found,) = opened(AlertFailed, [event, {**event, "t": START + 60}])
    assert found.severity == "warning"
    assert found.sentence == "Alerts cannot be sent (json: the message was not accepted)."


def test_other_events_say_nothing() -> None:
    assert opened(AlertFailed, [{"log": "event", "t": START, "name": "phase"}]) == []
