"""A run: turns calls into records. It answers no questions; the store does.

When a ``log`` call has returned, its record is in the kernel's hands and the death of this process
cannot lose it. Calls may come from any thread and from forked children. Misuse raises at once; what
the outside world does (a full disk, a folder that vanished) never reaches the caller.
``run/recorder.py`` lists what each call does in each state of a run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from epochal.base.guard import ANY_FAULT, Guard, call_with_room, called_by_program
from epochal.base.torch_hooks import torch_hooks
from epochal.errors import ValueTypeError
from epochal.journal.line import MetricsRecord, encode_lines, now
from epochal.records import Record
from epochal.records.values import Metrics, Scalar, as_list
from epochal.run import typed
from epochal.run.config import RunConfig
from epochal.run.ending import explain_out_of_memory
from epochal.run.own_records import carried_diagnosis
from epochal.run.phases import Phase, timed_section
from epochal.run.recorder import Recorder, RunState
from epochal.run.summary import RunSummary
from epochal.run.typed import Value, Whole

if TYPE_CHECKING:
    from epochal.exchange.media.stored import StoredSample
    from epochal.journal.diagnosis import Diagnosis

# Takes a run, and the arguments of its ``fork``.
StartFork: TypeAlias = Callable[["Run", str | None, int | None, Mapping[str, Any]], "Run"]

_time_ns = time.time_ns


def recorder_of(run: Run) -> Recorder:
    """The recorder of a run, for the other parts of Epochal."""
    return run._recorder


def _guard_of(run: Run) -> Guard:
    return run._recorder.guard


class Run:
    """One training run. Made by :func:`epochal.init`; a context manager that finishes itself.

    Numbers may be Python or numpy ones, or 0-d tensors; one on a GPU is not waited for. A value
    that cannot be recorded is left out and noted; ``init(strict=True)`` raises instead.
    """

    __slots__ = ("__weakref__", "_recorder", "_start_fork")

    def __init__(self, recorder: Recorder, start_fork: StartFork) -> None:
        self._recorder, self._start_fork = recorder, start_fork
        recorder.ending.explain = partial(explain_out_of_memory, self)
        if "torch" in sys.modules:
            hot = (Run.log, Recorder.write, Recorder.write_silent, Phase.__enter__, Phase.__exit__)
            torch_hooks().exclude_from_compile(*hot, Run.phase)

    def __repr__(self) -> str:
        return f"<epochal run {self.project}/{self.name} at {self.dir}>"

    def _repr_html_(self) -> str:
        """In a notebook: status, progress, losses with a chart, and findings."""
        from epochal.run.notebook import RunCard

        return (self._recorder.console.card or RunCard(self._recorder)).html()

    # -- what it is -------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The run's own id, unique everywhere.

        Example:
            print(f"epochal show {run.id}")
        """
        return str(self._recorder.identity["id"])

    @property
    def name(self) -> str:
        """The run's name.

        Example:
            print(f"training {run.name}")
        """
        return self._recorder.name

    @property
    def project(self) -> str:
        """The project the run belongs to.

        Example:
            print(f"{run.project}/{run.name}")
        """
        return str(self._recorder.identity["project"])

    @property
    def dir(self) -> Path:
        """The run's folder.

        Example:
            (run.dir / "vocabulary.txt").write_text("a b c")
        """
        return self._recorder.folder.path

    @property
    def config(self) -> RunConfig:
        """The configuration; a change is recorded. ``config.copy()`` is a plain dict.

        Example:
            run.config.update(batch_size=32)
            run.config.lr = 1e-3
        """
        return self._recorder.config

    @property
    def summary(self) -> RunSummary:
        """The last value of each metric, read from the run's own journal when it is asked for.

        What you set is recorded and wins in every view, until you delete it.

        Example:
            run.log({"loss": 0.5})
            run.summary["score"] = 1 - run.summary["loss"]
        """
        return self._recorder.summary

    @property
    def attempt(self) -> int:
        """1 for a new run, one more each time it is resumed.

        Example:
            if run.attempt > 1:
                print(f"continuing after step {run.step}")
        """
        return self._recorder.attempt

    @property
    def rank(self) -> int:
        """The rank of this process in a distributed training, 0 in any other; -1 in a child.

        Example:
            if run.rank == 0:
                print("saving the model")
        """
        return self._recorder.rank

    @property
    def step(self) -> int:
        """The last step that was logged, -1 before the first.

        Example:
            for step in range(run.step + 1, 3):
                run.log({"loss": 1 / (step + 1)}, step=step)
        """
        return self._recorder.step

    @property
    def state(self) -> RunState:
        """``open``, ``resuming`` (until the first step), ``off`` (nothing is written) or
        ``finished`` (calls that record raise); compares equal to these texts.

        Example:
            if run.state != "finished":
                run.log({"loss": 0.5})
        """
        return self._recorder.state

    # -- metrics and typed records ----------------------------------------------------------------

    def log(self, metrics: Metrics, step: int | None = None) -> None:
        """Append metrics at a step, by default the last one + 1; nested dicts flatten with dots.

        Values may be Python or numpy numbers or 0-d torch tensors; one on a GPU is not waited for.
        A text is recorded as text, a list of texts as its lines, and an array or a list of numbers
        as a histogram. Pictures, figures, tables and the like are recorded as samples: PIL images,
        figures of Matplotlib and Plotly, lists of dicts, data frames, and ``epochal.Image``,
        ``Audio``, ``Video``, ``Table``, ``Html`` and ``Markdown``. Anything else is skipped and
        reported once for each name; ``init(strict=True)`` raises instead.

        Args:
            metrics: The values by name.
            step: The step; by default the last one + 1.

        Example:
            run.log({"loss": 0.5, "val": {"accuracy": 0.8}})
            run.log({"sample": "Once upon a time", "weights": [0.1, -0.2, 0.3]}, step=10)
            run.log({"answers": [{"prompt": "2 + 2", "answer": "4", "reward": 1.0}]}, step=10)
        """
        # The hot path. It works on the recorder's attributes itself, because a call of a method
        # costs a tenth of this one. A dict of plain finite numbers, which nearly every call has,
        # takes one encoding, one sum that vouches for all values, and one write. Anything else
        # (tensors, nested metrics, mistakes) goes to ``log_carefully``, which alone has the rules.
        recorder = self._recorder
        line = b""
        try:
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
                # Not zero when a value is not finite, which JSON cannot hold.
                is_plain = sum(metrics.values(), 0.0) * 0.0 == 0.0 and "" not in metrics
            except ANY_FAULT:
                is_plain = False
            if not is_plain:
                recorder.log_carefully(metrics, at, step)
                return
            append = recorder.append  # Python calls a local faster than an attribute
            append(line, at)
            recorder.latest = line
            if at >= recorder.show_at:
                recorder.show_metrics(at, step, metrics)
        except RecursionError:  # no frame was left for one of these calls
            if not line or recorder.latest is not line:
                call_with_room(
                    lambda: recorder.log_carefully(metrics, now(), recorder.read_step(step))
                )

    @called_by_program("run.log_step", _guard_of)
    def log_step(
        self,
        step: Whole,
        epoch: Value = None,
        tokens: Value = None,
        duration_ms: Value = None,
        norm: Value = None,
        loss: Value = None,
        lr: Value = None,
        *,
        norm_clipped: Value = None,
        kd_loss: Value = None,
        sol: Value = None,
        phase: str | None = None,
        moe: Mapping[str, Value] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Append one optimisation step and print its line.

        Args:
            step: The step, or the whole record as the JSON log has it.
            epoch: Completed epochs, with a fraction.
            tokens: How many tokens the step read.
            duration_ms: How long the step took, in milliseconds.
            norm: The norm of the gradients before clipping.
            loss: The training loss.
            lr: The learning rate.
            norm_clipped: The norm of the gradients after clipping.
            kd_loss: The loss of distillation.
            sol: The percentage of the speed of light.
            phase: A word such as ``warmup``.
            moe: Metrics of routers.
            metrics: Any other metrics.

        Example:
            run.log_step(3, 0.25, tokens=4096, duration_ms=120.0, norm=0.8, loss=2.1, lr=1e-3)
            run.log_step({"step": 4, "step_tokens": 4096, "duration_ms": 118, "loss": 2.0})
        """
        if moe is not None and not isinstance(moe, Mapping):
            raise ValueTypeError(f"moe must be a mapping, not a {type(moe).__name__}.")
        of_step = {"epoch": epoch, "step_tokens": tokens, "duration_ms": duration_ms}
        of_model = {"norm": norm, "loss": loss, "lr": lr, "norm_clipped": norm_clipped}
        more = {"tokens_per_second": None, "kd_loss": kd_loss, "sol": sol, "phase": phase}
        fields: dict[str, Any] = {**of_step, **of_model, **more}
        for name, value in (moe or {}).items():
            fields[f"moe_{str(name).removeprefix('moe_')}"] = value
        fields["m"] = metrics
        typed.write(self._recorder, "step", "step", step, fields)

    @called_by_program("run.log_eval", _guard_of)
    def log_eval(
        self,
        step: Whole,
        epoch: Value = None,
        tokens: Value = None,
        duration_ms: Value = None,
        loss: Value = None,
        *,
        metrics: Metrics | None = None,
    ) -> None:
        """Append one evaluation and print its line with the gap to the training loss.

        Args:
            step: The step, or the whole record as the JSON log has it. None is the last step.
            epoch: Completed epochs, with a fraction.
            tokens: How many tokens were evaluated.
            duration_ms: How long the evaluation took, in milliseconds.
            loss: The evaluation loss.
            metrics: Any other metrics, such as an accuracy.

        Example:
            run.log_eval(3, 0.25, 4096, 900.0, 2.3, metrics={"accuracy": 0.4})
            run.log_eval({"step": 4, "eval_tokens": 4096, "loss": 2.2})
        """
        speed: dict[str, Any] = {"eval_tokens": tokens, "duration_ms": duration_ms, "loss": loss}
        more: dict[str, Any] = {"tokens_per_second": None, "m": metrics}
        typed.write(self._recorder, "eval", "step", step, {"epoch": epoch, **speed, **more})

    @called_by_program("run.log_epoch", _guard_of)
    def log_epoch(
        self,
        epoch: Whole,
        duration_s: Value = None,
        metrics: Metrics | None = None,
        *,
        total: Value = None,
        resources: Mapping[str, Any] | None = None,
        gpus: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Append one finished epoch and print its line.

        Args:
            epoch: How many epochs are complete, or the whole record as the JSON log has it.
            duration_s: How long the epoch took, in seconds.
            metrics: The metrics of the epoch by name.
            total: How many epochs the run has.
            resources: The state of the machine at the end of the epoch.
            gpus: The state of the GPUs at the end of the epoch.

        Example:
            run.log_epoch(1, 42.0, {"loss": 0.7, "accuracy": 0.8}, total=10)
            run.log_epoch({"epoch": 2, "duration_s": 41.5, "m": {"loss": 0.6}})
        """
        machine = {"resources": resources, "gpus": as_list(gpus, argument="gpus") or None}
        own = {"total": total, "duration_s": duration_s, "m": metrics}
        typed.write(self._recorder, "epoch", "epoch", epoch, {**own, **machine})

    @called_by_program("run.log_moe_stats", _guard_of)
    def log_moe_stats(
        self,
        /,
        step: Whole,
        aux_loss: Scalar | Mapping[str, Any] | typed.HasFields | None = None,
        z_loss: Value = None,
        utilization: Value = None,
        imbalance: Value = None,
        **more: Value,
    ) -> None:
        """Append router health: losses, share of experts used (0-1), max over mean load (>= 1).

        ``more`` has ``active_experts``, ``max_expert_fraction``, ``min_active_expert_fraction``,
        ``load_cv``, ``router_entropy`` and ``router_confidence``. What ``epochal.torch.moe_stats``
        gives, or a mapping, may replace all of them; ``step`` may be the whole record.

        Args:
            step: The step, or the whole record as the JSON log has it.
            aux_loss: The load-balancing loss.
            z_loss: The z loss.
            utilization: The share of experts that get tokens, 0 to 1.
            imbalance: The largest load over the mean load.
            more: Other figures by name.

        Example:
            run.log_moe_stats(3, 0.02, 0.001, 0.95, 1.4)
            run.log_moe_stats(4, {"aux_loss": 0.02, "load_imbalance": 1.3})
        """
        stats = typed.as_fields(aux_loss)
        fields: dict[str, Any] = {"aux_loss": aux_loss if stats is None else None, "z_loss": z_loss}
        fields |= {"expert_utilization": utilization, "load_imbalance": imbalance}
        typed.write(self._recorder, "moe", "step", step, {**fields, **more, **(stats or {})})

    @called_by_program("run.log_gpu_state", _guard_of)
    def log_gpu_state(
        self, /, step: Whole = None, gpu_id: Value = 0, **fields: Scalar | str | None
    ) -> None:
        """Append one GPU's telemetry, such as ``clock`` (MHz), ``power`` (mW) and ``gpu_util`` (%).

        Also ``max_clock``, ``power_limit``, ``temperature``, ``temp_slowdown``, ``fan``,
        ``mem_util``, ``dram_free``, ``dram_used``, ``dram_total``, ``pcie_rx``, ``pcie_tx``,
        ``sm_active``, ``tensor_active``, ``dram_active``, ``energy``, ``ecc_corrected``,
        ``ecc_uncorrected`` and ``throttle`` (a text). ``step`` may be the whole record.

        Args:
            step: The step, or the whole record as the JSON log has it.
            gpu_id: The number of the GPU.
            fields: The readings by name.

        Example:
            run.log_gpu_state(3, 0, clock=1980, power=650_000, gpu_util=98, throttle="")
            run.log_gpu_state({"step": 4, "id": 1, "temperature": 71})
        """
        typed.write(self._recorder, "gpu", "step", step, {"id": gpu_id, **fields})

    @called_by_program("run.log_gpu_model", _guard_of)
    def log_gpu_model(
        self, /, model: Mapping[str, Any] | None = None, **fields: Scalar | str | None
    ) -> None:
        """Append what a GPU is: ``name``, ``sm_count``, ``memory`` and ``free`` (bytes), ``uuid``.

        Also ``major`` and ``minor`` (its capability), ``l2_size``, ``ecc``, ``cuda_driver``,
        ``cuda_runtime``, ``rank`` and ``id``; by name, or in one mapping.

        Args:
            model: The facts in one mapping, in place of ``fields``.
            fields: The facts by name.

        Example:
            run.log_gpu_model(name="NVIDIA H200", sm_count=132, memory=150_000_000_000)
            run.log_gpu_model({"name": "NVIDIA H200", "major": 9, "minor": 0})
        """
        typed.write(self._recorder, "gpu-model", "", model, dict(fields))

    @called_by_program("run.log_sol_estimate", _guard_of)
    def log_sol_estimate(
        self,
        /,
        estimate: typed.HasFields | Mapping[str, Any] | None = None,
        **fields: Scalar | str | None,
    ) -> None:
        """Append the speed-of-light estimate: FLOP per token by part, and tokens per second.

        Takes what :func:`epochal.speed_of_light` gives, a mapping, or the fields by name:
        ``blocks``, ``lm_head``, ``attention`` and ``tps``; peaks in TFLOP/s as ``bf16_peak``,
        ``tf32_peak``, ``fp16_peak``, ``fp8_peak``; ``dtype``, by default ``bf16``. Steps logged
        afterwards get their ``sol``.

        Args:
            estimate: What `speed_of_light` returned, or a mapping.
            fields: The facts by name.

        Example:
            run.log_sol_estimate(blocks=2.1e10, lm_head=1.2e9, attention=1.4e9, tps=40_000)
        """
        dtype = {"dtype": "bf16"} if estimate is None else {}
        typed.write(self._recorder, "sol", "", estimate, {**dtype, **fields})

    @called_by_program("run.log_allocator", _guard_of)
    def log_allocator(
        self, stats: Iterable[Any] | Mapping[str, Any], *, step: Value = 0, gpu: Value = None
    ) -> None:
        """Append memory by segment, in bytes: a list of segments, or a mapping of name to bytes.

        A segment has a ``name`` and bytes in ``device``, ``managed``, ``pinned`` or ``pageable``.
        ``gpu`` is the number of the GPU. ``stats`` may be the whole record as the JSON log has it.

        Args:
            stats: The segments, or the whole record as the JSON log has it.
            step: The step.
            gpu: The number of the GPU.

        Example:
            run.log_allocator({"weights": 500_000_000, "optimizer": 1_000_000_000}, step=3)
            run.log_allocator([{"name": "weights", "device": 500_000_000, "pinned": 0}], gpu=0)
        """
        is_record = isinstance(stats, Mapping) and isinstance(stats.get("stats"), list)
        whole = stats if is_record else {"stats": stats}
        gpu = getattr(stats, "gpu", None) if gpu is None else gpu
        typed.write(self._recorder, "allocator", "", whole, {"step": step, "id": gpu})

    @called_by_program("run.log_dataset", _guard_of)
    def log_dataset(
        self,
        split: str | Mapping[str, Any],
        *,
        files: Scalar | Sequence[str | PathLike[str]] = 0,
        tokens: Scalar = 0,
        file_index: Value = None,
        chunk_index: Value = None,
        seed: Value = None,
    ) -> None:
        """Append a data split's facts; ``files`` is a count or the list of paths.

        ``file_index`` and ``chunk_index`` are the position of the reader. ``split`` may be the
        whole record as the JSON log has it.

        Args:
            split: The name of the split, or the whole record as the JSON log has it.
            files: The number of files, or their paths.
            tokens: How many tokens the split has.
            file_index: The file that the reader is at.
            chunk_index: The chunk that the reader is at.
            seed: The seed of the order.

        Example:
            run.log_dataset("train", files=["a.bin", "b.bin"], tokens=2_000_000, seed=42)
            run.log_dataset({"split": "train", "files": 3, "tokens": 1000})
        """
        size = {"files": files, "tokens": tokens}
        place = {"file_index": file_index, "chunk_index": chunk_index, "seed": seed}
        typed.write(self._recorder, "dataset", "split", split, {**size, **place})

    @called_by_program("run.log_abs_maxes", _guard_of)
    def log_abs_maxes(self, step: Whole, values: Metrics | None = None) -> None:
        """Append the largest absolute value of each named tensor.

        ``step`` may be the whole record as the JSON log has it.

        Args:
            step: The step, or the whole record as the JSON log has it.
            values: The largest absolute values by name.

        Example:
            run.log_abs_maxes(3, {"blocks.0.mlp": 12.5})
            run.log_abs_maxes({"step": 4, "values": {"blocks.0.mlp": 12.8}})
        """
        own = {} if values is None else {"values": values}
        typed.write(self._recorder, "abs-maxes", "step", step, own)

    # -- samples and files ------------------------------------------------------------------------

    @called_by_program("run.log_file", _guard_of)
    def log_file(
        self, path: str | PathLike[str], name: str | None = None, *, step: Value = None
    ) -> None:
        """Keep a copy of a file with the run, such as a configuration or a report.

        The copy stays as it is when you change the file later. ``name`` is the file's name by
        default, and may have slashes. The files of a folder are kept one by one as ``name/file``,
        up to 1,000 of them. Equal content is stored once. The call returns when the copy is made.

        Args:
            path: The file or folder.
            name: The name in the run, by default that of the file.
            step: The step that it belongs to.

        Example:
            (run.dir / "vocabulary.txt").write_text("a b c")
            run.log_file(run.dir / "vocabulary.txt")
            run.log_file(run.dir / "vocabulary.txt", "tokenizer/words.txt", step=1000)
        """
        from epochal.run.files import log_file

        log_file(self._recorder, path, name, step)

    def files(self) -> list[StoredSample]:
        """The files that were kept with ``log_file``, the newest version of each name last.

        Each has a ``name``, ``step``, ``bytes``, ``media_type`` and ``path``.

        Example:
            for file in run.files():
                print(file.name, file.bytes, file.path)
        """
        from epochal.run.files import files_of_run

        return files_of_run(self._recorder)

    @called_by_program("run.log_graph", _guard_of)
    def log_graph(self, /, svg: str, *, name: str = "model", **facts: Any) -> None:
        """Append a picture of a model as SVG text, with facts such as its hash.

        Args:
            svg: The picture.
            name: The name of the model.
            facts: Facts about the model by name.

        Example:
            run.log_graph("<svg xmlns='http://www.w3.org/2000/svg'/>", parameters=124_000_000)
        """
        typed.write_graph(self._recorder, svg, name, facts)

    # -- words, times and meaning -----------------------------------------------------------------

    @called_by_program("run.event", _guard_of)
    def event(self, /, name: str, **fields: Any) -> None:
        """Append something that happened: a checkpoint, a restart, a change of data.

        Args:
            name: What happened.
            fields: Facts about it by name.

        Example:
            run.event("checkpoint", path="model.pt")
        """
        self._recorder.event(name, **fields)

    @called_by_program("run.message", _guard_of)
    def message(self, text: str, *, level: str = "info") -> None:
        """Append a message for people, and print it at its level.

        Args:
            text: The message.
            level: ``debug``, ``info``, ``warning`` or ``error``.

        Example:
            run.message("The learning rate is halved.", level="warning")
        """
        self._recorder.alerts.message(text, level=level)

    @called_by_program("run.alert", _guard_of, default=False)
    def alert(
        self, title: str, text: str = "", *, level: str = "info", wait_s: float = 60.0
    ) -> bool:
        """Send a message where findings are sent (``init(alerts=…)``), record it and print it.

        Args:
            title: The first line of the message.
            text: The rest of the message.
            level: info, warning or error, or a level of ``logging``.
            wait_s: Leave out an alert of the same title for so many seconds.

        Returns:
            False where the alert was left out.

        Example:
            run.alert("accuracy is above 90 %", "Time to look at it.", level="info")
        """
        return self._recorder.alerts.send(title, text, level=level, wait_s=wait_s)

    @called_by_program("run.section", _guard_of, default=nullcontext())
    def section(self, name: str) -> AbstractContextManager[None]:
        """Time a section: print and record how long it took.

        Args:
            name: What the section does.

        Example:
            with run.section("load the data"):
                data = list(range(1000))
        """
        return timed_section(self._recorder, name)

    @called_by_program("run.phase", _guard_of, default=nullcontext())
    def phase(self, name: str) -> Phase:
        """Time a part of each step, as a context manager or a decorator; on a GPU by its clock.

        ``data``, ``forward``, ``backward``, ``optimizer``, ``sync``, ``eval``, ``save`` and ``log``
        are understood by what explains lost time; any other name will do. Phases may be nested.
        One costs a microsecond, never waits and never raises once it is made.

        Args:
            name: The name of the phase.

        Example:
            with run.phase("data"):
                batch = list(range(32))
        """
        known = name if type(name) is str and name else self._recorder.call("phases").name(name)
        return self._recorder.phases.named("unnamed" if known is None else known)

    @called_by_program("run.define", _guard_of)
    def define(
        self,
        name: str,
        *,
        unit: str | None = None,
        goal: str | None = None,
        x: str | None = None,
        role: str | None = None,
    ) -> None:
        """Describe a metric: unit, goal, role and x axis.

        Args:
            name: The metric, or a pattern.
            unit: The unit, such as ``ms``.
            goal: ``min`` or ``max``: which way is better.
            x: The metric to draw this one against, in charts, exports and ``series()``.
            role: What the metric is for the rules, such as ``loss``, ``lr`` or ``norm``.

        Example:
            run.define("val/accuracy", goal="max", unit="%")
            run.define("val/*", x="epoch")
        """
        meaning = {"unit": unit, "goal": goal, "x": x, "role": role}
        typed.write_definition(self._recorder, name, meaning)

    @called_by_program("run.write", _guard_of)
    def write(self, record: Record, *, silent: bool = False) -> None:
        """Append one complete record of any kind, and print what belongs to its kind.

        ``silent`` prints nothing; the record must hold plain values then.

        Args:
            record: The record as the JSON log has it.
            silent: Print nothing.

        Example:
            run.write({"log": "text", "t": 1760000000.0, "step": 3, "name": "sample", "text": "…"})
        """
        given: Any = record
        if not isinstance(given, Mapping) or not isinstance(given.get("log"), str):
            raise ValueTypeError("write() takes a record, which is a dict with its kind as 'log'.")
        write = self._recorder.write if silent is not True else self._recorder.write_silent
        write(record)

    # -- pages and forks --------------------------------------------------------------------------

    def serve(self, port: int | None = None) -> str | None:
        """Show this run and its neighbours live in a browser; None on failure.

        Gives the address, which opens the page on this run. A process of its own serves 127.0.0.1
        and goes on for a minute after this one ends.

        Args:
            port: The port; a free one is chosen if it is taken.

        Example:
            print(run.serve())
        """
        from epochal.run import pages

        return pages.serve(self._recorder, port)

    def save_html(self, path: str | PathLike[str]) -> None:
        """Have the run written as one HTML file when it ends, however; at once if it has ended.

        Called with several paths, it writes each of them. Missing folders are made now.

        Args:
            path: The file to write.

        Example:
            run.save_html("reports/run.html")
        """
        from epochal.run import pages

        pages.save_html(self._recorder, Path(path))

    def fork(self, name: str | None = None, *, step: int | None = None, **arguments: Any) -> Run:
        """Start a run with a copy of this one's history up to a step, by default its last one.

        Args:
            name: The name of the new run.
            step: The last step that is copied; this run stays open.
            arguments: Other arguments of :func:`epochal.init`.

        Example:
            run.log({"loss": 0.5}, step=100)
            branch = run.fork("lower-lr", step=100, config={"lr": 1e-4})
        """
        return self._start_fork(self, name, step, arguments)

    def diagnosis(self) -> Diagnosis:
        """How the training is, as its companion wrote it last; unknown without a companion.

        Example:
            print(run.diagnosis().sentence)
        """
        return carried_diagnosis(self._recorder)

    # -- the end ----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until everything logged so far is on the disk itself, where power loss spares it.

        What the disk fails to store is reported and written again. If that fails too, an
        ``OSError`` is raised, and again by each later call until everything is on the disk.

        Example:
            run.flush()
        """
        self._recorder.flush()

    @called_by_program("run.on_finish", _guard_of)
    def on_finish(self, call: Callable[[], object]) -> None:
        """Have something called when the run finishes, before its last record is written.

        It is called in a thread. ``finish()`` waits for it as long as ``finish_wait_s`` says, at
        least 5 seconds, and then goes on without it.

        Args:
            call: A function without arguments.

        Example:
            run.on_finish(lambda: print("uploading the model"))
        """
        self._recorder.check_open()
        self._recorder.ending.on_finish.add(call)

    @called_by_program("run.finish", _guard_of)
    def finish(self, status: str = "finished", *, reason: str | None = None) -> None:
        """End the run: write the last record, close, and wait until the disk has everything.

        It waits for the disk at most as long as ``finish_wait_s`` says, and reports a disk that
        fails without raising. Whatever callbacks raise, the record is written. Calling it again
        does nothing, except that it completes what an interruption left undone.

        Args:
            status: ``finished``, or another status such as ``failed``.
            reason: Why the run ended.

        Example:
            run.finish("stopped", reason="good enough")
        """
        if not isinstance(status, str):
            raise ValueTypeError(f"status must be a text, not {type(status).__name__}.")
        self._recorder.ending.finish(status, reason)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._recorder.ending.leave(error)
