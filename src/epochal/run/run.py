"""A run: turns calls into records. It answers no questions; the store does.

When a ``log`` call has returned, its record is in the kernel's hands and the death of this process
cannot lose it. Calls may come from any thread and from forked children. Misuse raises at once; what
the outside world does (a full disk, a folder that vanished) never reaches the caller.

What each call does in each state of a run is said in ``run/recorder.py``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import nan
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from epochal.errors import ValueTypeError
from epochal.journal.line import MetricsRecord, encode_lines, now
from epochal.records import Record
from epochal.run import samples, typed
from epochal.run.config import RunConfig
from epochal.run.phases import Phase, timed_section
from epochal.run.recorder import Recorder, RunState
from epochal.run.summary import RunSummary
from epochal.torch_hooks import torch_hooks
from epochal.values import Array, Metrics, Scalar, Values, plain_json

_time_ns = time.time_ns
# What the encoder or the sum raise for values that are no plain numbers.
_NOT_PLAIN = (TypeError, AttributeError, ValueError, ArithmeticError, LookupError, RuntimeError)


def recorder_of(run: Run) -> Recorder:
    """The recorder of a run, for the other parts of Epochal."""
    return run._recorder


class Run:
    """One training run. Made by :func:`epochal.init`; a context manager that finishes itself.

    Numbers may be Python or numpy ones, or 0-d tensors; one on a GPU is not waited for. A value
    that cannot be recorded is left out and noted; ``init(strict=True)`` raises instead.
    """

    __slots__ = ("__weakref__", "_recorder")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        recorder.ending.explain = self._explain_out_of_memory
        if "torch" in sys.modules:
            hot = (Run.log, Recorder.write, Recorder.write_silent, Phase.__enter__, Phase.__exit__)
            torch_hooks().exclude_from_compile(*hot)

    def __repr__(self) -> str:
        return f"<epochal run {self.project}/{self.name} at {self.dir}>"

    def _repr_html_(self) -> str:
        """In a notebook: the live page, and the archive once the run has finished."""
        from epochal.run import notebook

        return notebook.frame(self._recorder, otherwise=repr(self))

    # -- what it is -------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The run's own id, unique everywhere."""
        return str(self._recorder.identity["id"])

    @property
    def name(self) -> str:
        """The run's name."""
        return self._recorder.name

    @property
    def project(self) -> str:
        """The project the run belongs to."""
        return str(self._recorder.identity["project"])

    @property
    def dir(self) -> Path:
        """The run's folder."""
        return self._recorder.folder.path

    @property
    def config(self) -> RunConfig:
        """The configuration; a change is recorded. ``config.copy()`` is a plain dict."""
        return self._recorder.config

    @property
    def summary(self) -> RunSummary:
        """The last value of each metric, read from the run's own journal when it is asked for.

        What is set (``run.summary["best"] = 3``) is recorded and wins in every view, until it is
        deleted.
        """
        return self._recorder.summary

    @property
    def group(self) -> str | None:
        """The group of runs it belongs to, as ``init`` was given it."""
        return self._recorder.identity.get("group")

    @property
    def job_type(self) -> str | None:
        """What it does in its group, such as ``train`` or ``eval``."""
        return self._recorder.identity.get("job_type")

    @property
    def owner(self) -> str | None:
        """Whose run it is; by default the user of the operating system."""
        return self._recorder.identity.get("owner")

    @property
    def attempt(self) -> int:
        """1 for a new run, one more each time it is resumed."""
        return self._recorder.attempt

    @property
    def rank(self) -> int:
        """The rank of this process in a distributed training, 0 in any other; -1 in a child."""
        return self._recorder.rank

    @property
    def step(self) -> int:
        """The last step that was logged, -1 before the first."""
        return self._recorder.step

    @property
    def state(self) -> RunState:
        """``open``, ``resuming`` (until the first step), ``off`` (nothing is written) or
        ``finished``; compares equal to these texts."""
        return self._recorder.state

    @property
    def finished(self) -> bool:
        """Whether the last record is written; calls that record raise then."""
        return self._recorder.finished

    # -- metrics and typed records ----------------------------------------------------------------

    def log(self, metrics: Metrics, step: int | None = None) -> None:
        """Append metrics at a step, by default the last one + 1; nested dicts flatten with dots.

        Values may be Python or numpy numbers or 0-d torch tensors. A text becomes a ``text``
        record, an array or a list of numbers a ``histogram``; None and anything else is left out.
        Each is said and recorded once for each name; ``init(strict=True)`` raises instead.
        """
        # The hot path. It works on the recorder's attributes itself, because a call of a method
        # costs a tenth of this one. A dict of plain finite numbers, which nearly every call has,
        # takes one encoding, one sum that vouches for all values, and one write. Anything else
        # (tensors, nested metrics, mistakes) goes to ``log_carefully``, which alone has the rules.
        recorder = self._recorder
        if step is None:
            with recorder.lock:
                recorder.step = step = recorder.step + 1
        elif type(step) is int:
            recorder.step = step
        else:
            step = recorder.read_step(step)
        at = _time_ns() // 1_000_000 / 1000
        try:
            line = encode_lines([MetricsRecord(at, step, metrics)])
            # A TypeError for texts, and for decimals, which the encoder would write as texts.
            zero = sum(metrics.values(), 0.0) * 0.0  # type: ignore[operator, type-var]
        except _NOT_PLAIN:
            zero = nan
        # Not zero when a value is not finite, which JSON cannot hold.
        if zero != 0.0 or "" in metrics:
            recorder.log_carefully(metrics, at, step)
            return
        append = recorder.append  # Python calls a local faster than an attribute that is no method
        append(line, at)
        recorder.latest = line
        if at >= recorder.show_at:
            recorder.show_metrics(at, step, metrics)

    def log_step(
        self,
        step: Scalar,
        epoch: Scalar | None,
        tokens: Scalar,
        duration_ms: Scalar,
        norm: Scalar | None,
        loss: Scalar | None,
        lr: Scalar | None,
        *,
        norm_clipped: Scalar | None = None,
        kd_loss: Scalar | None = None,
        sol: Scalar | None = None,
        phase: str | None = None,
        moe: Mapping[str, Scalar | None] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Append one optimisation step and print its line.

        ``norm`` is the gradient norm before clipping, ``norm_clipped`` after; ``epoch`` counts
        completed epochs with a fraction; ``moe`` holds router metrics, ``metrics`` anything else.
        """
        recorder = self._recorder
        call = recorder.call("step")
        at = recorder.next_step(step)
        core = (epoch, tokens, duration_ms, norm, loss, lr)
        more: dict[str, Any] = {"norm_clipped": norm_clipped, "kd_loss": kd_loss, "sol": sol}
        record = typed.step_record(
            now(), call, at, *core, **more, phase=phase, moe=moe, metrics=metrics
        )
        recorder.write(record)
        recorder.write_samples(call, at)

    def log_eval(
        self,
        step: Scalar | None,
        epoch: Scalar | None,
        tokens: Scalar,
        duration_ms: Scalar,
        loss: Scalar | None,
        *,
        metrics: Metrics | None = None,
    ) -> None:
        """Append one evaluation and print its line with the gap to the training loss."""
        recorder = self._recorder
        call, at = recorder.call("eval"), recorder.sample_step(step)
        core = (epoch, tokens, duration_ms, loss)
        recorder.write(typed.eval_record(now(), call, at, *core, metrics=metrics))
        recorder.write_samples(call, at)

    def log_epoch(
        self,
        epoch: Scalar,
        duration_s: Scalar | None,
        metrics: Metrics,
        *,
        total: Scalar | None = None,
        resources: Mapping[str, Any] | None = None,
        gpus: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Append one finished epoch and print its line; ``epoch`` counts completed ones, from 1."""
        recorder = self._recorder
        call = recorder.call("epoch")
        number = call.whole(epoch, name="epoch")
        done = recorder.epoch + 1 if number is None else number
        record = typed.epoch_record(now(), call, done, duration_s, metrics, total=total)
        recorder.epoch = done
        if resources:
            record["resources"] = plain_json(resources)
        if gpus:
            record["gpus"] = plain_json(list(gpus))
        recorder.write(record)
        recorder.write_samples(call, recorder.sample_step(None))

    def log_moe_stats(
        self,
        /,
        step: Scalar | None,
        aux_loss: Scalar | typed.HasFields | None,
        z_loss: Scalar | None = None,
        utilization: Scalar | None = None,
        imbalance: Scalar | None = None,
        **more: Scalar | None,
    ) -> None:
        """Append router health: losses, share of experts used (0-1), max over mean load (>= 1).

        What ``epochal.torch.moe_stats`` gives may stand for all: ``log_moe_stats(step, stats)``.
        """
        recorder = self._recorder
        call, at = recorder.call("moe"), recorder.sample_step(step)
        fields = typed.moe_fields(call, aux_loss, z_loss, utilization, imbalance)
        recorder.write(typed.moe_record(now(), call, at, {**fields, **more}))
        recorder.write_samples(call, at)

    def log_experts(
        self,
        step: Scalar | None,
        layers: Sequence[str],
        load: Array | Sequence[Values],
        *,
        top_k: Scalar = 1,
    ) -> None:
        """Append how the routers shared their tokens out: of each layer, each expert's share (0-1).

        ``load`` is a table of layers and experts; one on a GPU is waited for.
        """
        call, at = self._recorder.call("experts"), self._recorder.sample_step(step)
        record = typed.experts_record(now(), call, at, layers=layers, load=load, top_k=top_k)
        self._recorder.write(record)

    def log_gpu_state(
        self, /, step: Scalar | None, gpu_id: Scalar = 0, **fields: Scalar | str | None
    ) -> None:
        """Append one GPU's telemetry: clock (MHz), power (mW), gpu_util (%), dram_free (bytes)."""
        recorder = self._recorder
        call = recorder.call("gpu")
        number = call.whole(gpu_id, name="gpu_id")
        if number is None:
            return  # readings of a GPU that nobody can tell from the others
        at = None if step is None else recorder.sample_step(step)
        recorder.write(typed.gpu_record(now(), call, at, number, fields))
        recorder.write_samples(call, recorder.sample_step(None) if at is None else at)

    def log_gpu_model(self, /, **fields: Scalar | str | None) -> None:
        """Append what a GPU is: name, sm_count, major, minor, memory (bytes), uuid, ecc, …"""
        call = self._recorder.call("gpu-model")
        self._recorder.write(typed.facts_record("gpu-model", now(), call, fields))

    def log_sol_estimate(
        self,
        /,
        estimate: typed.HasFields | None = None,
        *,
        blocks: Scalar | None = None,
        lm_head: Scalar | None = None,
        attention: Scalar | None = None,
        tps: Scalar | None = None,
        dtype: str = "bf16",
        **peaks: Scalar | str | None,
    ) -> None:
        """Append the speed-of-light estimate: FLOP per token by part, and tokens per second.

        Takes what :func:`epochal.speed_of_light` gives, or the figures themselves; peaks in TFLOP/s
        come as ``bf16_peak=``, ``tf32_peak=``, ``fp16_peak=``, ``fp8_peak=``. Steps logged from
        here on have their ``sol``.
        """
        parts = {"blocks": blocks, "lm_head": lm_head, "attention": attention}
        call = self._recorder.call("sol")
        record = typed.sol_record(now(), call, estimate, parts, {"tps": tps, **peaks}, dtype=dtype)
        self._recorder.write(record)

    def log_allocator(
        self,
        stats: Iterable[Any] | Mapping[str, Any],
        *,
        step: Scalar | None = 0,
        gpu: Scalar | None = None,
    ) -> None:
        """Append memory by segment, in bytes: a list of segments, or a mapping of name to bytes."""
        call, at = self._recorder.call("allocator"), self._recorder.sample_step(step)
        record = typed.allocator_record(now(), call, at, stats=stats, gpu=gpu)
        self._recorder.write(record)

    def log_dataset(
        self,
        split: str,
        *,
        files: Scalar | Sequence[str | PathLike[str]] = 0,
        tokens: Scalar = 0,
        file_index: Scalar | None = None,
        chunk_index: Scalar | None = None,
        seed: Scalar | None = None,
    ) -> None:
        """Append a data split's facts; ``files`` is a count or the list of paths."""
        place = {"file_index": file_index, "chunk_index": chunk_index, "seed": seed}
        call = self._recorder.call("dataset")
        record = typed.dataset_record(now(), call, split, files, tokens=tokens, **place)
        self._recorder.write(record)

    def log_abs_maxes(self, step: Scalar | None, values: Metrics) -> None:
        """Append the largest absolute value of each named tensor."""
        recorder = self._recorder
        call, at = recorder.call("abs-maxes"), recorder.sample_step(step)
        flat = call.metrics(values, argument="values")
        recorder.write({"log": "abs-maxes", "t": now(), "step": at, "values": flat})
        recorder.write_samples(call, at)

    # -- samples ----------------------------------------------------------------------------------

    def log_text(self, name: str, text: str, step: Scalar | None = None) -> None:
        """Append a piece of text at a step."""
        call = self._recorder.call("text")
        known = call.name(name)
        words = None if known is None else call.text(text, name=known)
        if known is not None and words is not None:
            at = self._recorder.sample_step(step)
            self._recorder.write(typed.text_record(now(), name=known, text=words, step=at))

    def log_histogram(
        self, name: str, values: Values, step: Scalar | None = None, *, bins: int = 64
    ) -> None:
        """Append the distribution of many values (list, array, tensor) as counts in equal bins.

        One on a GPU is not waited for. Of more than a million values some are counted, evenly.
        """
        known = self._recorder.call("histogram").name(name)
        if known is not None:
            at = self._recorder.sample_step(step)
            self._recorder.write_histogram(known, values, at, bins=bins)

    def log_image(
        self,
        name: str,
        image: Array | samples.PilImage | bytes | str | PathLike[str],
        step: Scalar | None = None,
        *,
        caption: str | None = None,
    ) -> None:
        """Append an image: an array (H×W, H×W×C, C×H×W), a PIL image, encoded bytes or a path."""
        known = self._recorder.call("blob").name(name)
        if known is not None:
            at = self._recorder.sample_step(step)
            self._recorder.write_image(known, image, at, caption=caption)

    def log_graph(self, /, svg: str, *, name: str = "model", **facts: Any) -> None:
        """Append a picture of a model as SVG text, with facts such as its hash."""
        call = self._recorder.call("graph")
        self._recorder.write(typed.graph_record(now(), call, name, svg, facts))

    # -- words, times and meaning -----------------------------------------------------------------

    def event(self, /, name: str, **fields: Any) -> None:
        """Append something that happened: a checkpoint, a restart, a change of data."""
        self._recorder.event(name, **fields)

    def message(self, text: str, *, level: str = "info") -> None:
        """Append a message for people, and print it at its level."""
        self._recorder.alerts.message(text, level=level)

    def alert(
        self, title: str, text: str = "", *, level: str = "info", wait_s: float = 60.0
    ) -> bool:
        """Send a message where findings are sent (``init(alerts=…)``), record it and print it.

        ``level`` is info, warning or error, or a level of ``logging``. An alert of the same title
        within ``wait_s`` seconds is left out; returns False then.
        """
        return self._recorder.alerts.send(title, text, level=level, wait_s=wait_s)

    def section(self, name: str) -> AbstractContextManager[None]:
        """Time a section: print and record how long it took."""
        return timed_section(self._recorder, name)

    def phase(self, name: str) -> Phase:
        """Time a part of each step, as a context manager or a decorator; on a GPU by its clock.

        ``data``, ``forward``, ``backward``, ``optimizer``, ``sync``, ``eval``, ``save`` and ``log``
        are understood by what explains lost time; any other name will do. Phases may stand inside
        one another. Costs a microsecond, never waits, never raises once it is made.
        """
        known = name if type(name) is str and name else self._recorder.call("phases").name(name)
        return self._recorder.phases.named("unnamed" if known is None else known)

    def define(
        self,
        name: str,
        *,
        unit: str | None = None,
        goal: str | None = None,
        x: str | None = None,
        role: str | None = None,
    ) -> None:
        """Say what a metric means: unit, goal ('min' or 'max'), role (loss, lr, norm), x axis.

        ``x`` names the metric to draw this one against, in charts, exports and ``series()``.
        ``name`` may be a pattern: ``define("val/*", x="epoch")``.
        """
        self.write(typed.define_record(now(), name=name, unit=unit, goal=goal, x=x, role=role))

    def write(self, record: Record, *, silent: bool = False) -> None:
        """Append one complete record of any kind, and print what belongs to its kind.

        ``silent`` prints nothing; the record must hold plain values then.
        """
        write = self._recorder.write_silent if silent else self._recorder.write
        write(record)

    # -- pages and forks --------------------------------------------------------------------------

    def serve(self, port: int | None = None) -> str | None:
        """Show this run and its neighbours live in a browser; None on failure.

        Gives the address, which opens the page on this run. A process of its own serves 127.0.0.1
        and goes on for a minute after this one ends.
        """
        from epochal.run import pages

        return pages.serve(self._recorder, port)

    def save_html(self, path: str | PathLike[str]) -> None:
        """Have the run written as one HTML file when it ends, however; at once if it has ended.

        Called with several paths, it writes each of them. Folders on the way are made now.
        """
        from epochal.run import pages

        pages.save_html(self._recorder, Path(path))

    def fork(self, name: str | None = None, *, step: int | None = None, **arguments: Any) -> Run:
        """Start a run with a copy of this one's history up to a step, by default its last one.

        ``arguments`` are those of :func:`epochal.init`. This run stays open.
        """
        from epochal.run.fork import start_fork  # which imports this module

        return start_fork(self, name, step, arguments)

    # -- the end ----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until everything logged so far is on the disk itself and power loss spares it."""
        self._recorder.flush()

    def on_finish(self, call: Callable[[], object]) -> None:
        """Have something called when the run finishes, before its last record is written.

        It is called in a thread. ``finish()`` waits for it as long as ``finish_wait_s`` says, at
        least 5 seconds, and then goes on without it.
        """
        self._recorder.check_open()
        self._recorder.ending.on_finish.add(call)

    def finish(self, status: str = "finished", *, reason: str | None = None) -> None:
        """End the run: write the last record and close.

        Whatever callbacks raise, the record is written. Calling it again does nothing, except that
        it completes what an interruption left undone.
        """
        if not isinstance(status, str):
            raise ValueTypeError(f"status must be a text, not {type(status).__name__}.")
        self._recorder.ending.finish(status, reason)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._recorder.ending.leave(error)

    @contextmanager
    def memory_guard(self, model: Any = None, optimizer: Any = None) -> Iterator[None]:
        """A ``with`` block: an out-of-memory error in it is explained in the run and goes on.

        For programs that catch such errors; one that ends the run is explained by itself.
        """
        try:
            yield
        except BaseException as error:
            explain = partial(self._explain_out_of_memory, error, model=model, optimizer=optimizer)
            self._recorder.guard.run("out-of-memory report", explain)
            raise

    def _explain_out_of_memory(
        self, error: BaseException, *, model: Any = None, optimizer: Any = None
    ) -> None:
        """Write what memory was used for, if there was too little of it; once for each error."""
        if "torch" in sys.modules and not self.finished:
            torch_hooks().explain_out_of_memory(self, error, model=model, optimizer=optimizer)
