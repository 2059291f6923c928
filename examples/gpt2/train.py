"""Trains GPT-2 with everything that Epochal can record. Run it as it is, or copy from it.

    python examples/gpt2/train.py --preset tiny
    torchrun --standalone --nproc_per_node=8 examples/gpt2/train.py --data shards

`train` is the loop. `flags.py` has the flags, `training.py` builds what is trained, `data.py` and
`batches.py` read the data, `evaluation.py` evaluates, `resuming.py` finds checkpoints. `sample.py`
writes text with a trained model.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from distributed import Process, StepClock, joined
from epochal import (
    Checkpoints,
    EpochalError,
    Retention,
    Run,
    TrainingState,
    UsageError,
    init,
    speed_of_light,
    watch,
)
from epochal import console as terminal
from epochal.run.console.printer import Console
from epochal.settings import read_settings
from epochal.torch import (
    ClipStats,
    SpeedOfLight,
    clip_grad_norm,
    load_checkpoint,
    memory_segments,
    set_lr,
)
from estimate import estimate
from flags import Command, Flags, read_command
from resuming import (
    RESUME_WITH,
    RUN_NAME,
    Origin,
    describe_checkpoints,
    find_origin,
    initial_weights,
    with_environment,
)
from training import Training, set_up


def train(training: Training, *, origin: Origin | None = None, resumes: bool = False) -> Run:
    """Train from the first step, or from a checkpoint, to the last step.

    With `resumes`, a run of the same name continues even if it has no checkpoint yet.
    """
    flags, evaluation = training.flags, training.evaluation
    first = 0 if origin is None else origin.next_step
    console = StepConsole(min_interval_s=1.0)
    with (
        open_run(training, origin, console, resumes=resumes) as run,
        open_checkpoints(training, run) as checkpoints,
    ):
        if origin is not None:
            checkpoints.restore(origin.manifest.name, source=origin.folder)
            if run.id != origin.manifest.run_id:
                run.event("forked", **origin.facts())
                run.message(f"starts after step {origin.manifest.step} of run {origin.run_name!r}")
        record_setup(training, run, first_step=first)
        if first == 0:
            evaluation.evaluate(run, step=0, epoch=0.0)
        clock, clipping = StepClock(training.process), ClipStats()
        for step in range(first, flags.last_step):
            lr, epoch = training.schedule.lr(step), (step + 1) / flags.steps_per_epoch
            set_lr(training.optimizer, lr)
            taken = accumulate_gradients(training, run, clock)
            with run.phase("optimizer"):
                norm = clip_grad_norm(training.model, flags.grad_clip, stats=clipping)
                training.optimizer.step()
            if step == first:
                memory = memory_segments(training.model, training.optimizer)
                run.log_allocator(memory, step=step, gpu=memory.gpu)
            training.optimizer.zero_grad(set_to_none=True)

            duration_ms = clock.lap_ms()
            run.log_step(
                *(step, epoch, taken.num_tokens, duration_ms, norm, taken.loss, lr),
                norm_clipped=clipping.metrics()["norm_clipped"],
                metrics=taken.metrics(flags),
            )
            console.train_step(step_line(step, epoch, taken, lr, norm, duration_ms))
            metric = None
            if is_milestone(step, flags):
                with clock.paused():
                    if is_due(step, flags, every=flags.eval_freq):
                        with run.phase("eval"):
                            more = {"Gradient/clip_rate": clipping.clip_rate}
                            metric = evaluation.evaluate(run, step=step, epoch=epoch, more=more)
                        clipping.reset()
                    with run.phase("save"):
                        save(checkpoints, flags, step=step, metric=metric)
            else:
                checkpoints.step(step, epoch=epoch)
    return run


@dataclass(frozen=True)
class Taken:
    """One step: its loss over all ranks, the tokens they read, and the targets in the loss."""

    loss: Tensor
    num_tokens: int
    num_targets: int

    def metrics(self, flags: Flags) -> dict[str, float]:
        """Return the metrics that only fine-tuning has."""
        if flags.finetune is None:
            return {}
        share = self.num_targets / self.num_tokens
        return {"Finetune/answer_tokens": self.num_targets, "Finetune/answer_share": share}


def accumulate_gradients(training: Training, run: Run, clock: StepClock) -> Taken:
    """Make the forward and backward passes of one step.

    Each batch is weighted by its targets, so the loss is the mean over all targets, however they
    are spread over batches and ranks. The ranks exchange gradients once, in the last pass.
    """
    process, trained = training.process, training.trained
    with run.phase("data"):
        batches = [training.batches.next() for _ in range(training.accumulation)]
    num_targets = sum(batch.all_targets for batch in batches)
    loss = torch.zeros((), device=process.device)
    for number, batch in enumerate(batches, 1):
        is_last = number == len(batches)
        if isinstance(trained, DistributedDataParallel):
            trained.require_backward_grad_sync = is_last
        with run.phase("forward"), process.autocast():
            part = trained(batch.inputs, batch.targets)
        part = part * (batch.num_targets * process.world_size / num_targets)
        if is_last:
            clock.mark()
        with run.phase("backward"):
            part.backward()
        loss += part.detach()
    return Taken(process.mean(loss), sum(batch.all_tokens for batch in batches), num_targets)


class StepConsole(Console):
    """Prints the trainer's own step lines instead of those of the run; everything else stays."""

    def step(self, line: object, *, now: float | None = None) -> None:
        """Leave out the line of the run."""

    def train_step(self, line: Callable[[], str]) -> None:
        """Print a line of the trainer, once a second at most; the run lets only rank 0 print."""
        super().step(line)


