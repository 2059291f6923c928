"""The numbers behind a training's phase, apart: the training process needs no others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PhaseThresholds:
    """When a loss counts as falling, constant, unstable or rising; windows in points."""

    # The first points of a run fall or jump for reasons of their own (warm-up of the rate, of the
    # optimizer's moments), and say nothing about where it is going.
    warmup: int = 50
    # Two halves of fifty: long enough that their means differ by noise of a seventh of a deviation.
    window: int = 100
    # A mean of fifty points strays by 0.14 deviations; two of them differ by more than 0.6
    # deviations about once in seven hundred comparisons.
    deviations: float = 0.6
    # A slow fall needs more points to be seen in: the last half of the run, up to six hundred.
    long_share: float = 0.5
    long_window: int = 600
    # Standard errors of the difference of two means: three come by chance once in seven hundred.
    # What was falling goes on with half of them, or the word would change with every few points.
    fall_errors: float = 3.0
    stay_errors: float = 1.5
    # The fall has stopped where the newest points lack what it would have brought, beyond doubt.
    stop_errors: float = 2.0
    # A rise must also undo a noticeable part of what was gained: otherwise it is a plateau's drift.
    rise_share: float = 0.1
    # So much of it gone is a training that is lost, even once the loss rises no more.
    stay_share: float = 0.3
    # Until it came down from the top of the rise by so much.
    back_share: float = 0.75
    # Where a loss above zero fell by orders of magnitude, twice its lowest level is enough.
    rise_most: float = 1.0
    # Noise this many times what it was through the run so far is no longer the same regime.
    noise_ratio: float = 3.0
    # Of what was gained: less is the bend of a curve without noise.
    noise_share: float = 0.01
