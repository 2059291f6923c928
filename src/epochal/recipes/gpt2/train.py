"""The loop. What watches it: `init`, `log_step`, `watch`, `Checkpoints`, and the evaluation."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from epochal import Checkpoints, Retention, Run, TrainingState, init, speed_of_light, watch
from epochal.recipes.gpt2.clock import StepClock
from epochal.recipes.gpt2.flags import Flags
from epochal.recipes.gpt2.interruption import Interruption
from epochal.recipes.gpt2.resuming import (
    FORKED_FROM,
    RESUME_WITH,
    RUN_NAME,
    Origin,
    borrowed_weights,
)
from epochal.recipes.gpt2.setup import Training
from epochal.settings import read_settings
from epochal.torch import ClipStats, SpeedOfLight, clip_grad_norm, memory_segments, set_lr


def train(training: Training, *, origin: Origin | None = None, goes_on: bool = False) -> Run:
    """Train from the first step, or from where a checkpoint was, to the last; gives the run.

    `goes_on` has a run of the same name go on even where there is no checkpoint of it yet.
    """
    flags, evaluation = training.flags, training.evaluation
    first = 0 if origin is None else origin.next_step
    with (
        open_run(training, origin, goes_on=goes_on) as run,
        open_checkpoints(training, run) as checkpoints,
    ):
        if origin is not None:
            checkpoints.restore(origin.manifest.name, source=origin.folder)
            print_origin(run, origin)
        record_setup(training, run, first_step=first)
        interruption = Interruption(training, checkpoints, run, first=first)
        iterate = interruption.iterate
        if first == 0:
            evaluation.evaluate(run, step=0, epoch=0.0, iterate=iterate)
        elif origin is not None and owes_evaluation(origin, flags):
            epoch = first / flags.steps_per_epoch
            evaluated = evaluation.evaluate(run, step=first - 1, epoch=epoch, iterate=iterate)
            keep(checkpoints, flags, step=first - 1, metric=evaluated)
        clock, clipping = StepClock(training.place), ClipStats()
        for step in range(first, flags.last_step):
            lr = training.schedule.lr(step)
            set_lr(training.optimizer, lr)
            interruption.begin()
            taken = accumulate_gradients(training, run, clock, interruption)
            with run.phase("optimizer"):
                norm = clip_grad_norm(training.model, flags.grad_clip, stats=clipping)
                training.optimizer.step()
            if step == first:
                memory = memory_segments(training.model, training.optimizer)
                run.log_allocator(memory, step=step, gpu=memory.gpu)
            training.optimizer.zero_grad(set_to_none=True)

            clipped, epoch = clipping.metrics(), (step + 1) / flags.steps_per_epoch
            run.log_step(
                *(step, epoch, taken.num_tokens, clock.lap_ms(), norm, taken.loss, lr),
                norm_clipped=clipped["norm_clipped"],
                metrics=taken.metrics(flags),
            )
            checkpoints.losses.add(step, taken.loss)
            interruption.end(step)
            with clock.paused(when=is_milestone(step, flags)):
                metric = None
                if is_due(step, flags, every=flags.eval_freq):
                    with run.phase("eval"):
                        more = {"Gradient/clip_rate": clipping.clip_rate}
                        metric = evaluation.evaluate(
                            run, step=step, epoch=epoch, more=more, iterate=iterate
                        )
                    clipping.reset()
                    interruption.evaluated(metric)
                with run.phase("save"):
                    keep(checkpoints, flags, step=step, metric=metric)
    return run


@dataclass(frozen=True, slots=True)
class Taken:
    """One step: its loss over all ranks, the tokens they read, and the targets that counted."""

    loss: Tensor
    num_tokens: int
    num_targets: int

    def metrics(self, flags: Flags) -> dict[str, float]:
        """What only fine-tuning has to say."""
        if flags.finetune is None:
            return {}
        share = self.num_targets / self.num_tokens
        return {"Finetune/answer_tokens": self.num_targets, "Finetune/answer_share": share}


def accumulate_gradients(
    training: Training, run: Run, clock: StepClock, interruption: Interruption
) -> Taken:
    """Forward and backward over the batches of one step.

    Each batch weighs as much as it has targets, so that the step is the mean over all of them,
    however they are spread over batches and ranks. Gradients are exchanged once, with the last.
    """
    place = training.place
    with run.phase("data"):
        batches = [training.batches.next() for _ in range(training.accumulation)]
    num_targets = sum(batch.all_targets for batch in batches)
    loss = torch.zeros((), device=place.device)
    for number, batch in enumerate(batches, 1):
        is_last = number == len(batches)
        with place.together(training.trained, when=is_last):
            with run.phase("forward"), place.autocast():
                part = training.trained(batch.inputs, batch.targets)
            part = part * (batch.num_targets * place.world_size / num_targets)
            if is_last:
                clock.mark()
            with run.phase("backward"):
                part.backward()
        loss += part.detach()
        if not is_last:
            interruption.look()
    return Taken(place.mean(loss), sum(batch.all_tokens for batch in batches), num_targets)


def is_due(step: int, flags: Flags, *, every: int) -> bool:
    """Whether something done every so many steps is done after this one, or it is the last."""
    return (step + 1) % every == 0 or step + 1 == flags.last_step


def is_milestone(step: int, flags: Flags) -> bool:
    """Whether this step is followed by an evaluation or a checkpoint."""
    cadences = (flags.eval_freq, flags.checkpoint_freq, flags.steps_per_epoch)
    return any(is_due(step, flags, every=every) for every in cadences)


def owes_evaluation(origin: Origin, flags: Flags) -> bool:
    """Whether a signal came before the evaluation after a checkpoint's step was done."""
    saved = origin.manifest
    is_unjudged = saved.kind == "emergency" and saved.metric is None
    is_wanted = origin.next_step <= flags.last_step
    return is_unjudged and is_wanted and is_due(saved.step, flags, every=flags.eval_freq)


