"""The training of ``epochal demo``: what a loop looks like that writes down everything it can.

Only ``Trainer`` speaks to the run; text and model know nothing of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from epochal.api.monitor import Monitor
from epochal.demo import text as demo_text
from epochal.demo.model import (
    Adam,
    Codes,
    Model,
    Parameters,
    Shape,
    clip,
    colour_matrix,
    draw_layers,
)
from epochal.exchange.media.types import Image, Table
from epochal.run.console.messages import Verbosity
from epochal.run.run import Run, recorder_of

_LARGEST_NORM = 1.0
_TEMPERATURE = 0.6
_NUM_CONTINUATIONS = 4
_VOWELS = "aeiou"
_SECONDS_BETWEEN_LINES = 0.4
# Planted for ``epochal doctor`` to find: at this share of the training so many batches in a row
# have the answers of other examples, as if a piece of the data were damaged.
_DAMAGED_AT = 0.65
_NUM_DAMAGED = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how large a training is."""

    num_epochs: int = 5
    train_sentences: int = 640
    eval_sentences: int = 40
    batch_size: int = 256
    hidden: int = 160
    lr: float = 0.006
    warmup_steps: int = 80
    sample_length: int = 150
    # A fast machine waits until a step has taken this long, so that there is something to watch.
    pace_s: float = 0.028


WATCHED = Plan()
# Matrices so small that numpy does not spread them over threads, which is slow on a busy machine.
FAST = Plan(
    num_epochs=3,
    train_sentences=45,
    eval_sentences=4,
    batch_size=40,
    hidden=32,
    lr=0.015,
    warmup_steps=10,
    sample_length=60,
    # Below a hundred steps a second every one of them is judged.
    pace_s=0.012,
)


@dataclass(frozen=True, slots=True)
class Examples:
    """Contexts and the character that follows each."""

    contexts: Codes
    targets: Codes

    def __len__(self) -> int:
        return len(self.targets)

    def of(self, chosen: Codes) -> Examples:
        """Some of them, by their places."""
        return Examples(self.contexts[chosen], self.targets[chosen])


def train(
    plan: Plan,
    *,
    seed: int = 0,
    directory: str | Path | None = None,
    verbosity: Verbosity | None = None,
    on_start: Callable[[Monitor], object] | None = None,
) -> Run:
    """Train the model of the plan once, recorded under ``directory``; gives the finished run.

    ``on_start`` is called with the monitor before the first step.
    """
    trainer = Trainer(plan, seed=seed)
    with Monitor(
        plan.num_epochs,
        name="sentences",
        steps=trainer.num_steps,
        project="demo",
        dir=directory,
        config={**asdict(plan), **asdict(trainer.model.shape), "seed": seed},
        tags=["demo"],
        notes="A small character model learns sentences. Every number is of a real training; three"
        " batches in a row are damaged on purpose, for `epochal doctor` to find.",
        line_every_s=_SECONDS_BETWEEN_LINES,
        verbosity=verbosity,
    ) as monitor:
        if on_start is not None:
            on_start(monitor)
        trainer.run_all(monitor)
    return monitor.run


