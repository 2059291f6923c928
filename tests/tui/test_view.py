from __future__ import annotations

import pytest

from epochal.tui.view import Extent, Zoom

STEPS = Extent("step", 0, 400)


def test_a_zoom_at_the_end_follows_the_run() -> None:
    zoom = Zoom().closer().closer()
    assert zoom.window(STEPS) == (300, 400)
    assert zoom.window(Extent("step", 0, 800)) == (600, 800)


def test_what_is_looked_at_elsewhere_stays_in_place_while_the_run_goes_on() -> None:
    zoom = Zoom().closer().closer().moved(-1, STEPS)
    assert zoom.window(STEPS) == (275, 375)
    assert zoom.window(Extent("step", 0, 800)) == (275, 375)
    assert zoom.window(Extent("epoch", 0, 4)) == (2.75, 3.75)


def test_moving_right_at_the_end_follows_again() -> None:
    zoom = Zoom().closer().closer().moved(-1, STEPS).moved(1, STEPS)
    assert zoom == Zoom(0.25)


def test_moving_left_stops_at_the_beginning() -> None:
    zoom = Zoom().closer()
    for _ in range(20):
        zoom = zoom.moved(-1, STEPS)
    assert zoom.window(STEPS) == (0, 200)


def test_closer_keeps_the_middle_and_wider_undoes_it() -> None:
    zoom = Zoom().closer().closer().moved(-1, STEPS).moved(-1, STEPS)
    assert zoom.window(STEPS) == (250, 350)
    assert zoom.closer().window(STEPS) == (275, 325)
    assert zoom.closer().wider() == zoom


def test_wider_ends_at_the_whole_run_and_the_whole_run_does_not_move() -> None:
    assert Zoom().closer().wider().is_whole
    assert Zoom().moved(-1, STEPS) == Zoom().wider() == Zoom()
    assert Zoom().window(STEPS) == pytest.approx((0, 400))
