"""Records a training of Hugging Face's ``Trainer``.

``import epochal.integrations.transformers`` makes ``TrainingArguments(report_to="epochal")`` work.
``Trainer(callbacks=[EpochalCallback()])`` does the same without the registration.

Names are those of the Trainer's other trackers: ``train/loss``, ``eval/loss``, ``test/loss``. The
Trainer replaces losses that are not finite by a mean (``logging_nan_inf_filter``); the callback
records that such a loss occurred.

The completions of TRL's trainers (``log_completions=True``) become tables, one for each step that
is logged.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from epochal.integrations.framework import (
    callback,
    current_run,
    open_run,
    options_to_resume,
    place_of,
    reopen_run,
    require,
    write_checkpoint,
)
from epochal.integrations.rollouts import completions_of, tables_by_step
from epochal.run.run import Run, recorder_of

require("transformers", "epochal.integrations.transformers")

from transformers import Trainer, TrainerCallback  # noqa: E402 (missing: one sentence, above)
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK, rewrite_logs  # noqa: E402

# The key of the run's place in `trainer_state.json` of a checkpoint.
_STATE_KEY = "EpochalCallback"
# `TrainingArguments.project` where the user did not set it.
_DEFAULT_PROJECT = "huggingface"


class EpochalCallback(TrainerCallback):  # type: ignore[misc]
    """Records what a Trainer logs, its arguments, evaluations and checkpoints.

    Writes to ``run``, or to the run that is open when the training begins. Otherwise it starts one
    with ``options``, the arguments of :func:`epochal.init`; a training that continues from a
    checkpoint continues the run of that checkpoint. Only the world's process zero writes. The run
    stays open after the training, for evaluations; it finishes with the process, with
    :func:`epochal.finish`, or when another training of the process begins.

    You may also give the trainer: ``trainer.add_callback(EpochalCallback(trainer))``.
    """

    # The callback whose own run is open: the next Trainer of the process has a run of its own.
    _owner: ClassVar[EpochalCallback | None] = None

    def __init__(self, run: Run | Trainer | None = None, **options: Any) -> None:
        self.run: Run | None = None if isinstance(run, Trainer) else run
        self._options = options
        self._state: Any = None  # of the Trainer that this callback belongs to
        self._has_config = False
        self._has_trained = False
        self._losses: Any = None  # the sum since the last log; finite unless one of them was not
        self._num_nonfinite: Any = None
        self._completions_at: dict[str, int] = {}  # the step of the last table of each name
        self._num_completions = 0  # rows of TRL's LogCompletionsCallback that are recorded

    # -- the run ----------------------------------------------------------------------------------

    @callback
    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Open the run and record arguments and model."""
        if not state.is_world_process_zero:
            return
        if self._has_trained and EpochalCallback._owner is self:
            self._finish_own()  # a training is a run, or an attempt of one
        self._has_trained = True
        self._open(args, state, model)

    def _open(self, args: Any, state: Any, model: Any) -> Run:
        self._state = state
        if self.run is not None and self.run.state == "finished":
            self.run = reopen_run(self.run, self._own_options(args, state))
        elif self.run is None:
            self.run = self._start(args, state, model)
        if not self._has_config:
            self._has_config = True
            self.run.config.update(_config_of(args, model))
        state.stateful_callbacks[_STATE_KEY] = {
            "args": {},
            "attributes": {},
            "run": place_of(self.run),
        }
        return self.run

    def _start(self, args: Any, state: Any, model: Any) -> Run:
        owner = EpochalCallback._owner
        if owner is not None and owner._state is not state:
            owner._finish_own()
        opened = current_run()
        if opened is not None:
            return opened
        EpochalCallback._owner, self._has_config = self, True
        config, options = _config_of(args, model), self._own_options(args, state)
        saved = state.stateful_callbacks.get(_STATE_KEY) or {}
        resumed = options_to_resume(saved.get("run")) if state.global_step else None
        if resumed is not None:
            # The Trainer counts steps from 1.
            options = {**options, **resumed, "resume_step": state.global_step + 1}
        return open_run(options, config=config, total_steps=max(state.max_steps, 0) or None)

    def _own_options(self, args: Any, state: Any) -> dict[str, Any]:
        is_named = args.run_name != args.output_dir
        name = state.trial_name if state.is_hyper_param_search else args.run_name
        return {
            "name": name if is_named else None,
            "project": None if args.project == _DEFAULT_PROJECT else args.project,
            # Without the Trainer's bar there is room for lines.
            "console": None if args.disable_tqdm else False,
            **self._options,
        }

    def _finish_own(self) -> None:
        if self.run is not None:
            self.run.finish()
        EpochalCallback._owner = self.run = None

    # -- records ----------------------------------------------------------------------------------

    @callback
    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Record what the Trainer logs; an evaluation as one."""
        if not state.is_world_process_zero or not logs:
            return
        run = self._open_run(args, state, model)
        if any(name.startswith("eval_") for name in logs):
            _write_evaluation(run, logs, state.global_step)
            return
        hidden = self._hidden_losses() if "loss" in logs else {}
        run.log({**rewrite_logs(dict(logs)), **hidden}, state.global_step)

    @callback
    def on_predict(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: Mapping[str, Any],
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Record the metrics of a prediction."""
        if state.is_world_process_zero:
            run = self._open_run(args, state, model)
            run.log(rewrite_logs(dict(metrics)), state.global_step)

    @callback
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record a checkpoint."""
        if not state.is_world_process_zero:
            return
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        run = self._open_run(args, state, kwargs.get("model"))
        is_best = state.best_global_step == state.global_step
        best = {"metric": state.best_metric if is_best else None, "is_best": is_best}
        write_checkpoint(run, state.global_step, folder, kind="transformers", **best)

    def _open_run(self, args: Any, state: Any, model: Any) -> Run:
        run = self.run
        return self._open(args, state, model) if run is None or run.state == "finished" else run

    # -- what the Trainer does not give to callbacks -----------------------------------------------

    @callback
    def saw_loss(self, loss: Any) -> None:
        """Take in the loss of one batch; a tensor stays where it is."""
        nonfinite = ~loss.isfinite()
        self._losses = loss if self._losses is None else self._losses + loss
        self._num_nonfinite = (
            nonfinite.long() if self._num_nonfinite is None else self._num_nonfinite + nonfinite
        )

    @callback
    def saw_log(self, trainer: Any, logs: Mapping[str, Any]) -> None:
        """Record the completions that a trainer of TRL, or its callback, has at this log."""
        step, name, tables = trainer.state.global_step, "completions", []
        for other in trainer.callback_handler.callbacks:
            if type(other).__name__ == "LogCompletionsCallback":
                rows, self._num_completions = other.table[self._num_completions :], len(other.table)
                tables += [(name, at, table) for at, table in tables_by_step(rows)]
        if any(key.startswith("eval_") for key in logs):
            name = "eval/completions"
        if self._completions_at.get(name) != step:  # the last step of a training is logged twice
            self._completions_at[name] = step
            if (table := completions_of(trainer)) is not None:
                tables.append((name, step, table))
        for name, at, table in tables:
            run = self._open_run(trainer.args, trainer.state, trainer.model)
            recorder_of(run).write_sample(name, table, at)

    def _hidden_losses(self) -> dict[str, float]:
        """The losses since the last log if one of them was not finite; the Trainer has waited."""
        losses, count = self._losses, self._num_nonfinite
        self._losses = self._num_nonfinite = None
        if losses is None or math.isfinite(total := float(losses)):
            return {}
        return {"train/loss": total, "train/nonfinite_losses": int(count)}


def _config_of(args: Any, model: Any) -> dict[str, Any]:
    """The Trainer's arguments, and the configuration of model and generation below their names."""
    config = {name: value for name, value in args.to_dict().items() if name != "hub_token"}
    for name, source in (("model", "config"), ("generation", "generation_config")):
        found = getattr(model, source, None)
        if found is not None:
            config[name] = found if isinstance(found, dict) else found.to_dict()
    peft = getattr(model, "peft_config", None)
    if peft:
        config["peft"] = {name: part.to_dict() for name, part in peft.items()}
    if hasattr(model, "parameters"):
        config["num_parameters"] = sum(parameter.numel() for parameter in model.parameters())
    return config


