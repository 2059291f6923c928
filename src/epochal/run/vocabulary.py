"""The typed calls: everything that can be logged besides free metrics.

One abstract class, because two faces speak this vocabulary: a run, and a logger that keeps a JSON
array as well. A call builds one record and hands it to ``write``; what is printed for it is decided
there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import now
from epochal.record import ROLES, Record
from epochal.run import samples, typed
from epochal.values import flatten, plain_int


class Vocabulary(ABC):
    """Turns typed calls into records. Numbers may be Python, numpy or 0-d torch ones."""

    @abstractmethod
    def write(self, record: Record) -> None:
        """Append one complete record, and print what belongs to its kind."""

    @property
    @abstractmethod
    def step(self) -> int:
        """The last training step that was logged, -1 before the first."""

    # -- training ---------------------------------------------------------------------------------

    def log_step(
        self,
        step: Any,
        epoch: Any,
        tokens: Any,
        duration_ms: Any,
        norm: Any,
        loss: Any,
        lr: Any,
        *,
        norm_clipped: Any = None,
        kd_loss: Any = None,
        sol: Any = None,
        phase: str | None = None,
        moe: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Append one optimisation step and print its line.

        ``norm`` is the gradient norm before clipping, ``norm_clipped`` after; ``epoch`` counts
        completed epochs with a fraction; ``moe`` holds router metrics, ``metrics`` anything else.
        """
        core = (step, epoch, tokens, duration_ms, norm, loss, lr)
        more = {"norm_clipped": norm_clipped, "kd_loss": kd_loss, "sol": sol}
        record = typed.step_record(now(), *core, **more, phase=phase, moe=moe, metrics=metrics)
        self.write(record)

    def log_eval(
        self,
        step: Any,
        epoch: Any,
        tokens: Any,
        duration_ms: Any,
        loss: Any,
        *,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Append one evaluation and print its line with the gap to the training loss."""
        core = (step, epoch, tokens, duration_ms, loss)
        record = typed.eval_record(now(), *core, metrics=metrics)
        self.write(record)

    def log_epoch(
        self,
        epoch: int,
        duration_s: float,
        metrics: Mapping[str, Any],
        *,
        total: int | None = None,
        resources: Mapping[str, Any] | None = None,
        gpus: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Append one finished epoch and print its line; ``epoch`` counts completed ones, from 1."""
        flat = flatten(metrics, wait=False)
        record = typed.epoch_record(now(), epoch, duration_s, flat, total=total)
        if resources:
            record["resources"] = dict(resources)
        if gpus:
            record["gpus"] = [dict(gpu) for gpu in gpus]
        self.write(record)

    def log_moe_stats(
        self,
        step: Any,
        aux_loss: Any,
        z_loss: Any = None,
        utilization: Any = None,
        imbalance: Any = None,
        **more: Any,
    ) -> None:
        """Append router health: losses, share of experts used (0-1), max over mean load (>= 1).

        What :func:`epochal.moe_stats` gives may stand for all of them: ``log_moe_stats(step, s)``.
        """
        if hasattr(aux_loss, "fields"):
            self.write(typed.moe_record(now(), step=step, fields={**aux_loss.fields(), **more}))
            return
        fields = {
            "aux_loss": aux_loss,
            "z_loss": z_loss,
            "expert_utilization": utilization,
            "load_imbalance": imbalance,
            **more,
        }
        self.write(typed.moe_record(now(), step=step, fields=fields))

    def log_experts(self, step: Any, layers: Sequence[str], load: Any, *, top_k: Any = 1) -> None:
        """Append how the routers shared their tokens out: of each layer, each expert's share (0-1).

        ``load`` is a table of layers and experts; one on a GPU is waited for.
        """
        record = typed.experts_record(now(), step=step, layers=layers, load=load, top_k=top_k)
        self.write(record)

    def log_gpu_state(self, step: Any, gpu_id: Any = 0, **fields: Any) -> None:
        """Append one GPU's telemetry: clock (MHz), power (mW), gpu_util (%), dram_free (bytes)."""
        self.write(typed.gpu_record(now(), step=step, gpu_id=gpu_id, fields=fields))

    def log_gpu_model(self, **fields: Any) -> None:
        """Append what a GPU is: name, sm_count, major, minor, memory (bytes), uuid, ecc, …"""
        self.write(typed.facts_record("gpu-model", now(), fields))

    def log_sol_estimate(
        self,
        estimate: Any = None,
        *,
        blocks: Any = None,
        lm_head: Any = None,
        attention: Any = None,
        tps: Any = None,
        dtype: str = "bf16",
        **peaks: Any,
    ) -> None:
        """Append the speed-of-light estimate: FLOP per token by part, and tokens per second.

        Takes what :func:`epochal.speed_of_light` gives, or the figures themselves; peaks in TFLOP/s
        come as ``bf16_peak=``, ``tf32_peak=``, ``fp16_peak=``, ``fp8_peak=``. Steps logged from
        here on have their ``sol``.
        """
        parts = {"blocks": blocks, "lm_head": lm_head, "attention": attention}
        given = [
            name for name, value in {**parts, "tps": tps, **peaks}.items() if value is not None
        ]
        if (estimate is not None and given) or (estimate is None and None in parts.values()):
            raise UsageError(
                "log_sol_estimate takes an estimate of epochal.speed_of_light, or blocks=, lm_head="
                " and attention= with tps= and peaks."
            )
        own = {**parts, "tps": tps, **peaks, "dtype": dtype}
        self.write(typed.sol_record(now(), estimate, own))

    def log_allocator(self, stats: Any, *, step: Any = 0, gpu: Any = None) -> None:
        """Append memory by segment, in bytes: a list of segments, or a mapping of name to bytes."""
        self.write(typed.allocator_record(now(), stats=stats, step=step, gpu=gpu))

    def log_dataset(
        self,
        split: str,
        *,
        files: int | Sequence[Any] = 0,
        tokens: Any = 0,
        file_index: Any = None,
        chunk_index: Any = None,
        seed: Any = None,
    ) -> None:
        """Append a data split's facts; ``files`` is a count or the list of paths."""
        place = {"file_index": file_index, "chunk_index": chunk_index, "seed": seed}
        self.write(typed.dataset_record(now(), split, files, tokens=tokens, **place))

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        """Append a piece of text at a step."""
        self.write(typed.text_record(now(), name=name, text=text, step=self.sample_step(step)))

    def log_histogram(
        self, name: str, values: Any, step: int | None = None, *, bins: int = 64
    ) -> None:
        """Append the distribution of many values (list, array, tensor) as counts in equal bins."""
        self.write(
            samples.histogram_record(
                now(), name=name, values=values, step=self.sample_step(step), bins=bins
            )
        )

    def log_abs_maxes(self, step: Any, values: Mapping[str, Any]) -> None:
        """Append the largest absolute value of each named tensor."""
        flat = flatten(values, wait=False)
        self.write(
            {"log": "abs-maxes", "t": now(), "step": plain_int(step, name="step"), "values": flat}
        )

    def log_graph(self, svg: str, *, name: str = "model", **facts: Any) -> None:
        """Append a picture of a model as SVG text, with facts such as its hash."""
        if not isinstance(svg, str):
            raise ValueTypeError("log_graph takes the text of an SVG picture.")
        self.write(
            {"log": "graph", "t": now(), "name": name, "svg": svg, **typed.own_fields(facts)}
        )

    # -- words ------------------------------------------------------------------------------------

    def event(self, name: str, **fields: Any) -> None:
        """Append something that happened: a checkpoint, a restart, a change of data."""
        self.write(
            {
                "log": "event",
                "t": now(),
                "name": typed.checked_name(name),
                **({"step": self.step} if self.step >= 0 else {}),
                **typed.own_fields(fields),
            }
        )

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

        ``x`` names the metric to draw this one against. It is recorded; charts and exports do not
        use it yet.
        """
        self.write(
            typed.define_record(now(), name=name, unit=unit, goal=goal, x=x, role=role, roles=ROLES)
        )

    def sample_step(self, step: Any) -> int:
        """The step a sample belongs to: the given one, or the last that was logged."""
        return max(self.step, 0) if step is None else plain_int(step, name="step")
