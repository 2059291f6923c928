from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epochal.companion.gpu_journal import RELEASE_S, ThrottleChange, ThrottleWatch
from epochal.telemetry.gpu import THROTTLE_WORDS


def changes(words: list[str | None]) -> list[ThrottleChange]:
    watch = ThrottleWatch()
    found = [watch.see(word, float(second)) for second, word in enumerate(words)]
    return [change for change in found if change is not None]


def test_what_comes_and_goes_each_second_is_one_change() -> None:
    assert changes(["", "power cap", "", "idle", "power cap"] * 200) == [
        ThrottleChange("power cap", "no cap")
    ]


def test_what_is_graver_is_told_at_once() -> None:
    assert changes(["", "power cap", "thermal cap"]) == [
        ThrottleChange("power cap", "no cap"),
        ThrottleChange("thermal cap", "power cap"),
    ]


def test_what_is_less_grave_is_told_when_it_lasts() -> None:
    calm: list[str | None] = ["power cap", ""] * int(RELEASE_S)
    assert changes(["thermal cap", *calm]) == [
        ThrottleChange("thermal cap", "no cap"),
        ThrottleChange("power cap", "thermal cap"),
    ]


def test_a_reading_without_the_word_says_nothing() -> None:
    assert changes(["power cap", *[None] * 1000]) == [ThrottleChange("power cap", "no cap")]


@given(st.lists(st.sampled_from([*THROTTLE_WORDS, None]), max_size=300))
def test_each_change_follows_from_the_one_before(words: list[str | None]) -> None:
    said = "no cap"
    for change in changes(words):
        assert change.was == said
        assert change.throttle != said
        said = change.throttle
