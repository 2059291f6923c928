"""The numbers of the curve kit, each with its reason: what all rules on curves share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CurveThresholds:
    """How a curve is followed, and what counts as an outlier.

    Windows are in logged points, shares are of 1. A width is a robust standard deviation of the
    points around their level.
    """

    # The level is a median of so many points: short enough to follow a fall, long enough to be
    # known to a fifth of a width.
    level_points: int = 31
    # Before so many points nothing is said to stand out of them.
    level_least: int = 20
    # Heavy tails show themselves once in some hundred points, so that many are remembered.
    memory: int = 1000
    # Noise that does not shrink with the level shows as a growing share of it, in so many points.
    noise_points: int = 150
    # Of fewer distances nothing is known about noise at all.
    noise_least: int = 5
    # Blocks of ten points keep a whole run: 512 of them, then twice as long ones.
    block: int = 10
    # The level a run starts from: a handful of points, since it may fall at once.
    start: int = 8
    # A change below a tenth of the level is not worth a word, however quiet the curve...
    material_share: float = 0.1
    # ...nor one that nobody would see in a picture of the whole run.
    material_of_range: float = 0.005
    # ...though near the floor of a loss that fell by orders of magnitude the eye needs a log scale.
    material_most: float = 0.45
    # After the rate jumped (a warm restart) the loss may take so many points to its new level.
    grace: int = 100
    rate_jump: float = 1.5
    # Rises of the rate so few points apart are one: a warm-up, or a jump taken in steps.
    rate_one_jump: int = 20
    # Eight widths never happen in normal noise, about once in ten thousand in natural batches...
    spike_widths: float = 8.0
    # ...so it must also be farther out than anything before it, by more than half.
    spike_over_tail: float = 1.6
    # Of few points the tail is not known yet: with so many the bar is twice as high.
    spike_caution: float = 30.0
    # So many points are looked at together: three that stand out of five are no single batch.
    spike_lasting_of: int = 5
    # What has stood out for so many points in a row is no spike but a new level.
    accept: int = 60
