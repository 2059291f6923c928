"""Logging by epochs: one line per epoch, resources, time left, exports.

``Monitor`` wraps a run. Every epoch is one ``epoch`` record with the resources sampled at its end.
So history, CSV and log can be computed from the records alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.reader import read_journal
from epochal.records.values import as_float, as_pairs, plain_int
from epochal.run.accepted import CallValues, strict_values
from epochal.run.run import Run, recorder_of
from epochal.run.start import init
from epochal.telemetry.sampler import ResourceSample, ResourceSampler


@runtime_checkable
class HasLatestMetrics(Protocol):
    """Anything that can say its latest epoch values, such as a graph that observes itself."""

    def latest_metrics(self) -> Mapping[str, float] | Iterable[tuple[str, float]]:
        """The newest value of each metric."""


@dataclass(frozen=True, slots=True)
class RankMetrics:
    """One rank's part of an epoch: how many batches it did and the mean of each metric over them.

    ``throughput`` is in samples per millisecond, ``share`` the part of all batches (0-1).
    """

    rank: int
    batches: int
    metrics: Mapping[str, float]
    device: int | None = None
    throughput: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class EpochMetrics:
    """An epoch of a distributed run: the parts of all ranks.

    Args:
        ranks: The parts, one for each rank.
    """

    ranks: Sequence[RankMetrics]

    def merged(self) -> dict[str, float]:
        """Each metric's mean over ranks, weighted by batches: ``loss`` first, the rest by name."""
        return self.merged_by(strict_values())

    def merged_by(self, call: CallValues) -> dict[str, float]:
        """The same; what a rank passed that is no number is left to ``call``."""
        sums: dict[str, float] = {}
        weights: dict[str, float] = {}
        for part in self.ranks:
            batches = call.amount(part.batches, name="batches")
            for name, value in call.metrics(part.metrics, wait=True).items():
                if batches is not None:
                    sums[name] = sums.get(name, 0.0) + batches * as_float(value)
                    weights[name] = weights.get(name, 0.0) + batches
        names = sorted(sums, key=lambda name: (name != "loss", name))
        return {name: sums[name] / weights[name] for name in names if weights[name] > 0}

    def shares(self) -> list[dict[str, Any]]:
        """Per rank: device, batches, share of all batches and throughput, for the record."""
        counts: list[Any] = [part.batches for part in self.ranks]
        total = sum(count for count in counts if isinstance(count, (int, float))) or 1
        return [
            {
                "rank": part.rank,
                "device": part.rank if part.device is None else part.device,
                "batches": part.batches,
                "share": _share(part.batches, total) if part.share is None else part.share,
                **({} if part.throughput is None else {"throughput": part.throughput}),
            }
            for part in self.ranks
        ]


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One epoch of ``history()``; ``epoch`` counts from 0, as it was passed to ``log``.

    ``duration`` is in seconds, None where it was none.
    """

    epoch: int
    duration: float | None
    metrics: Mapping[str, float]
    resources: ResourceSample
    gpus: Sequence[Mapping[str, Any]] = ()


class Monitor:
    """Watches a training by epochs.

    Args:
        num_epochs: How many epochs you plan; None if you do not know.
        name: The name of the run.
        steps: How many steps you plan, for the step lines of ``monitor.run``.
        tokens: How many tokens you plan, for the step lines of ``monitor.run``.
        run: A run that exists already, in place of a new one.
        sampler: Reads the machine, in place of Epochal's own sampler.
        options: Other arguments of :func:`epochal.init`.
    """

    def __init__(
        self,
        num_epochs: int | None = None,
        name: str | None = None,
        *,
        steps: int | None = None,
        tokens: int | None = None,
        run: Run | None = None,
        sampler: ResourceSampler | None = None,
        **options: Any,
    ) -> None:
        num_epochs = None if num_epochs is None else int(num_epochs)
        if run is not None and (options or name is not None):
            raise UsageError("name and options belong to a new run; this monitor was given one.")
        self.num_epochs = num_epochs
        self.run = run or init(
            name=name, total_steps=steps, total_tokens=tokens, num_epochs=num_epochs, **options
        )
        self._history: list[EpochRecord] = []
        self._sampler = sampler or ResourceSampler(guard=recorder_of(self.run).guard)
        self._sampler.prime()

    def log(self, epoch: int, duration: float | timedelta, metrics: Any) -> None:
        """Record and print one finished epoch; ``epoch`` counts from 0, ``duration`` is in seconds.

        ``metrics`` is a dict or pairs; something with ``latest_metrics()``; a tuple of such a thing
        and extra metrics; or :class:`EpochMetrics` of several ranks. Nothing is flushed: that is
        the caller's.
        """
        recorder = recorder_of(self.run)
        recorder.check_open()
        call = CallValues(recorder.values)
        number = recorder.values.read("epoch", plain_int, epoch, name="epoch")
        if number is None:
            number = self._history[-1].epoch + 1 if self._history else 0
        seconds = call.amount(_seconds(duration), name="duration")
        values = call.metrics(_metrics(metrics, call), wait=True)
        gpus = metrics.shares() if isinstance(metrics, EpochMetrics) else []
        resources = self._sampler.sample()
        self.run.log_epoch(
            number + 1,
            seconds,
            values,
            total=self.num_epochs,
            resources=_known(resources),
            gpus=gpus or [_known(gpu) for gpu in resources.gpus],
        )
        recorder.write_samples(call, recorder.sample_step(None))
        self._history.append(EpochRecord(number, seconds, values, resources, gpus))

    def history(self) -> list[EpochRecord]:
        """Every epoch so far, those of earlier attempts of a resumed run included."""
        return [*self._earlier_epochs(), *self._history]

    def serve(self, port: int | None = None) -> str | None:
        """Show the run live in a browser on 127.0.0.1; gives the address, None on failure.

        The address opens the page on this run, whatever else the folder holds.

        Args:
            port: The port; a free one is chosen if it is taken.
        """
        return self.run.serve(port)

    def watch(self, model: Any) -> None:
        """Record the picture, structural hash and parameter counts of any ``nn.Module``.

        Args:
            model: The model.
        """
        from epochal.torch.graph.picture import picture_of

        log_picture(self.run, model, picture_of(model))

    def watch_profiled(self, model: Any) -> None:
        """Record the picture of a ``Graph`` coloured by time, after ``enable_profiling()``.

        Args:
            model: The graph.
        """
        from epochal.torch.graph.graph import Graph
        from epochal.torch.structure import unwrapped

        graph = unwrapped(model)
        if not isinstance(graph, Graph):
            raise ValueTypeError(
                f"model must be a Graph after enable_profiling(), got {type(graph).__name__}: "
                "use watch() to draw it without times."
            )
        log_picture(self.run, graph, graph.picture(profiled=True))

    def finish_with(self, model: Any) -> None:
        """Record the picture once more, and finish the run, whatever becomes of the picture.

        The picture is coloured by time if passes of the model were timed, also when profiling was
        switched off since.

        Args:
            model: The model.
        """
        from epochal.torch.structure import unwrapped

        try:
            if getattr(unwrapped(model), "has_profile", False):
                self.watch_profiled(model)
            else:
                self.watch(model)
        finally:
            self.finish()

    def save_html(self, path: str | Path) -> None:
        """Have the run written as one HTML file when it ends, however; at once if it has ended.

        Args:
            path: The file to write.
        """
        self.run.save_html(path)

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Add hyperparameters or any other facts to the run's configuration.

        Args:
            metadata: The facts by name.
        """
        self.run.config.update(metadata)

    def write_log(self, path: str | Path) -> None:
        """Write the epochs as a text log.

        Args:
            path: The file to write.
        """
        from epochal.exports.table import write_epoch_log

        write_epoch_log(path, self._records())

    def export_csv(self, path: str | Path) -> None:
        """Write the epochs as CSV: epoch, duration_s, every metric, then resources.

        Args:
            path: The file to write.
        """
        from epochal.exports.table import write_epoch_table

        write_epoch_table(path, self._records())

    def finish(self) -> None:
        """Print the closing line and end the run."""
        self.run.finish()
        self._sampler.close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.run.__exit__(kind, error, trace)
        self._sampler.close()

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "log": "epoch",
                "epoch": one.epoch + 1,
                **({} if self.num_epochs is None else {"total": self.num_epochs}),
                **({} if one.duration is None else {"duration_s": one.duration}),
                "m": dict(one.metrics),
                "resources": _known(one.resources),
            }
            for one in self.history()
        ]

    def _earlier_epochs(self) -> list[EpochRecord]:
        if self.run.attempt == 1:
            return []
        first = self._history[0].epoch if self._history else None
        earlier: dict[int, EpochRecord] = {}
        recorder = recorder_of(self.run)
        for position, record in read_journal(recorder.folder):
            if record["log"] == "epoch" and position.attempt < self.run.attempt:
                past = _from_record(record)
                if first is None or past.epoch < first:
                    earlier[past.epoch] = past
        return [earlier[number] for number in sorted(earlier)]


