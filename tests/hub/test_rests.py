"""How long companions rest between two batches."""

from epochal.shipping.worker import LONGEST_REST_S, SHORTEST_REST_S, rest_after


def test_a_hub_that_answers_at_once_gets_batches_twice_a_second() -> None:
    rests = [rest_after(0.001) for _ in range(200)]
    assert max(rests) <= SHORTEST_REST_S
    assert min(rests) >= 0.8 * SHORTEST_REST_S
    assert len(set(rests)) > 100  # not all companions in the same moment


def test_a_slow_hub_is_asked_less_often_but_within_a_second() -> None:
    assert max(rest_after(0.2) for _ in range(200)) > SHORTEST_REST_S
    assert max(rest_after(30.0) for _ in range(200)) <= LONGEST_REST_S
