"""The command line: what is asked for is found out once, on rank 0, and told to every rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.console.messages import error as say_error
from epochal.console.messages import msg
from epochal.errors import EpochalError, UsageError
from epochal.recipes.gpt2.estimate import estimate
from epochal.recipes.gpt2.flags import Asked, Flags, read_command
from epochal.recipes.gpt2.place import Place, taken_place
from epochal.recipes.gpt2.resuming import (
    Origin,
    begun_config,
    borrowed_weights,
    describe_checkpoints,
    find_origin,
    with_environment,
)
from epochal.recipes.gpt2.setup import set_up
from epochal.recipes.gpt2.train import owes_evaluation, train
from epochal.torch.checkpoint.model_file import load_checkpoint
from epochal.torch.rank_agreement import Ranks

_LONGER = "num_epochs makes the run longer, and its learning rate fall more slowly"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, estimate or list; gives the exit code: 2 when what was asked for cannot be done."""
    try:
        asked = with_environment(read_command(arguments))
        if asked.list_checkpoints:
            lines = list(describe_checkpoints(asked.flags()))
            msg("%s", "\n".join(lines) or "There are no checkpoints yet.")
            return 0
        with taken_place(asked.flags().device) as place:
            _start(asked, place)
    except EpochalError as error:
        say_error("%s", f"gpt2: {error}")
        return 2
    return 0


def _start(asked: Asked, place: Place) -> None:
    origin: Origin | None = None
    if asked.resume is not None:
        flags, resume = asked.flags(), asked.resume
        origin = Ranks.present().on_first(lambda: find_origin(resume, flags))
        if origin is None and place.rank == 0:
            msg("%s", "There is no checkpoint yet: the training begins at step 0.")
        if origin is not None:
            _check_ranks(origin, place)
    flags = asked.flags(_saved(asked, origin))
    is_done = origin is not None and origin.next_step >= flags.last_step
    if origin is not None and is_done and not owes_evaluation(origin, flags):
        _check_reach(asked, flags)
        if place.rank == 0:
            msg("%s", _nothing_left(origin, flags))
        return
    training = set_up(flags, place)
    if flags.init_from is not None and origin is None:
        load_checkpoint(borrowed_weights(Path(flags.init_from)).file, training.model)
    if asked.estimate:
        for line in estimate(training):
            if place.rank == 0:
                msg("%s", line)
        return
    train(training, origin=origin, goes_on=asked.resume is not None)


def _nothing_left(origin: Origin, flags: Flags) -> str:
    is_cut_short = flags.last_step < flags.num_steps
    further = f"max_steps goes further, up to {flags.num_steps}" if is_cut_short else _LONGER
    return (
        f"{origin.manifest.name} of {origin.run_name} is the last of {flags.last_step} steps: there"
        f" is nothing left to train; a larger --{further}."
    )


def _check_reach(asked: Asked, flags: Flags) -> None:
    """Refuse ``--max_steps`` that asks a run to go on which has no more steps."""
    if "max_steps" in asked.given and (flags.max_steps or 0) > flags.num_steps:
        raise UsageError(
            f"--max_steps {flags.max_steps} is beyond the {flags.num_steps} steps of the run"
            f" (--num_epochs x --steps_per_epoch): a larger --{_LONGER}."
        )


def _check_ranks(origin: Origin, place: Place) -> None:
    saved, present = origin.manifest.world_size, place.world_size
    if saved != present:
        raise UsageError(
            f"{origin.manifest.name} of {origin.run_name} was saved by {saved} ranks and this "
            f"training has {present}: start it with --nproc_per_node={saved}, or take its weights "
            "alone with --init_from."
        )


def _saved(asked: Asked, origin: Origin | None) -> Mapping[str, Any] | None:
    """What flags are taken over: all of a training that goes on, the sizes of borrowed weights."""
    if origin is not None:
        return origin.manifest.config
    if asked.resume is not None:
        return Ranks.present().on_first(lambda: begun_config(asked.flags()))
    source = asked.flags().init_from
    return None if source is None else borrowed_weights(Path(source)).flags
