"""The numbers by which curves are judged, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CurveThresholds:
    """What counts as wrong with a curve; windows are in logged points, shares are of 1.

    A width is a robust standard deviation of the points around their level.
    """

    # -- the curve itself -------------------------------------------------------------------------
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

    # -- loss-spike -------------------------------------------------------------------------------
    # Eight widths never happen in normal noise, about once in ten thousand in natural batches...
    spike_widths: float = 8.0
    # ...so it must also be farther out than anything before it, by more than half.
    spike_over_tail: float = 1.6
    # Of few points the tail is not known yet: with so many the bar is twice as high.
    spike_caution: float = 30.0
    # A lone point is a batch; three of five are the model.
    spike_lasting: int = 3
    spike_lasting_of: int = 5
    # A bump of less than a third of the level comes with new data as well as from trouble.
    spike_large: float = 0.3
    # What has stood out for so many points in a row is no spike but a new level.
    accept: int = 60

    # -- divergence -------------------------------------------------------------------------------
    # The level now, against the best block of the run so far.
    divergence_points: int = 20
    divergence_least: int = 80
    # A fifth above the best level is beyond what batches and schedules do to it...
    divergence_share: float = 0.2
    # ...as is a quarter of all that was gained: an error, or, where the loss fell so far that
    # 80 % of what is left is less than that, a warning...
    divergence_of_gain: float = 0.25
    divergence_most: float = 0.8
    # ...and five widths, and half as much again as any rise the run recovered from.
    divergence_widths: float = 5.0
    # So many points in a row, time for a harder stage of the data to show that it is learned...
    divergence_wait: int = 60
    # ...unless the rise is more than was ever gained and doubles the loss.
    divergence_lost_points: int = 10
    divergence_over_worst: float = 1.5
    # After a jump to a rate never tried before: what a run in order shows of such a rate within so
    # many points is a loss on its way back; a third of all gain lost, and not falling, is not that.
    jump_new_points: int = 60
    jump_new_of_gain: float = 0.35
    # A warm restart goes back to a rate that the run has learned with, and stands high until the
    # rate falls again; but it does not go back to where training began.
    jump_known_points: int = 160
    jump_known_of_gain: float = 0.8
    # What was gained must be beyond doubt, and so must what was lost.
    jump_gain_widths: float = 5.0
    jump_lost_widths: float = 2.5

    # -- gradients --------------------------------------------------------------------------------
    # A tenfold norm is beyond the spread of healthy batches, which is two or three to both sides.
    explosion_ratio: float = 8.0
    # A hundredfold one leaves nothing of the weights, clipped or not.
    explosion_grave: float = 100.0
    # A growth too slow for a jump is an explosion when it is so many times the usual of the run.
    explosion_over_run: float = 30.0
    # Norms fall two- or threefold as a run settles, not thirtyfold; or as the loss does, since a
    # model that is right has no gradient.
    vanishing_share: float = 0.03
    # The slope of the log of the norm over so many points...
    acceleration_window: int = 60
    # ...must multiply it by 2.5 within them...
    acceleration_growth: float = 2.5
    # While the loss falls, gradients of a language model triple now and then in good runs.
    acceleration_grave: float = 8.0
    # On a plateau norms of small runs double and treble as the model grows sure of itself.
    acceleration_on_plateau: float = 4.0
    # ...and be so many of its standard errors.
    acceleration_errors: float = 6.0
    # The first norms of a run rise and fall as it finds its way.
    acceleration_skip: int = 100

    # -- always-clipped ---------------------------------------------------------------------------
    clipped_window: int = 100
    clipped_share: float = 0.95
    # A norm three times the limit means that the limit sets the length of every step.
    clipped_grave: float = 3.0
    # The first norms of a run are often large; clipping them is what it is for.
    clipped_early: int = 500

    # -- plateau ----------------------------------------------------------------------------------
    # Two windows of four hundred points, compared; three comparisons in a row, fifty points apart.
    plateau_window: int = 400
    plateau_every: int = 50
    plateau_checks: int = 3
    # A fall below a thousandth of the level (or of the range covered) per window is none.
    plateau_share: float = 0.001
    plateau_cooldown: int = 1000

    # -- never-fell -------------------------------------------------------------------------------
    # Nothing learned in three hundred points is long past any warm-up.
    never_fell_points: int = 300
    # A fall is real when it is three standard errors of the difference of two thirds...
    never_fell_errors: float = 3.0
    # ...or when the blocks of the two thirds are so far from one order: ten of ten are 3.8...
    never_fell_order: float = 3.3
    # ...and half a percent, below which nobody would call it one.
    never_fell_share: float = 0.005
    # The level of the first eight points is known to a half or, with slow noise, a whole width.
    never_fell_start_widths: float = 3.0
    # The first point alone: noise is not twice the level, six widths and beyond every later tail.
    never_fell_first_widths: float = 6.0
    # A warning needs points that leave no room for a fall: of half a percent in six hundred, of
    # two percent in two thousand. A fine-tuning may well take longer than that to show its gain.
    never_fell_grave: int = 600
    never_fell_hidden: float = 0.005
    never_fell_long: int = 2000
    never_fell_hidden_long: float = 0.02

    # -- learning rate ----------------------------------------------------------------------------
    # A first rate this close to the highest one was not warmed up.
    warmup_share: float = 0.9
    # The shock of cold moments comes at once: within so many points.
    warmup_points: int = 120
    # A tenth above where it started, and beyond the noise: over five points and over fifteen. Noise
    # without a shock gets there once in five hundred runs that do not fall at all, mostly because
    # the three first points happen to be low.
    warmup_rise: float = 0.1
    warmup_widths: tuple[float, float] = (4.0, 3.0)
    # Norms fall at a healthy start; one that multiplies is a second witness.
    warmup_leap: float = 2.5
    warmup_leap_widths: tuple[float, float] = (3.0, 2.2)
    # The rate counts as at its peak above this share of it.
    peak_share: float = 0.9
    peak_points: int = 30
    # A rise of 15 % of the level, a tenth of what was gained, and 1.6 widths, which the median of
    # thirty points never strays by; for so many points in a row.
    peak_rise: float = 0.15
    peak_of_gain: float = 0.1
    peak_most: float = 0.2
    peak_widths: float = 1.6
    peak_wait: int = 30

    # -- evaluations ------------------------------------------------------------------------------
    # Three evaluations above the best one, not two: two happen by chance once in four.
    overfitting_evals: int = 3
    overfitting_least: int = 5
    # Their mean above the best mean of as many, by so many steps between evaluations.
    overfitting_steps: float = 3.5
    overfitting_share: float = 0.015
    # The same figure so many times is not a measurement.
    flat_evals: int = 4
    flat_equal: float = 1e-6
    # What changes by more than this in the same evaluations is computed from a model that learns.
    flat_moves: float = 0.01
    # At a hundredth of its peak the rate hardly changes the weights any more.
    flat_rate: float = 0.01
    # Evaluations for which what was said of a metric is not said again.
    flat_again: int = 24
    # Flat within noise takes longer to tell.
    flat_noisy_evals: int = 12
    # An accuracy this close to one in num_classes is guessing.
    chance_evals: int = 3
    chance_share: float = 0.3
    chance_most: float = 0.03
    # Next to perfect at the first evaluation, within so many steps, or at any of the first within
    # fewer: a small network needs some hundred to know digits that well.
    too_good_steps: int = 500
    too_good_at_once: int = 100
    too_good_accuracy: float = 0.99
    # After an epoch, of whatever length, digits are known to 99 % too.
    too_good_epoch: float = 0.999
    too_good_loss: float = 0.02
    # A loss that falls fiftyfold evenly on a log scale is seven times as high halfway.
    too_good_halfway: float = 3.0
    # An evaluation of an unknown kind of loss must be this far below the training itself.
    too_good_of_train: float = 0.1
    too_good_evals: int = 3

    # -- repeated-data ----------------------------------------------------------------------------
    # Levels of so many points on both sides of an epoch's end: at once, and again where noise hides
    # a cliff from twenty. A bar is about four standard errors of the difference.
    cliff_points: tuple[int, int] = (20, 60)
    cliff_widths: tuple[float, float] = (1.5, 0.9)
    # Three epochs over the same text leave stairs of up to a tenth in good fine-tunings.
    cliff_share: float = 0.12
    # Schedules that cut the rate at an epoch's end cut it by half or more; a smooth one loses less
    # than a fifth of it within the points looked at.
    cliff_rate_cut: float = 0.7

    # -- steps and clock --------------------------------------------------------------------------
    # A stride this many times the usual one skipped something.
    step_jump: float = 20.0
    step_least: int = 20
    # A loss logged twice at a step may be a correction; at the third time the counter stands.
    step_repeats: int = 3
    # Clocks are set by some milliseconds all the time; a second is noticed in plots and rates.
    clock_back_s: float = 1.0
    # A gap that the step's own timer does not know of: the machine slept or its clock was set.
    clock_ahead_s: float = 600.0
    clock_ahead_ratio: float = 100.0