def keep(checkpoints: Checkpoints, flags: Flags, *, step: int, metric: float | None) -> None:
    """End a step: a checkpoint where one is due, at the end of an epoch, and at the very end."""
    epoch = (step + 1) / flags.steps_per_epoch
    if epoch.is_integer():
        checkpoints.save(step, kind="epoch", epoch=epoch, metric=metric)
    elif step + 1 == flags.last_step:
        checkpoints.save(step, epoch=epoch, metric=metric)
    else:
        checkpoints.step(step, epoch=epoch, metric=metric)


def open_run(training: Training, origin: Origin | None, *, goes_on: bool) -> Run:
    """The run: the one a checkpoint is of, if it has that name or none is given, else a new one."""
    flags = training.flags
    is_same = origin is not None and flags.run_name in (None, origin.run_name)
    name = flags.run_name or (origin.run_name if origin is not None else default_name())
    config = training.config()
    if origin is not None and not is_same:
        config[FORKED_FROM] = origin.facts()
    elif origin is None and flags.init_from is not None:
        config[FORKED_FROM] = borrowed_weights(Path(flags.init_from)).facts
    if flags.logdir is not None:
        # In a folder that is there the log is named after the run.
        Path(flags.logdir).mkdir(parents=True, exist_ok=True)
    root, project = flags.dir, flags.project
    if origin is not None and is_same and origin.home is not None:
        root, project = str(origin.home.parent), origin.home.name
    return init(
        project,
        name,
        dir=root,
        config=config,
        resume="allow" if is_same or (origin is None and goes_on) else "never",
        resume_step=0 if origin is None else origin.next_step,
        total_steps=flags.last_step,
        num_epochs=flags.last_step / flags.steps_per_epoch,
        report_to=flags.trackers,
        tensorboard_dir=flags.tensorboard_dir,
        plain_log_file=flags.logdir,
        plain_log_kinds="train,val,hellaswag",
    )


def print_origin(run: Run, origin: Origin) -> None:
    """Say and record that a run begins where another one was."""
    if run.id != origin.manifest.run_id:
        run.event("forked", **origin.facts())
        run.message(f"begins after step {origin.manifest.step} of run {origin.run_name!r}")


def open_checkpoints(training: Training, run: Run) -> Checkpoints:
    """The checkpoints, in the run's folder or in one of its name below ``--checkpoint_dir``."""
    flags = training.flags
    place = flags.checkpoint_dir
    state = TrainingState(training.model, optimizer=training.optimizer, data=training.batches)
    return Checkpoints(
        run,
        state,
        folder=None if place is None else Path(place) / run.dir.name,
        every=flags.checkpoint_freq,
        keep=Retention(rolling=flags.keep_checkpoints, emergency=flags.keep_emergency_checkpoints),
        config=training.config(),
        external={RUN_NAME: run.name, RESUME_WITH: "--resume {checkpoint}"},
    )


def record_setup(training: Training, run: Run, *, first_step: int) -> None:
    """Say what is trained on what, have the model watched, and show the run where that is asked."""
    flags = training.flags
    for split in training.splits:
        run.log_dataset(split.name, files=split.files, tokens=split.num_tokens, seed=flags.seed)
    run.log_sol_estimate(speed_of_light_of(training))
    run.define("hellaswag_accuracy", goal="max")
    run.define("hellaswag_acc", goal="max")
    if training.place.rank == 0:
        if flags.histogram_freq:
            watch(training.model, run, every=flags.histogram_freq, step=first_step)
        if flags.serve is not None:
            run.serve(flags.serve or None)


def speed_of_light_of(training: Training) -> SpeedOfLight:
    """How fast the devices could train this model at most; unknown devices leave it open."""
    shape = training.model.shape
    sizes = {
        "model_type": "gpt2",
        "n_layer": shape.num_layers,
        "n_embd": shape.embd_size,
        "n_head": shape.num_heads,
        "vocab_size": shape.vocab_size,
    }
    return speed_of_light(
        sizes,
        sequence_length=shape.context_length,
        dtype=training.place.dtype,
        world_size=training.place.world_size,
        device=training.place.device,
    )


def default_name() -> str:
    """The name of a run that was given none."""
    return read_settings().name or time.strftime("gpt2_train_%Y%m%d-%H%M%S")