def log_picture(run: Run, model: Any, picture: Any) -> None:
    """Record a model's picture with its structural hash and parameter counts."""
    from epochal.torch.graph.wiring import counts
    from epochal.torch.structure import structural_hash

    total, frozen = counts(model)
    run.log_graph(
        picture.svg(),
        name=getattr(model, "label", None) or type(model).__name__,
        hash=structural_hash(model),
        parameters={"total": total, "trainable": total - frozen, "frozen": frozen},
        how=picture.note,
        nodes=[
            {
                "name": node.key,
                "op": node.title,
                "inputs": [edge.source for edge in picture.edges if edge.target == node.key],
            }
            for node in picture.nodes
        ],
    )


def _metrics(metrics: Any, call: CallValues) -> dict[str, Any]:
    if isinstance(metrics, EpochMetrics):
        return dict(metrics.merged_by(call))
    if isinstance(metrics, HasLatestMetrics):
        latest = call.policy.read("latest_metrics()", lambda given: given.latest_metrics(), metrics)
        return {} if latest is None else as_pairs(latest, argument="latest_metrics()")
    is_pair = isinstance(metrics, tuple) and len(metrics) == 2
    if is_pair and isinstance(metrics[0], HasLatestMetrics):
        return {**_metrics(metrics[0], call), **as_pairs(metrics[1], argument="extras")}
    return as_pairs(metrics, argument="metrics")


def _share(batches: Any, total: float) -> float | None:
    return batches / total if isinstance(batches, (int, float)) else None


def _seconds(duration: Any) -> Any:
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def _known(sample: Any) -> dict[str, Any]:
    """What a sample knows; what is absent is left out. Samples inside it travel on their own."""
    return {
        name: value
        for name, value in asdict(sample).items()
        if value is not None and name != "gpus"
    }


def _from_record(record: Mapping[str, Any]) -> EpochRecord:
    names = {field.name for field in fields(ResourceSample)} - {"gpus"}
    resources = {k: v for k, v in (record.get("resources") or {}).items() if k in names}
    return EpochRecord(
        epoch=int(record["epoch"]) - 1,
        duration=None if record.get("duration_s") is None else as_float(record["duration_s"]),
        metrics=dict(record.get("m") or {}),
        resources=ResourceSample(**resources),
        gpus=record.get("gpus") or (),
    )
