"""What a run prints for each kind of typed record; kinds that print nothing are not listed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from epochal.console import blocks
from epochal.console.lines import closing_line, gpu_line
from epochal.console.messages import Verbosity
from epochal.console.printer import Console
from epochal.run.progress_estimator import ProgressEstimator


class ConsoleReporter:
    """Prints records on a console, by kind."""

    def __init__(self, console: Console, pace: ProgressEstimator) -> None:
        self._console = console
        self._pace = pace
        self._started = time.monotonic()
        self._allocators: set[Any] = set()
        self._by_kind: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "step": pace.step,
            "eval": pace.evaluation,
            "epoch": pace.epoch,
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
        if not self._pace.has_printed:
            self._console.close()
            return
        seconds = time.monotonic() - self._started
        verb = {"finished": "complete in", "failed": "failed after"}.get(status, "stopped after")
        self._console.closing(closing_line(seconds, metrics=metrics, verb=verb))

    def options(self, options: Mapping[str, Any]) -> None:
        """Print a table of hyperparameters."""
        self._console.block(partial(blocks.options_block, options))

    def _phases(self, record: Mapping[str, Any]) -> None:
        if self._console.enabled(Verbosity.VERBOSE):
            from epochal.series.lost_time import explain_phases

            self._console.block(lambda: blocks.phases_block(record, explain_phases(record)))

    def _allocator(self, record: Mapping[str, Any]) -> None:
        """Once for each GPU: how memory changes from then on is for a chart, not for a terminal."""
        gpu = record.get("id")
        if gpu not in self._allocators:
            self._allocators.add(gpu)
            segments = [blocks.Segment(**segment) for segment in record["stats"]]
            title = "Allocator" if gpu is None else f"Allocator {gpu}"
            self._console.block(partial(blocks.allocator_block, segments, title=title))

    def _dataset(self, record: Mapping[str, Any]) -> None:
        verbose = self._console.enabled(Verbosity.VERBOSE)
        self._console.block(partial(blocks.dataset_block, record, with_files=verbose))