class Trainer:
    """Owns the model and its data, and trains it while a run looks on."""

    def __init__(self, plan: Plan, *, seed: int) -> None:
        self.plan = plan
        self.seed = seed
        self._rng = np.random.default_rng(seed)
        train_text = demo_text.write_text(self._rng, num_sentences=plan.train_sentences)
        eval_text = demo_text.write_text(self._rng, num_sentences=plan.eval_sentences)
        shape = Shape(vocabulary=len(demo_text.ALPHABET), hidden=plan.hidden)
        self.model = Model(shape, rng=self._rng)
        self._train = _examples(train_text, context=shape.context)
        self._eval = _examples(eval_text, context=shape.context)
        # The end of a sentence, so that samples begin with the beginning of one.
        self._prompt = demo_text.encode(eval_text[-shape.context :])
        self._optimizer = Adam(self.model.parameters)
        self._gradients: Parameters = {}
        self._losses: list[float] = []
        self._step_began = 0.0

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the training text."""
        return len(self._train) // self.plan.batch_size

    @property
    def num_steps(self) -> int:
        """Steps of the whole training."""
        return self.plan.num_epochs * self.steps_per_epoch

    @property
    def damaged_steps(self) -> range:
        """The steps whose batches are damaged on purpose."""
        first = round(_DAMAGED_AT * self.num_steps)
        return range(first, first + _NUM_DAMAGED)

    def run_all(self, monitor: Monitor) -> None:
        """Train from the first step to the last: epochs go to the monitor, the rest to its run."""
        run = monitor.run
        self._describe(run)
        self._evaluate(run, step=0)
        for epoch in range(self.plan.num_epochs):
            began = self._step_began = time.monotonic()
            for step, batch in self._batches(epoch):
                self._step(run, step=step, batch=batch)
                if step % self.steps_per_epoch == self.steps_per_epoch // 2:
                    self._evaluate(run, step=step)
                    self._step_began = time.monotonic()
            seconds = time.monotonic() - began
            metrics, sample = self._end_epoch(run, step=(epoch + 1) * self.steps_per_epoch)
            monitor.log(epoch, seconds, metrics)
            for line in sample.strip().splitlines()[:2]:
                recorder_of(run).console.line(f"     ~ {line}")
        with run.section("a longer sample"):
            self._sample(run, step=self.num_steps, length=4 * self.plan.sample_length)

    def _describe(self, run: Run) -> None:
        run.config.update(
            {
                "parameters": self.model.num_parameters,
                "lowest_possible_loss": round(demo_text.lowest_possible_loss(), 4),
            },
            show=True,
        )
        run.log_dataset("train", tokens=len(self._train), seed=self.seed)
        run.log_dataset("eval", tokens=len(self._eval), seed=self.seed)
        run.log_graph(draw_layers(self.model), parameters=self.model.num_parameters)
        run.define("accuracy", goal="max")
        run.define("eval/accuracy", goal="max")
        run.define("real_words", goal="max")
        self._picture(run, step=0)

    def _batches(self, epoch: int) -> Iterator[tuple[int, Examples]]:
        order = self._rng.permutation(len(self._train))
        for place in range(self.steps_per_epoch):
            chosen = order[place * self.plan.batch_size :][: self.plan.batch_size]
            step = epoch * self.steps_per_epoch + place + 1
            yield step, self._damaged(step, self._train.of(chosen))

    def _damaged(self, step: int, batch: Examples) -> Examples:
        is_damaged = step in self.damaged_steps
        return Examples(batch.contexts, batch.targets[::-1]) if is_damaged else batch

    def _step(self, run: Run, *, step: int, batch: Examples) -> None:
        measured = self.model.measure_with_gradients(batch.contexts, batch.targets)
        self._gradients, norm = clip(measured.gradients, largest_norm=_LARGEST_NORM)
        lr = learning_rate(step, plan=self.plan, num_steps=self.num_steps)
        self._optimizer.step(self._gradients, lr=lr)
        time.sleep(max(0.0, self.plan.pace_s - (time.monotonic() - self._step_began)))
        # From the end of the last step to the end of this one: also what recording it took.
        now = time.monotonic()
        seconds, self._step_began = now - self._step_began, now
        self._losses.append(measured.loss)
        run.log_step(
            step,
            step / self.steps_per_epoch,
            len(batch),
            1000.0 * seconds,
            norm,
            measured.loss,
            lr,
            norm_clipped=min(norm, _LARGEST_NORM),
            metrics={"accuracy": measured.accuracy},
        )

    def _evaluate(self, run: Run, *, step: int) -> tuple[float, float]:
        began = time.monotonic()
        loss, accuracy = self.model.measure(self._eval.contexts, self._eval.targets)
        run.log_eval(
            step,
            step / self.steps_per_epoch,
            len(self._eval),
            1000.0 * (time.monotonic() - began),
            loss,
            metrics={"eval/accuracy": accuracy},
        )
        return loss, accuracy

    def _end_epoch(self, run: Run, *, step: int) -> tuple[dict[str, float], str]:
        losses, self._losses = self._losses, []
        eval_loss, eval_accuracy = self._evaluate(run, step=step)
        sample = self._sample(run, step=step, length=self.plan.sample_length)
        for name, values in self.model.parameters.items():
            distributions = {f"weights/{name}": values, f"gradients/{name}": self._gradients[name]}
            run.log(distributions, step)
        self._picture(run, step=step)
        run.log({"continuations": self._continuations(step), "vowels": self._confusion()}, step)
        metrics = {
            "loss": sum(losses) / len(losses),
            "eval_loss": eval_loss,
            "eval_accuracy": eval_accuracy,
            "real_words": demo_text.share_of_real_words(sample),
        }
        return metrics, sample

    def _sample(self, run: Run, *, step: int, length: int) -> str:
        drawn = self.model.continue_text(
            self._prompt, length=length, temperature=_TEMPERATURE, rng=self._rng
        )
        text = demo_text.decode(drawn)
        run.log({"sample": text}, step)
        return text

    def _picture(self, run: Run, *, step: int) -> None:
        weights = self.model.parameters["hidden.weight"]
        picture = Image(colour_matrix(weights.T), caption="blue < 0 < red")
        run.log({"hidden.weight": picture}, step)

    def _continuations(self, step: int) -> list[dict[str, str | float]]:
        """A few completions of one prompt, as rows of a table."""
        rng, prompt = np.random.default_rng(step), demo_text.decode(self._prompt).strip()
        rows: list[dict[str, str | float]] = []
        for temperature in np.linspace(0.2, 1.0, _NUM_CONTINUATIONS):
            drawn = self.model.continue_text(
                self._prompt, length=self.plan.sample_length, temperature=temperature, rng=rng
            )
            text = demo_text.decode(drawn)
            reward = {"real words": demo_text.share_of_real_words(text), "length": len(text)}
            rows.append(
                {"prompt": prompt, "completion": text, **reward, "temperature": temperature}
            )
        return rows

    def _confusion(self) -> Table:
        """Which vowels of the evaluation text the model takes for which."""
        guesses = self.model.guesses(self._eval.contexts)
        true, guessed = (
            np.array(list(demo_text.ALPHABET))[c] for c in (self._eval.targets, guesses)
        )
        rows = [
            {"true": a, "guess": b, "count": int(((true == a) & (guessed == b)).sum())}
            for a in _VOWELS
            for b in _VOWELS
        ]
        return Table(rows, chart={"kind": "matrix", "x": "guess", "y": "true", "value": "count"})


def learning_rate(step: int, *, plan: Plan, num_steps: int) -> float:
    """Warm-up in a straight line, then half a cosine down to a twentieth; steps count from 1."""
    if step < plan.warmup_steps:
        return plan.lr * step / plan.warmup_steps
    share = (step - plan.warmup_steps) / max(1, num_steps - plan.warmup_steps)
    return plan.lr * (0.05 + 0.95 * (1.0 + math.cos(math.pi * share)) / 2.0)


def _examples(text: str, *, context: int) -> Examples:
    windows = np.lib.stride_tricks.sliding_window_view(demo_text.encode(text), context + 1)
    return Examples(windows[:, :-1], windows[:, -1])
