"""The events that Epochal itself writes; a run's own events have any names and facts.

No process that trains imports this file: it is for the specification and for whoever reads events.
"""

from __future__ import annotations

from epochal.records.kind import Event, Field, counts, texts

_FAULT = (
    *texts("member", "reason", "traceback"),
    Field("version", "text", meaning="of Epochal"),
    Field("package", "text", meaning="that the member comes from, if that is another one"),
)
_VALUE = (Field("name_of", "text", meaning="name of the value"), *texts("type", "reason"))
_BYTES = ("asked", "allocated", "peak", "reserved", "unusable", "resident", "free", "total")

EVENTS = (
    # -- the training -----------------------------------------------------------------------------
    Event("exception", "training", "an exception ended the run", texts("reason", "traceback")),
    Event("signal", "training", "a signal ended the run", texts("reason")),
    Event(
        "records-lost", "any", "records could not be written", (*counts("count"), *texts("reason"))
    ),
    Event("sync-failed", "any", "the disk failed to store records or a file", texts("reason")),
    Event(
        "values-lost",
        "training",
        "values of an accelerator never came",
        (*counts("count"), *texts("reason")),
    ),
    Event(
        "callback-running",
        "training",
        "an `on_finish` callback was still running when `finish()` stopped waiting for it",
        texts("callback", "traceback"),
    ),
    Event("blob-lost", "training", "a file could not be kept", texts("name_of", "reason")),
    Event("value-dropped", "training", "a value could not be recorded; once for a name", _VALUE),
    Event(
        "value-counts",
        "training",
        "before `finish`, where a name has more than one",
        (Field("dropped", "object", meaning="name to count"),),
    ),
    Event(
        "checkpoint",
        "training",
        "a checkpoint was saved",
        (
            *texts("kind", "path"),
            Field("bytes", "count", "bytes"),
            Field("metric"),
            Field("is_best", "flag"),
        ),
    ),
    Event(
        "early-stop",
        "training",
        "early stopping ended the training",
        (*texts("reason"), *counts("at_step")),
    ),
    Event(
        "nonfinite-gradient",
        "training",
        "gradients that are not finite",
        (
            Field("at_step", "count"),
            Field("parameter", "text", meaning="the first one"),
            Field("parameters", "count", meaning="how many"),
        ),
    ),
    Event(
        "frozen-parameters",
        "training",
        "parameters of a watched model have `requires_grad` False",
        (
            Field("at_step", "count"),
            Field("parameter", "text", meaning="the first one"),
            Field("parameters", "count", meaning="how many"),
            Field("of", "count", meaning="how many the model has"),
            Field("initialised", "count", meaning="those with the norm of an initialisation"),
            Field("others", "count", meaning="those with another norm"),
        ),
    ),
    Event(
        "initial-scale",
        "training",
        "weights of a watched model start at an unusual scale",
        (
            Field("at_step", "count"),
            Field("parameter", "text", meaning="one with the median scale"),
            Field("parameters", "count", meaning="how many were compared"),
            Field("scale", "number", meaning="median of their size over torch's own"),
        ),
    ),
    Event(
        "no-optimizer-step",
        "training",
        "a watched model got gradients, and no optimizer took a step",
        (*counts("passes"),),
    ),
    Event(
        "gradients-kept",
        "training",
        "the gradients of a watched model are not reset between steps",
        (
            Field("at_step", "count"),
            Field("parameter", "text", meaning="one whose gradient was looked at"),
            Field("steps", "count", meaning="in a row that began with the gradients before"),
        ),
    ),
    Event(
        "evaluation-passes",
        "training",
        "since the last step a model ran without gradients, in training mode",
        (
            *counts("passes"),
            Field("dropouts", "count", meaning="modules that drop at random; 0: not any more"),
            Field("batchnorms", "count", meaning="BatchNorms that use the statistics of a batch"),
            Field("module", "text", meaning="the first of them"),
            Field("share", "number", meaning="what that one drops"),
        ),
    ),
    Event(
        "optimizer",
        "training",
        "an optimizer took its first step beside a watched model",
        (
            Field("at_step", "count"),
            Field("optimizer", "text", meaning="its class"),
            Field("parameters", "count", meaning="how many of the model it has"),
            Field(
                "groups",
                "list",
                meaning="of each group: parameters, elements, lr, momentum, betas, weight_decay",
            ),
        ),
    ),
    Event(
        "parameters-without-optimizer",
        "training",
        "parameters of a watched model get gradients, and no optimizer updates them",
        (
            Field("at_step", "count"),
            Field("parameters", "count", meaning="how many; 0: none any more"),
            Field("elements", "count", meaning="of those parameters"),
            Field("of", "count", meaning="how many parameters are trainable"),
            Field("names", "list", meaning="the first of them"),
        ),
    ),
    Event(
        "inputs",
        "training",
        "the scale of what a watched model gets",
        (
            Field("at_step", "count"),
            Field("mode", "text", choices=("train", "eval")),
            Field("where", "text", meaning="`model`, or the name of its first weight layer"),
            Field("mean", "number"),
            Field("std", "number"),
            Field("min", "number"),
            Field("max", "number"),
            Field("after_norm", "flag", meaning="a normalisation is the first layer"),
        ),
    ),
    Event(
        "model",
        "training",
        "what a watched model is",
        (
            Field("parameters", "count"),
            Field("trainable", "count", meaning="parameters with `requires_grad`"),
            Field("elements", "count", meaning="of all parameters"),
            Field("outputs", "count", meaning="of the last layer that was called"),
            Field("last_layer", "text", meaning="its name"),
        ),
    ),
    Event(
        "out-of-memory",
        "training",
        "an allocation failed",
        (
            *texts("device", "where"),
            *counts(*_BYTES, unit="bytes"),
            Field("retries", "count", meaning="how often the allocator tried again"),
            Field("failures", "count", meaning="how often it gave up"),
            Field("report", "text", meaning="why there is no report"),
        ),
    ),
    Event(
        "alert",
        "training",
        "`run.alert`, or an alert of another tracker",
        (
            *texts("title", "text"),
            Field("level", "text", meaning="of other trackers any word; of `run.alert` a severity"),
        ),
    ),
    Event(
        "artifact",
        "training",
        "files that `wandb.log_artifact` copied into the run's folder",
        (*texts("artifact", "type"), Field("aliases", "list"), Field("files", "list")),
    ),
    Event("artifact-used", "training", "an artifact of another run is used", texts("artifact")),
    Event(
        "best-iteration",
        "training",
        "the iteration that a booster's early stopping chose",
        (*counts("at_step"), Field("score")),
    ),
    Event(
        "feature-importance",
        "training",
        "how much each feature of a booster is worth",
        (*texts("kind"), Field("features", "object", meaning="name to number")),
    ),
    Event(
        "companion-restarted",
        "training",
        "the companion died and was replaced",
        counts("exit_code"),
    ),
    Event("companion-lost", "training", "the companion died for good", counts("exit_code")),
    # -- the companion ----------------------------------------------------------------------------
    Event("hardware", "companion", "what the machine is", texts("text", "node")),
    Event(
        "gpu-throttle",
        "companion",
        "what holds a GPU back has changed: a worse cause at once, a milder one after a minute",
        (*counts("id"), *texts("throttle", "was")),
    ),
    Event(
        "telemetry",
        "companion",
        "what telemetry cost, at its end",
        (
            Field("epochal_cpu_pct", unit="%"),
            Field("epochal_rss", "count", "bytes"),
            Field("failures", "count", meaning="readings that failed"),
            Field("last_failure", "text"),
        ),
    ),
    Event(
        "vanished",
        "companion",
        "the training process ended without `finish`",
        (
            *texts("sentence", "exit"),
            *counts("pid", "last_step", "last_epoch", "oom_kills"),
            *counts("rss", "children_rss", "ram_used", "ram_total", "disk_free", unit="bytes"),
        ),
    ),
    Event(
        "unfinished",
        "companion",
        "work that the companion left undone",
        (Field("left", "list", fields=texts("what", "command")),),
    ),
    Event(
        "companion-failed", "companion", "a fault ended the companion", texts("reason", "traceback")
    ),
    Event("sinks-failed", "companion", "forwarding ended early", texts("reason")),
    Event("hub-failed", "companion", "the run could not be sent to its hub", texts("reason")),
    Event(
        "control-request",
        "companion",
        "someone asked on the hub to stop, suspend or continue the training, or for a checkpoint",
        (
            *texts("request", "action", "who"),
            Field("asked", meaning="Unix seconds of the hub's clock"),
        ),
    ),
    Event(
        "control-outcome",
        "companion",
        "what became of that request",
        (*texts("request", "action", "outcome"), Field("is_done", "flag")),
    ),
    Event(
        "alert-sent",
        "companion",
        "in `findings`: an alert of the program was taken to be sent",
        (*texts("title"), Field("at", meaning="the time of the alert")),
    ),
    Event("alert-failed", "companion", "an alert could not be sent", texts("reason")),
    Event(
        "phase",
        "companion",
        "in `findings`: the training entered a phase",
        (*texts("phase", "was"), *counts("step", "epoch")),
    ),
    # -- any process ------------------------------------------------------------------------------
    Event("internal-error", "any", "the first fault of a member of Epochal itself", _FAULT),
    Event(
        "internal-errors",
        "any",
        "at the end, for members that failed more than once",
        (Field("counts", "object", meaning="member to number"),),
    ),
    Event(
        "exit",
        "launcher",
        "the command of `epochal run` ended",
        (
            Field("code", "count", meaning="negative for a signal"),
            Field("text", "text"),
            Field("seconds", "amount", "s"),
        ),
    ),
    # -- importers --------------------------------------------------------------------------------
    Event("preempting", "importer", "the machine was about to be taken away"),
    Event(
        "media", "importer", "something shown that has no file, with its own facts", texts("series")
    ),
    Event("missing-media", "importer", "a file that is not there", texts("series", "path")),
    Event("session-end", "importer", "how TensorBoard's session ended", texts("status")),
    Event("hparams-group", "importer", "TensorBoard's group of the run", texts("group")),
)
