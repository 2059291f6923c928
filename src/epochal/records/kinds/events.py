"""The events that Epochal itself writes; a run's own events have any names and facts.

No process that trains imports this file: it is for the specification and for whoever reads events.
"""

from __future__ import annotations

from functools import partial

from epochal.records.kind import Event, Field, counts, nested, texts

_FAULT = (
    *texts("member", "reason", "traceback"),
    Field("version", "text", meaning="of Epochal"),
    Field("package", "text", meaning="that the member comes from, if that is another one"),
)
_VALUE = (Field("name_of", "text", meaning="name of the value"), *texts("type", "reason"))
_BYTES = ("asked", "allocated", "peak", "reserved", "unusable", "resident", "free", "total")


def _event(writer: str, name: str, meaning: str, *fields: Field) -> Event:
    return Event(name, writer, meaning, fields)


_training, _companion, _any, _importer = (
    partial(_event, writer) for writer in ("training", "companion", "any", "importer")
)

EVENTS = (
    # -- the training -----------------------------------------------------------------------------
    _training("exception", "an exception ended the run", *texts("reason", "traceback")),
    _training("signal", "a signal ended the run", *texts("reason")),
    _any("records-lost", "records could not be written", *counts("count"), *texts("reason")),
    _any("sync-failed", "the disk failed to store records or a file", *texts("reason")),
    _training(
        "values-lost", "values of an accelerator never came", *counts("count"), *texts("reason")
    ),
    _training(
        "callback-running",
        "an `on_finish` callback was still running when `finish()` stopped waiting for it",
        *texts("callback", "traceback"),
    ),
    _training("blob-lost", "a file could not be kept", *texts("name_of", "reason")),
    _training("value-dropped", "a value could not be recorded; once for a name", *_VALUE),
    _training(
        "value-counts",
        "before `finish`, where a name has more than one",
        Field("dropped", "object", meaning="name to count"),
    ),
    _training(
        "checkpoint",
        "a checkpoint was saved",
        *texts("kind", "path"),
        Field("bytes", "count", "bytes"),
        Field("metric"),
        Field("is_best", "flag"),
    ),
    _training(
        "early-stop", "early stopping ended the training", *texts("reason"), *counts("at_step")
    ),
    _training(
        "preflight",
        "exact questions about a training, asked before it began",
        nested(
            "answers",
            "list",
            "",
            Field("question", "text", meaning="its name"),
            Field("state", "text", choices=("pass", "fail", "cannot tell")),
            Field("reason", "text"),
            Field("facts", "object", meaning="names and numbers"),
        ),
        Field("seconds", "number", "s", meaning="how long the questions took"),
        Field("changed", "list", meaning="what other code had changed in the model meanwhile"),
    ),
    _training(
        "nonfinite-gradient",
        "gradients that are not finite",
        Field("at_step", "count"),
        Field("parameter", "text", meaning="the first one"),
        Field("parameters", "count", meaning="how many"),
    ),
    _training(
        "frozen-parameters",
        "parameters of a watched model have `requires_grad` False",
        Field("at_step", "count"),
        Field("parameter", "text", meaning="the first one"),
        Field("parameters", "count", meaning="how many"),
        Field("of", "count", meaning="how many the model has"),
        Field("initialised", "count", meaning="those with the norm of an initialisation"),
        Field("others", "count", meaning="those with another norm"),
    ),
    _training(
        "initial-scale",
        "weights of a watched model start at an unusual scale",
        Field("at_step", "count"),
        Field("parameter", "text", meaning="one with the median scale"),
        Field("parameters", "count", meaning="how many were compared"),
        Field("scale", "number", meaning="median of their size over torch's own"),
    ),
    _training(
        "no-optimizer-step",
        "a watched model got gradients, and no optimizer took a step",
        *counts("passes"),
    ),
    _training(
        "gradients-kept",
        "the gradients of a watched model are not reset between steps",
        Field("at_step", "count"),
        Field("parameter", "text", meaning="one whose gradient was looked at"),
        Field("steps", "count", meaning="in a row that began with the gradients before"),
    ),
    _training(
        "evaluation-passes",
        "since the last step a model ran without gradients, in training mode",
        *counts("passes"),
        Field("dropouts", "count", meaning="modules that drop at random; 0: not any more"),
        Field("batchnorms", "count", meaning="BatchNorms that use the statistics of a batch"),
        Field("module", "text", meaning="the first of them"),
        Field("share", "number", meaning="what that one drops"),
    ),
    _training(
        "optimizer",
        "an optimizer took its first step beside a watched model",
        Field("at_step", "count"),
        Field("optimizer", "text", meaning="its class"),
        Field("parameters", "count", meaning="how many of the model it has"),
        Field(
            "groups",
            "list",
            meaning="of each group: parameters, elements, lr, momentum, betas, weight_decay",
        ),
    ),
    _training(
        "parameters-without-optimizer",
        "parameters of a watched model get gradients, and no optimizer updates them",
        Field("at_step", "count"),
        Field("parameters", "count", meaning="how many; 0: none any more"),
        Field("elements", "count", meaning="of those parameters"),
        Field("of", "count", meaning="how many parameters are trainable"),
        Field("names", "list", meaning="the first of them"),
    ),
    _training(
        "parameters-without-gradient",
        "parameters in optimizers had no gradient in any step so far",
        Field("at_step", "count"),
        Field("parameters", "count", meaning="how many; 0: none any more"),
        Field("of", "count", meaning="how many trainable parameters the optimizers have"),
        Field("elements", "count", meaning="of those parameters"),
        Field("of_elements", "count", meaning="of all trainable parameters of the optimizers"),
        Field("names", "list", meaning="the first of them"),
    ),
    _training(
        "training-in-evaluation-mode",
        "optimizers stepped while the model was in evaluation mode",
        Field("at_step", "count"),
        Field("dropouts", "count", meaning="modules that drop nothing; 0: not any more"),
        Field("batchnorms", "count", meaning="BatchNorms that do not learn their statistics"),
        Field("module", "text", meaning="the first of them"),
        *counts("steps"),
    ),
    _training(
        "weight-decay",
        "weight decay takes much of the weights at each step",
        Field("at_step", "count"),
        Field("decay", "number", meaning="the share of a weight in a step"),
        Field("lr", "number"),
        Field("weight_decay", "number"),
    ),
    _training(
        "passes",
        "how many backward passes the steps of a training had",
        Field("at_step", "count"),
        Field("least", "count", meaning="of one step"),
        Field("most", "count", meaning="of one step"),
        *counts("passes", "steps"),
    ),
    _training(
        "inputs",
        "the scale of what a watched model gets",
        Field("at_step", "count"),
        Field("mode", "text", choices=("train", "eval")),
        Field("where", "text", meaning="`model`, or the name of its first weight layer"),
        Field("mean", "number"),
        Field("std", "number"),
        Field("min", "number"),
        Field("max", "number"),
        Field("after_norm", "flag", meaning="a normalisation is the first layer"),
    ),
    _training(
        "model",
        "what a watched model is",
        Field("parameters", "count"),
        Field("trainable", "count", meaning="parameters with `requires_grad`"),
        Field("elements", "count", meaning="of all parameters"),
        Field("outputs", "count", meaning="of the last layer that was called"),
        Field("last_layer", "text", meaning="its name"),
    ),
    _training(
        "out-of-memory",
        "an allocation failed",
        *texts("device", "where"),
        *counts(*_BYTES, unit="bytes"),
        Field("retries", "count", meaning="how often the allocator tried again"),
        Field("failures", "count", meaning="how often it gave up"),
        Field("report", "text", meaning="why there is no report"),
    ),
    _training(
        "alert",
        "`run.alert`, or an alert of another tracker",
        *texts("title", "text"),
        Field("level", "text", meaning="of other trackers any word; of `run.alert` a severity"),
    ),
    _training(
        "artifact",
        "files that `wandb.log_artifact` copied into the run's folder",
        *texts("artifact", "type"),
        Field("aliases", "list"),
        Field("files", "list"),
    ),
    _training("artifact-used", "an artifact of another run is used", *texts("artifact")),
    _training(
        "best-iteration",
        "the iteration that a booster's early stopping chose",
        *counts("at_step"),
        Field("score"),
    ),
    _training(
        "feature-importance",
        "how much each feature of a booster is worth",
        *texts("kind"),
        Field("features", "object", meaning="name to number"),
    ),
    _training("companion-restarted", "the companion died and was replaced", *counts("exit_code")),
    _training("companion-lost", "the companion died for good", *counts("exit_code")),
    # -- the companion ----------------------------------------------------------------------------
    _companion("hardware", "what the machine is", *texts("text", "node")),
    _companion(
        "gpu-throttle",
        "what holds a GPU back has changed: a worse cause at once, a milder one after a minute",
        *counts("id"),
        *texts("throttle", "was"),
    ),
    _companion(
        "telemetry",
        "what telemetry cost, at its end",
        Field("epochal_cpu_pct", unit="%"),
        Field("epochal_rss", "count", "bytes"),
        Field("failures", "count", meaning="readings that failed"),
        Field("last_failure", "text"),
    ),
    _companion(
        "vanished",
        "the training process ended without `finish`",
        *texts("sentence", "exit"),
        *counts("pid", "last_step", "last_epoch", "oom_kills"),
        *counts("rss", "children_rss", "ram_used", "ram_total", "disk_free", unit="bytes"),
    ),
    _companion(
        "unfinished",
        "work that the companion left undone",
        nested("left", "list", "", *texts("what", "command")),
    ),
    _companion("companion-failed", "a fault ended the companion", *texts("reason", "traceback")),
    _companion("sinks-failed", "forwarding ended early", *texts("reason")),
    _companion("hub-failed", "the run could not be sent to its hub", *texts("reason")),
    _companion(
        "control-request",
        "someone asked on the hub to stop, suspend or continue the training, or for a checkpoint",
        *texts("request", "action", "who"),
        Field("asked", meaning="Unix seconds of the hub's clock"),
    ),
    _companion(
        "control-outcome",
        "what became of that request",
        *texts("request", "action", "outcome"),
        Field("is_done", "flag"),
    ),
    _companion(
        "alert-sent",
        "in `findings`: an alert of the program was taken to be sent",
        *texts("title"),
        Field("at", meaning="the time of the alert"),
    ),
    _companion("alert-failed", "an alert could not be sent", *texts("reason")),
    _companion(
        "phase",
        "in `findings`: the training entered a phase",
        *texts("phase", "was"),
        *counts("step", "epoch"),
    ),
    _companion("family", "in `findings`: what kind of training it is", *texts("family", "why")),
    # -- any process ------------------------------------------------------------------------------
    _any("internal-error", "the first fault of a member of Epochal itself", *_FAULT),
    _any(
        "internal-errors",
        "at the end, for members that failed more than once",
        Field("counts", "object", meaning="member to number"),
    ),
    _event(
        "launcher",
        "exit",
        "the command of `epochal run` ended",
        Field("code", "count", meaning="negative for a signal"),
        Field("text", "text"),
        Field("seconds", "amount", "s"),
    ),
    # -- importers --------------------------------------------------------------------------------
    _importer("preempting", "the machine was about to be taken away"),
    _importer("media", "something shown that has no file, with its own facts", *texts("series")),
    _importer("missing-media", "a file that is not there", *texts("series", "path")),
    _importer("session-end", "how TensorBoard's session ended", *texts("status")),
    _importer("hparams-group", "TensorBoard's group of the run", *texts("group")),
)
