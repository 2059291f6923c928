"""What a run prints for each kind of typed record; kinds that print nothing are not listed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from epochal.console import blocks
from epochal.console.lines import closing_line, gpu_line
from epochal.console.messages import Verbosity
from epochal.console.printer import Console
from epochal.run.progress_estimator import ProgressEstimator

_PEAK_SUFFIX = "_peak"
_PHASE_PREFIX = "phase/"


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
            "gpu": self._gpu,
            "gpu-model": self._block_of(_gpu_model),
            "sol": self._block_of(_speed_of_light),
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
        self._console.block(lambda: blocks.options_block(options))

    def _block_of(
        self, text: Callable[[Mapping[str, Any]], str]
    ) -> Callable[[Mapping[str, Any]], None]:
        return lambda record: self._console.block(lambda: text(record))

    def _gpu(self, record: Mapping[str, Any]) -> None:
        self._console.gpu(
            lambda: gpu_line(
                int(record.get("step", 0)),
                gpu_id=record["id"],
                power_mw=record.get("power"),
                temperature_c=record.get("temperature"),
                temp_slowdown_c=record.get("temp_slowdown"),
                clock_mhz=record.get("clock"),
                gpu_percent=record.get("gpu_util"),
                memory_used_bytes=record.get("dram_used"),
                pcie_rx_bytes_per_s=record.get("pcie_rx"),
                pcie_tx_bytes_per_s=record.get("pcie_tx"),
                throttle=record.get("throttle"),
            )
        )

    def _phases(self, record: Mapping[str, Any]) -> None:
        if self._console.enabled(Verbosity.VERBOSE):
            self._console.block(lambda: _phase_means(record))

    def _allocator(self, record: Mapping[str, Any]) -> None:
        """Once for each GPU: how memory changes from then on is for a chart, not for a terminal."""
        gpu = record.get("id")
        if gpu not in self._allocators:
            self._allocators.add(gpu)
            self._console.block(lambda: _allocator(record))

    def _dataset(self, record: Mapping[str, Any]) -> None:
        split = blocks.DatasetSplit(
            name=record["split"],
            tokens=record.get("tokens", 0),
            files=[blocks.DataFile(name) for name in record.get("names", ())],
            num_files=record.get("files"),
        )
        verbose = self._console.enabled(Verbosity.VERBOSE)
        self._console.block(lambda: blocks.dataset_block([split], with_files=verbose))


def _gpu_model(record: Mapping[str, Any]) -> str:
    return blocks.gpu_model_block(
        str(record.get("name", "GPU")),
        rank=record.get("rank", 0),
        gpu_id=record.get("id", 0),
        sm_count=record.get("sm_count"),
        major=record.get("major"),
        minor=record.get("minor"),
        memory_bytes=record.get("memory"),
        free_bytes=record.get("free"),
        cuda_driver=record.get("cuda_driver"),
        cuda_runtime=record.get("cuda_runtime"),
    )


def _speed_of_light(record: Mapping[str, Any]) -> str:
    peaks = {
        name.removesuffix(_PEAK_SUFFIX): float(value)
        for name, value in record.items()
        if name.endswith(_PEAK_SUFFIX) and name != "measured_peak"
    }
    dtype = record.get("dtype", "bf16")
    return blocks.speed_of_light_block(
        peaks,
        blocks=record["blocks"],
        lm_head=record["lm_head"],
        attention=record["attention"],
        tps=record.get("tps"),
        blocks_dtype=dtype,
        lm_head_dtype=record.get("lm_head_dtype", dtype),
        attention_dtype=record.get("attention_dtype", dtype),
        device=record.get("device"),
        num_devices=record.get("world_size", 1),
        measured=record.get("measured_peak"),
        note=record.get("note"),
    )


def _phase_means(record: Mapping[str, Any]) -> str:
    from epochal.series.lost_time import explain_phases

    lost = explain_phases(record)
    return blocks.phases_block(
        {name.removeprefix(_PHASE_PREFIX): mean for name, mean in record["m"].items()},
        wall_ms=record["wall_ms"],
        last_step=record["step"],
        steps=record["steps"],
        by_gpu=record.get("clock") == "gpu",
        host_bound=record.get("host_bound"),
        explanation=None if lost is None else str(lost),
    )


def _allocator(record: Mapping[str, Any]) -> str:
    segments = [blocks.Segment(**segment) for segment in record["stats"]]
    title = f"Allocator {record['id']}" if "id" in record else "Allocator"
    return blocks.allocator_block(segments, title=title)