def _write_evaluation(run: Run, logs: Mapping[str, Any], step: int) -> None:
    metrics = rewrite_logs(dict(logs))
    loss, epoch = metrics.pop("eval/loss", None), metrics.pop("train/epoch", None)
    runtime = metrics.get("eval/runtime")
    duration_ms = runtime * 1000 if isinstance(runtime, (int, float)) else None
    run.log_eval(step, epoch, None, duration_ms, loss, metrics=metrics)


def _watch_trainers() -> None:
    """Show callbacks each batch's loss before ``logging_nan_inf_filter`` replaces it, and logs."""
    training_step, log = Trainer.training_step, Trainer.log

    @functools.wraps(training_step)
    def watched_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss = training_step(self, *args, **kwargs)
        if self.args.logging_nan_inf_filter:
            for member in _callbacks_of(self):
                member.saw_loss(loss)
        return loss

    @functools.wraps(log)
    def watched_log(self: Any, logs: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        log(self, logs, *args, **kwargs)
        for member in _callbacks_of(self):
            member.saw_log(self, logs)

    Trainer.training_step, Trainer.log = watched_step, watched_log


def _callbacks_of(trainer: Any) -> list[EpochalCallback]:
    if not trainer.state.is_world_process_zero:
        return []
    return [one for one in trainer.callback_handler.callbacks if isinstance(one, EpochalCallback)]


_watch_trainers()
INTEGRATION_TO_CALLBACK["epochal"] = EpochalCallback