def step_line(
    step: int, epoch: float, taken: Taken, lr: float, norm: Tensor, duration_ms: float
) -> Callable[[], str]:
    """Return a function that formats the line, because reading a loss waits for the GPU."""
    return lambda: (
        f"step {step:6d} | epoch {epoch:6.3f} | loss {float(taken.loss):7.4f} | lr {lr:.2e} | "
        f"norm {float(norm):7.4f} | {duration_ms:6.0f} ms | "
        f"{taken.num_tokens / duration_ms * 1000:,.0f} tok/s"
    )


def is_due(step: int, flags: Flags, *, every: int) -> bool:
    """Return True after every so many steps, and after the last one."""
    return (step + 1) % every == 0 or step + 1 == flags.last_step


def is_milestone(step: int, flags: Flags) -> bool:
    """Return True if an evaluation or a checkpoint follows this step."""
    cadences = (flags.eval_freq, flags.checkpoint_freq, flags.steps_per_epoch)
    return any(is_due(step, flags, every=every) for every in cadences)


def save(checkpoints: Checkpoints, flags: Flags, *, step: int, metric: float | None) -> None:
    """Save a checkpoint if one is due, at the end of an epoch, and at the end."""
    epoch = (step + 1) / flags.steps_per_epoch
    if epoch.is_integer():
        checkpoints.save(step, kind="epoch", epoch=epoch, metric=metric)
    elif step + 1 == flags.last_step:
        checkpoints.save(step, epoch=epoch, metric=metric)
    else:
        checkpoints.step(step, epoch=epoch, metric=metric)


def open_run(training: Training, origin: Origin | None, console: Console, *, resumes: bool) -> Run:
    """Open the run of the checkpoint, if it has that name or no name is given; else a new one."""
    flags = training.flags
    is_same = origin is not None and flags.run_name in (None, origin.run_name)
    name = flags.run_name or (origin.run_name if origin is not None else default_name())
    folder, project = flags.dir, flags.project
    config = training.config()
    if origin is not None and is_same and origin.project_folder is not None:
        folder, project = str(origin.project_folder.parent), origin.project_folder.name
    elif origin is not None and not is_same:
        config["forked_from"] = origin.facts()
    elif origin is None and flags.init_from is not None:
        config["forked_from"] = initial_weights(flags)[2]
    if flags.logdir is not None:
        # In an existing folder the log is named after the run.
        Path(flags.logdir).mkdir(parents=True, exist_ok=True)
    return init(
        project,
        name,
        dir=folder,
        config=config,
        resume="allow" if is_same or (origin is None and resumes) else "never",
        resume_step=0 if origin is None else origin.next_step,
        total_steps=flags.last_step,
        num_epochs=flags.last_step / flags.steps_per_epoch,
        report_to=flags.trackers,
        tensorboard_dir=flags.tensorboard_dir,
        tensorboard_tags="usual",
        plain_log_file=flags.logdir,
        plain_log_kinds="train,val,hellaswag",
        console=console,
    )


def default_name() -> str:
    return read_settings().name or time.strftime("gpt2_train_%Y%m%d-%H%M%S")


