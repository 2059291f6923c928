"""What a run prints for each kind of typed record, and what its lines need to know of the steps.

Progress, time left and marks are arithmetic on recent values; nothing is read back from disk. The
lines themselves are made by ``console.lines``. Kinds that print nothing are not listed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from epochal.records import ROLE_GUESSES
from epochal.run.console import blocks
from epochal.run.console.lines import (
    closing_line,
    epoch_line,
    eval_line,
    gap_text,
    gpu_line,
    metrics_line,
    number_in,
    step_line,
)
from epochal.run.console.messages import Verbosity
from epochal.run.console.printer import Console
from epochal.series.eta import Eta
from epochal.series.trend import gap_grade, gap_percent
from epochal.series.window import LossTrend, SpikeBaseline

if TYPE_CHECKING:
    from epochal.health.phase import PhaseDetector


# How often a run that only logs free metrics says something where there is no terminal.
_PIPED_INTERVAL_S = 10.0
_TERMINAL_INTERVAL_S = 0.25


class Totals(msgspec.Struct, frozen=True):
    """How long a run is meant to be, in whichever unit is known."""

    steps: int | None = None
    tokens: int | None = None
    epochs: float | None = None

    def as_record(self) -> dict[str, float]:
        """The known ones, for run.json."""
        return {n: total for n, total in msgspec.structs.asdict(self).items() if total is not None}


class ConsoleReporter:
    """Follows the records of one run and prints what belongs to each kind."""

    def __init__(
        self,
        console: Console,
        totals: Totals,
        *,
        name: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._clock = clock
        self._totals = totals
        self._name = name
        self.eta = Eta(totals.steps or totals.tokens or totals.epochs)
        self._tokens = 0.0
        self._last_step: int | None = None
        self._trend = LossTrend()
        self._spike = SpikeBaseline()
        self._phase: PhaseDetector | None = None
        self._loss_sum = 0.0
        self._loss_count = 0
        self._epoch_eta = Eta(None)
        self._has_bar: bool | None = None
        self._has_printed = False
        self._started = time.monotonic()
        self._allocators: set[Any] = set()
        self._by_kind: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "step": self.step,
            "eval": self.evaluation,
            "epoch": self.epoch,
            "gpu": lambda record: console.line(partial(gpu_line, record), Verbosity.VERBOSE),
            "gpu-model": lambda record: console.block(partial(blocks.gpu_model_block, record)),
            "sol": lambda record: console.block(partial(blocks.speed_of_light_block, record)),
            "phases": self._phases,
            "allocator": self._allocator,
            "dataset": self._dataset,
        }

    def show(self, record: Mapping[str, Any]) -> None:
        """Print what belongs to this record, if anything does."""
        show = self._by_kind.get(record["log"])
        if show is not None:
            show(record)

    def close(self, status: str, metrics: Mapping[str, float]) -> None:
        """Print the closing line of a run that has printed something; take the live line away."""
        if not self._has_printed:
            self._console.close()
            return
        seconds = time.monotonic() - self._started
        verb = {"finished": "complete in", "failed": "failed after"}.get(status, "stopped after")
        self._console.closing(closing_line(seconds, metrics=metrics, verb=verb))

    def options(self, options: Mapping[str, Any]) -> None:
        """Print a table of hyperparameters."""
        self._console.block(partial(blocks.options_block, options))

    def set_total_steps(self, total: int) -> None:
        """Show percent and time left from now on."""
        self._totals = Totals(steps=total)
        self.eta = Eta(total)
        self._console.set_progress_total(total)

    def step(self, record: Mapping[str, Any]) -> None:
        """Print a typed step's line."""
        now, number = self._clock(), int(record["step"])
        self._observe(record, now)
        loss, norm = number_in(record, "loss"), number_in(record, "norm")
        if loss is not None and math.isfinite(loss):
            self._loss_sum += loss
            self._loss_count += 1
        if not self._console.enabled(Verbosity.NORMAL):
            return
        trend = self._trend.observe(loss) if loss is not None else " "
        spike = self._spike.observe(norm) if norm is not None else False
        phase = record.get("phase")
        if phase is None and loss is not None:
            if self._phase is None:
                from epochal.health.phase import PhaseDetector

                self._phase = PhaseDetector(total=self._totals.steps)
            phase = self._phase.observe(number, loss)
        eta_s = self.eta.remaining_s()
        self._has_printed = True
        self._console.progress(self._count(number), now=now, loss=loss, eta_s=eta_s)
        percent = self.percent(record)
        fields: dict[str, Any] = {"percent": percent, "trend": trend, "spike": spike}
        self._console.step(lambda: step_line(record, eta_s=eta_s, phase=phase, **fields), now=now)

    def evaluation(self, record: Mapping[str, Any]) -> None:
        """Print an evaluation's line; its gap is to the mean training loss since the last one."""
        loss = number_in(record, "loss")
        gap = percent = None
        if self._loss_count and loss is not None and math.isfinite(loss):
            mean = self._loss_sum / self._loss_count
            gap, percent = loss - mean, gap_percent(loss, mean)
        self._loss_sum, self._loss_count = 0.0, 0
        self._has_printed = True
        shown = gap_text(gap, percent=percent)
        self._console.eval(
            lambda: eval_line(record, gap=gap, gap_percent=percent),
            graded=None if shown is None or percent is None else (shown, gap_grade(percent)),
        )

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Print a finished epoch's line."""
        done, total = int(record["epoch"]), record.get("total")
        duration_s = number_in(record, "duration_s")
        self._epoch_eta.total = total
        self._epoch_eta.observe(done, self._clock(), took_s=duration_s)
        # The last epoch has none.
        eta_s = self._epoch_eta.remaining_s() or None
        self._has_printed = True
        self._console.line(lambda: epoch_line(record, eta_s=eta_s))

    def free(self, step: int, metrics: Mapping[str, float]) -> float:
        """Show free metrics, on a bar or as a line; gives the seconds until the next time."""
        now = self._clock()
        if self._has_bar is None:
            self._has_bar = self._console.start_progress(
                name=self._name, total=self._totals.steps, unit="step"
            )
        record = {"step": step}
        self._observe(record, now)
        eta_s = self.eta.remaining_s()
        if self._has_bar:
            losses = (number_in(metrics, name) for name in ROLE_GUESSES["loss"])
            loss = next((loss for loss in losses if loss is not None), None)
            self._console.progress(self._count(step), now=now, loss=loss, eta_s=eta_s)
            return _TERMINAL_INTERVAL_S
        percent = self.percent(record)
        self._has_printed = True
        self._console.step(
            lambda: metrics_line(step, percent=percent, metrics=metrics, eta_s=eta_s)
        )
        return _PIPED_INTERVAL_S

    def percent(self, record: Mapping[str, Any]) -> float | None:
        """Progress of the whole run; None while nobody knows how long it is."""
        done = self._done(record)
        if done is None or not self.eta.total:
            return None
        return min(100.0, 100.0 * done / self.eta.total)

    def _phases(self, record: Mapping[str, Any]) -> None:
        if self._console.enabled(Verbosity.VERBOSE):
            from epochal.series.lost_time import explain_phases

            self._console.block(lambda: blocks.phases_block(record, explain_phases(record)))

    def _allocator(self, record: Mapping[str, Any]) -> None:
        """Once for each GPU: how memory changes from then on is for a chart, not for a terminal."""
        gpu = record.get("id")
        if gpu not in self._allocators:
            self._allocators.add(gpu)
            title = "Allocator" if gpu is None else f"Allocator {gpu}"
            segments = [blocks.Segment(**segment) for segment in record["stats"]]
            self._console.block(partial(blocks.allocator_block, segments, title=title))

    def _dataset(self, record: Mapping[str, Any]) -> None:
        verbose = self._console.enabled(Verbosity.VERBOSE)
        self._console.block(partial(blocks.dataset_block, record, with_files=verbose))

    def _observe(self, record: Mapping[str, Any], now: float) -> None:
        step = int(record["step"])
        tokens = number_in(record, "step_tokens")
        if tokens is not None:
            # Logged every k steps: the k - 1 in between had as many tokens.
            skipped = step - self._last_step if self._last_step is not None else 1
            self._tokens += tokens * max(1, skipped)
        self._last_step = step
        done = self._done(record)
        if done is not None:
            self.eta.observe(done, now)

    def _count(self, step: int) -> int:
        """How many steps are done, counted from step 0; the step itself where no end is known."""
        total = self._totals.steps
        return min(step + 1, total) if total else step

    def _done(self, record: Mapping[str, Any]) -> float | None:
        if self._totals.steps:
            return float(self._count(int(record["step"])))
        if self._totals.tokens:
            return self._tokens
        epoch = number_in(record, "epoch") if self._totals.epochs else None
        return epoch if epoch is not None and math.isfinite(epoch) else None
