"""How strong a planted fault may be, in both halves of the judge."""

from __future__ import annotations

from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Strengths:
    """Ranges drawn from, on a log scale. Rows are step records, samples those of a track."""

    rise: Range  # divergence: times the loss at its onset, in the end
    rise_rows: Range
    spike: Range  # loss spike: times the loss, added to it
    explosion: Range  # times the usual gradient norm
    vanishing: Range  # share of the usual gradient norm that is left
    doubling_rows: Range  # gradient acceleration
    clipped: Range  # gradient norm over the clipping limit
    overfit: Range  # rise of the evaluation loss per evaluation, as a share
    shock: Range  # no warm-up: rise of the loss over its start, as a share
    peak_rise: Range  # rate too high: rise of the loss over its least, as a share
    slower: Range  # throughput drop and straggler: times the usual step
    waiting: Range  # share of a step spent waiting for input
    clock: Range  # share of its clock a throttled GPU keeps
    creep_per_min: Range  # share of what the process held, per minute
    filling_s: Range  # until memory is full
    sol: Range  # per cent of the speed of light
    crowding: Range  # share of the largest possible imbalance E/k
    alive: Range  # share of the experts a collapsed router still uses
    weights_per_sample: Range  # growth of a weight norm
    harm: Range  # what layers do to the loss: its rise, as a share
    drift: Range  # of a replica's weights, as a share, when it is done
    cliff: Range  # share of the loss lost at an epoch's end
    clock_jump_s: Range


STRENGTHS = Strengths(
    rise=(1.8, 100.0),
    rise_rows=(10, 150),
    spike=(0.5, 10.0),
    explosion=(30, 1e6),
    vanishing=(1e-9, 2e-3),
    doubling_rows=(8, 40),
    clipped=(2.5, 100),
    overfit=(0.012, 0.12),
    shock=(0.18, 3.0),
    peak_rise=(0.2, 3.0),
    slower=(1.5, 8.0),
    waiting=(0.4, 0.95),
    clock=(0.25, 0.75),
    creep_per_min=(0.012, 0.1),
    filling_s=(300, 1500),
    sol=(5, 48),
    crowding=(0.6, 0.98),
    alive=(0.05, 0.42),
    weights_per_sample=(1.2, 2.5),
    harm=(0.2, 0.6),
    drift=(0.008, 0.5),
    cliff=(0.18, 0.7),
    clock_jump_s=(75, 40_000),
)