def open_checkpoints(training: Training, run: Run) -> Checkpoints:
    """Open the checkpoints in the run's folder, or in a folder below ``--checkpoint_dir``."""
    flags, folder = training.flags, training.flags.checkpoint_dir
    return Checkpoints(
        run,
        TrainingState(training.model, optimizer=training.optimizer, data=training.batches),
        folder=None if folder is None else Path(folder) / run.dir.name,
        every=flags.checkpoint_freq,
        keep=Retention(rolling=flags.keep_checkpoints, emergency=flags.keep_emergency_checkpoints),
        config=training.config(),
        external={RUN_NAME: run.name, RESUME_WITH: "--resume {checkpoint}"},
    )


def record_setup(training: Training, run: Run, *, first_step: int) -> None:
    """Record the data and the speed of light, watch the model, and serve the page if asked to."""
    flags = training.flags
    for split in training.splits:
        run.log_dataset(split.name, files=split.files, tokens=split.num_tokens, seed=flags.seed)
    run.log_sol_estimate(estimate_speed_of_light(training))
    run.define("hellaswag_accuracy", goal="max")
    run.define("hellaswag_acc", goal="max")
    if training.process.rank == 0:
        if flags.histogram_freq:
            watch(training.model, run, every=flags.histogram_freq, step=first_step)
        if flags.serve is not None:
            run.serve(flags.serve or None)


def estimate_speed_of_light(training: Training) -> SpeedOfLight:
    """Return how fast the devices could train this model at most, if they are known."""
    process, length = training.process, training.model.shape.context_length
    tokens = torch.zeros(1, length, dtype=torch.int64, device=process.device)
    with process.autocast():
        return speed_of_light(
            training.model,
            inputs=(tokens, tokens),
            dtype=process.dtype,
            world_size=process.world_size,
            device=process.device,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, estimate or list. The exit code is 2 if the command cannot be carried out."""
    try:
        command = with_environment(read_command(arguments))
        if command.list_checkpoints:
            lines = list(describe_checkpoints(command.flags()))
            print("\n".join(lines) or "There are no checkpoints yet.")
            return 0
        with joined(command.flags().device) as process:
            start(command, process)
    except EpochalError as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 2
    return 0


def start(command: Command, process: Process) -> None:
    """Find the checkpoint to continue from, set up the training, and run it."""
    origin = find_origin(command) if command.resume else None
    if origin is not None:
        check_ranks(origin, process)
        flags = command.flags(origin.manifest.config)
    elif command.flags().init_from is not None:
        flags = command.flags(initial_weights(command.flags())[1])
    else:
        flags = command.flags()
        if command.resume and process.rank == 0:
            terminal.msg("%s", "There is no checkpoint yet, so the training starts at step 0.")
    if process.rank == 0 and flags.beyond_plan is not None:
        terminal.msg("%s", flags.beyond_plan)
    if origin is not None and origin.next_step >= flags.last_step:
        if process.rank == 0:
            terminal.msg("%s", nothing_left(origin, flags))
        return
    training = set_up(flags, process)
    if process.rank == 0 and training.repeats is not None:
        terminal.msg("%s", training.repeats)
    if origin is None and flags.init_from is not None:
        load_checkpoint(initial_weights(flags)[0], training.model)
    if command.estimate:
        for line in estimate(training):
            if process.rank == 0:
                print(line)
        return
    train(training, origin=origin, resumes=command.resume is not None)


def check_ranks(origin: Origin, process: Process) -> None:
    saved, present = origin.manifest.world_size, process.world_size
    if saved != present:
        raise UsageError(
            f"{origin.manifest.name} of {origin.run_name} was saved by {saved} ranks, and this "
            f"training has {present}. Start it with --nproc_per_node={saved}, or take only its "
            "weights with --init_from."
        )


def nothing_left(origin: Origin, flags: Flags) -> str:
    if flags.last_step < flags.num_steps:
        longer = f"Train longer with a larger --max_steps, up to {flags.num_steps}."
    else:
        longer = (
            "Train longer with a larger --num_epochs; the learning rate then follows the longer "
            "schedule."
        )
    return (
        f"{origin.manifest.name} of {origin.run_name} is the last of {flags.last_step} steps, so "
        f"there is nothing left to train. {longer}"
    )


if __name__ == "__main__":
    sys.exit(main())
