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
from epochal.guard import attempt
from epochal.journal.line import now
from epochal.records import KINDS, Record
from epochal.run import samples, typed
from epochal.run.accepted import CallValues, ValuePolicy
from epochal.values import SAMPLE_SIZE, plain_json


class Vocabulary(ABC):
    """Turns typed calls into records. Numbers may be Python, numpy or 0-d torch ones.

    A value that cannot be recorded is left out and noted by ``values``, unless that is strict.
    """

    @abstractmethod
    def write(self, record: Record) -> None:
        """Append one complete record, and print what belongs to its kind."""

    @property
    @abstractmethod
    def step(self) -> int:
        """The last training step that was logged, -1 before the first."""

    @property
    @abstractmethod
    def values(self) -> ValuePolicy:
        """Whether values that cannot be recorded raise, and how many there were."""

    @abstractmethod
    def check_open(self) -> None:
        """Raise unless records can still be written."""

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
        call = self._call("step")
        core = (epoch, tokens, duration_ms, norm, loss, lr)
        more = {"norm_clipped": norm_clipped, "kd_loss": kd_loss, "sol": sol}
        at = self._next_step(step)
        record = typed.step_record(
            now(), call, at, *core, **more, phase=phase, moe=moe, metrics=metrics
        )
        self.write(record)
        self.write_samples(call, at)

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
        call, at = self._call("eval"), self.sample_step(step)
        core = (epoch, tokens, duration_ms, loss)
        self.write(typed.eval_record(now(), call, at, *core, metrics=metrics))
        self.write_samples(call, at)

    def log_epoch(
        self,
        epoch: int,
        duration_s: float | None,
        metrics: Mapping[str, Any],
        *,
        total: int | None = None,
        resources: Mapping[str, Any] | None = None,
        gpus: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Append one finished epoch and print its line; ``epoch`` counts completed ones, from 1."""
        call = self._call("epoch")
        number = call.whole(epoch, name="epoch")
        done = self._epoch + 1 if number is None else number
        record = typed.epoch_record(now(), call, done, duration_s, metrics, total=total)
        self._epoch = done
        if resources:
            record["resources"] = plain_json(resources)
        if gpus:
            record["gpus"] = plain_json(list(gpus))
        self.write(record)
        self.write_samples(call, self.sample_step(None))

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

        What ``epochal.torch.moe_stats`` gives may stand for all: ``log_moe_stats(step, stats)``.
        """
        call, at = self._call("moe"), self.sample_step(step)
        if attempt(hasattr, aux_loss, "fields")[0]:
            given = self.values.read("moe", _fields_of, aux_loss) or {}
            fields = {**given, **more}
        else:
            fields = {
                "aux_loss": aux_loss,
                "z_loss": z_loss,
                "expert_utilization": utilization,
                "load_imbalance": imbalance,
                **more,
            }
        self.write(typed.moe_record(now(), call, at, fields))
        self.write_samples(call, at)

    def log_experts(self, step: Any, layers: Sequence[str], load: Any, *, top_k: Any = 1) -> None:
        """Append how the routers shared their tokens out: of each layer, each expert's share (0-1).

        ``load`` is a table of layers and experts; one on a GPU is waited for.
        """
        call, at = self._call("experts"), self.sample_step(step)
        self._write_if(typed.experts_record(now(), call, at, layers=layers, load=load, top_k=top_k))

    def log_gpu_state(self, step: Any, gpu_id: Any = 0, **fields: Any) -> None:
        """Append one GPU's telemetry: clock (MHz), power (mW), gpu_util (%), dram_free (bytes)."""
        call = self._call("gpu")
        number = call.whole(gpu_id, name="gpu_id")
        if number is None:
            return  # readings of a GPU that nobody can tell from the others
        at = None if step is None else self.sample_step(step)
        self.write(typed.gpu_record(now(), call, at, number, fields))
        self.write_samples(call, self.sample_step(None) if at is None else at)

    def log_gpu_model(self, **fields: Any) -> None:
        """Append what a GPU is: name, sm_count, major, minor, memory (bytes), uuid, ecc, …"""
        self.write(typed.facts_record("gpu-model", now(), self._call("gpu-model"), fields))

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
        self._write_if(typed.sol_record(now(), self._call("sol"), estimate, own))

    def log_allocator(self, stats: Any, *, step: Any = 0, gpu: Any = None) -> None:
        """Append memory by segment, in bytes: a list of segments, or a mapping of name to bytes."""
        call, at = self._call("allocator"), self.sample_step(step)
        self._write_if(typed.allocator_record(now(), call, at, stats=stats, gpu=gpu))

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
        call = self._call("dataset")
        self.write(typed.dataset_record(now(), call, split, files, tokens=tokens, **place))

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        """Append a piece of text at a step."""
        call = self._call("text")
        known = call.name(name)
        words = None if known is None else call.text(text, name=known)
        if known is not None and words is not None:
            at = self.sample_step(step)
            self.write(typed.text_record(now(), name=known, text=words, step=at))

    def log_histogram(
        self, name: str, values: Any, step: int | None = None, *, bins: int = 64
    ) -> None:
        """Append the distribution of many values (list, array, tensor) as counts in equal bins.

        One on a GPU is not waited for. Of more than a million values some are counted, evenly.
        """
        known = self._call("histogram").name(name)
        if known is not None:
            self._write_histogram(known, values, self.sample_step(step), bins=bins)

    def log_abs_maxes(self, step: Any, values: Mapping[str, Any]) -> None:
        """Append the largest absolute value of each named tensor."""
        call, at = self._call("abs-maxes"), self.sample_step(step)
        flat = call.metrics(values, argument="values")
        self.write({"log": "abs-maxes", "t": now(), "step": at, "values": flat})
        self.write_samples(call, at)

    def log_graph(self, svg: Any, *, name: str = "model", **facts: Any) -> None:
        """Append a picture of a model as SVG text, with facts such as its hash."""
        call = self._call("graph")
        known = call.name(name)
        if not isinstance(svg, str):  # whatever its annotation says
            wrong = ValueTypeError("log_graph takes the text of an SVG picture.")
            self.values.drop("graph", svg, wrong)
        elif known is not None:
            own = plain_json(call.own(facts))
            self.write({"log": "graph", "t": now(), "name": known, "svg": svg, **own})

    # -- words ------------------------------------------------------------------------------------

    def event(self, name: str, **fields: Any) -> None:
        """Append something that happened: a checkpoint, a restart, a change of data."""
        call = self._call("event")
        known = call.name(name)
        if known is not None:
            at = {"step": self.step} if self.step >= 0 else {}
            own = plain_json(call.own(fields))
            self.write({"log": "event", "t": now(), "name": known, **at, **own})

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
        self.write(typed.define_record(now(), name=name, unit=unit, goal=goal, x=x, role=role))

    def sample_step(self, step: Any) -> int:
        """The step a sample belongs to: the given one, or the last that was logged."""
        given = None if step is None else self.values.step(step)
        return max(self.step, 0) if given is None else given

    def write_samples(self, call: CallValues, step: int) -> None:
        """Append the texts and arrays that were passed where numbers belong."""
        for name, text in call.texts:
            self.write(typed.text_record(now(), name=name, text=text, step=step))
            reason = f"metric {name!r} is a text, not a number."
            self.values.convert(name, text, to="text", reason=reason)
        for name, array in call.arrays:
            self._write_histogram(name, array, step, is_converted=True)

    # -- inner ------------------------------------------------------------------------------------

    # The last epoch that was logged; a class's attribute until the first one is.
    _epoch = 0

    def _call(self, kind: str) -> CallValues:
        self.check_open()
        return CallValues(self.values, prefix=KINDS[kind].prefix)

    def _next_step(self, step: Any) -> int:
        given = self.values.step(step)
        return self.step + 1 if given is None else given

    def _write_if(self, record: Record | None) -> None:
        if record is not None:
            self.write(record)

    def _write_histogram(
        self, name: str, values: Any, step: int, *, bins: Any = 64, is_converted: bool = False
    ) -> None:
        """Append a distribution; what has none is noted."""
        record, error = attempt(
            samples.histogram_record, now(), name=name, values=values, step=step, bins=bins
        )
        if record is None:
            self.values.drop(name, values, error or "no values")
            return
        self.write(record)
        there = record.get("sampled_from")
        if there is not None:
            reason = f"{name!r} holds {there} values; {SAMPLE_SIZE} of them are counted, evenly."
            self.values.convert(name, values, to="histogram", reason=reason, sampled_from=there)
        elif is_converted:
            reason = f"metric {name!r} holds many values, not one number."
            self.values.convert(name, values, to="histogram", reason=reason)


def _fields_of(stats: Any) -> dict[str, Any]:
    return dict(stats.fields())
