"""Which findings are right about which fault, and which notes mislead about a healthy training.

A finding is right about a fault if its rule is one of ``rules``, or if its sentence or a short
advice has one of the ``words``: you then fix the training or find the mistake. A rule of
``symptom`` says only that something is wrong. What the healthy twins are told as well counts for
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

# An advice that lists everything helps nobody: longer ones are not accepted for their words.
LONGEST_ADVICE_WORDS = 60

_LOWER_LR = (
    r"(lower|halve|half|reduce|cut|smaller|divide|\d times less).{0,40}(rate|peak)",
    r"(rate|peak).{0,30}(too (high|large)|is high|lower|smaller)",
)
_RAISE_LR = (
    r"(raise|increase|higher|larger|times).{0,30}(rate|peak)",
    r"(rate|peak).{0,30}(too (low|small)|higher|larger)",
    r"(steps?|updates?).{0,30}too small",
)
_UNSTABLE = (
    *("divergence", "gradient-acceleration", "gradient-explosion", "loss-spike", "lr-too-high"),
    *("no-warmup", "nonfinite", "steps-too-large", "update-ratio", "weight-norm"),
)
_STUCK = ("eval-at-chance", "eval-flat", "gradient-vanishing", "never-fell", "plateau")
_ANY = (*_UNSTABLE, *_STUCK)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What is accepted for one fault; words are regular expressions without case."""

    rules: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    symptom: tuple[str, ...] = _ANY


_HIGH_LR = Accepted(("lr-too-high", "steps-too-large"), _LOWER_LR)
_LOW_LR = Accepted(("steps-too-small",), _RAISE_LR, (*_STUCK, "update-ratio"))
_DEAD = Accepted(
    ("dead-layer",),
    (r"\bdead\b", r"negative activations", r"always 0", r"relu"),
    (*_STUCK, "frozen-layer", "update-ratio", "weight-norm"),
)
_SUMMED = Accepted(
    ("loss-summed", "lr-too-high", "steps-too-large"),
    (r"reduction", r"scale of the loss", r"\bsum(med)?\b.{0,40}\bmean\b", *_LOWER_LR),
)
_EVAL_MODE = Accepted(
    ("eval-mode",),
    (r"dropout (is|stays|left)?.{0,20}(on|active|in evaluation)", r"\bmode\b", r"eval\(\)"),
    ("eval-flat", "eval-gap", "overfitting"),
)

ACCEPTED: dict[str, Accepted] = {
    "lr_x10": _HIGH_LR,
    "lr_x30": _HIGH_LR,
    "lr_div100": _LOW_LR,
    "missing_zero_grad": Accepted(
        ("gradients-add-up",),
        (r"zero_grad", r"gradients?.{0,40}(accumulat|add up|never (cleared|reset|zero))"),
    ),
    "missing_parameters": Accepted(
        ("frozen-layer", "parameters-without-optimizer"),
        (r"(missing|not|no|none) .{0,12}optimizer", r"frozen"),
        (*_STUCK, "update-ratio"),
    ),
    "inputs_x255": Accepted(
        ("input-scale",),
        (
            r"inputs?.{0,60}(scale|too large|normali[sz]|standardi[sz]|255|times|range)",
            r"(scale|normali[sz]e|standardi[sz]e|divide).{0,40}(inputs?|data|features?|pixels?)",
        ),
        (*_ANY, "dead-layer", "init-scale"),
    ),
    "eval_scale": Accepted(
        ("data-mismatch", "data-drift"),
        (
            r"evaluation.{0,60}(scale|normali[sz]|preprocess|other data|differ|distribution)",
            r"(normali[sz]|preprocess|scale|transform).{0,60}evaluat",
            r"(prepare|preprocess).{0,60}same way",
        ),
        ("overfitting", "eval-flat", "eval-gap", "eval-at-chance", "divergence"),
    ),
    "labels_shuffled": Accepted(
        ("never-fell", "eval-at-chance", "learns-average"),
        (r"\blabels?\b", r"targets?.{0,30}(match|belong)"),
        (*_STUCK, "overfitting"),
    ),
    "label_leak": Accepted(
        ("too-good", "data-answer"), (r"answer", r"leak", r"labels? among the inputs"), ()
    ),
    "unshuffled": Accepted(
        ("data-order",),
        (r"shuffl", r"same order", r"one class", r"sorted"),
        (*_ANY, "overfitting", "repeated-data"),
    ),
    "dead_layer": _DEAD,
    "eval_in_train_mode": _EVAL_MODE,
    "sum_loss": _SUMMED,
    "overfitting": Accepted(
        ("overfitting",),
        (r"overfit", r"memori[sz]", r"(add|more) data"),
        ("data-repeated", "too-good", "eval-flat", "eval-gap"),
    ),
    "nan_input": Accepted(cause=("nonfinite",), words=(r"nan\b.{0,30}(input|sample|batch)",)),
    "same_data_on_ranks": Accepted(
        words=(r"same (data|batch|samples)", r"sampler"), symptom=("overfitting", "repeated-data")
    ),
    "eval_on_train": Accepted(
        words=(
            r"evaluation.{0,40}(training (data|samples|set)|seen in training)",
            r"(test|evaluation) samples.{0,30}training",
            r"evaluat.{0,30}same (data|samples)",
        ),
        symptom=("too-good", "repeated-data"),
    ),
    "dropout_in_eval": Accepted(
        words=(
            r"dropout (is|stays|left)?.{0,20}(on|active|in evaluation)",
            r"\bmode\b",
            r"eval\(\)",
        ),
        symptom=("eval-flat", "overfitting"),
    ),
    "slow_loader": Accepted(
        cause=("input-bound",),
        words=(r"wait.{0,20}(for )?(data|input)",),
        symptom=("throughput-drop",),
    ),
    "memory_leak": Accepted(
        cause=("memory-growth",), words=(r"memory.{0,40}grow",), symptom=("throughput-drop",)
    ),
    "straggler": Accepted(
        cause=("straggler",), words=(r"rank \d.{0,30}slow",), symptom=("throughput-drop",)
    ),
    "rank_drift": Accepted(
        cause=("replica-drift",), words=(r"not (equal|exchanged)", r"differ.{0,30}rank"), symptom=()
    ),
    "hang": Accepted(cause=("silent-run",), words=(r"hang", r"nothing has been logged")),
}

_INIT = (r"\binit", r"scale of the (weights|outputs|activations)", r"start(s|ed)? (too|very) large")
# Faults that only the older recorded journals have. Their rules have tests of their own.
OLDER: dict[str, Accepted] = {
    "rate_x10": _HIGH_LR,
    "rate_x30": _HIGH_LR,
    "rate_too_small": _LOW_LR,
    "dead_relu": _DEAD,
    "wrong_reduction": _SUMMED,
    "dropout_in_eval": _EVAL_MODE,
    "no_warmup": Accepted(("no-warmup", "lr-too-high", "steps-too-large"), (r"warm", *_LOWER_LR)),
    "rate_zero": Accepted(
        ("rate-ended",), (r"rate.{0,30}(0|zero)\b",), (*_STUCK, "update-ratio", "frozen-layer")
    ),
    "schedule_unit": Accepted(
        ("rate-ended",),
        (r"schedule", r"rate.{0,40}(fell|falls|decayed|dropped).{0,60}(step|early)", *_RAISE_LR),
        (*_STUCK, "update-ratio", "frozen-layer"),
    ),
    "exploding_init": Accepted(("init-scale",), _INIT, (*_ANY, "dead-layer", "overfitting")),
    "tiny_init": Accepted(("init-scale",), _INIT, (*_ANY, "dead-layer", "frozen-layer")),
    "frozen": Accepted(("frozen-layer",), (r"frozen", r"requires_grad"), (*_STUCK, "update-ratio")),
    "stale_batchnorm": Accepted(
        ("stale-batchnorm",),
        (r"batch ?norm", r"running (statistics|mean)", r"\bmode\b", r"eval\(\)"),
        (*_STUCK, "eval-gap", "overfitting", "divergence", "loss-spike", "nonfinite"),
    ),
    "router_collapse": Accepted(("moe-collapse", "moe-imbalance"), (r"router", r"experts?\b")),
    "missing_step": Accepted(
        ("frozen-layer", "never-fell"),
        (r"step\(\)", r"(weights|parameters|model).{0,30}(never|not) change"),
        (*_STUCK, "update-ratio"),
    ),
    "wrong_sign": Accepted(
        ("loss-sign",), (r"\bsign\b", r"(maximi[sz]|negated)"), (*_ANY, "overfitting")
    ),
    "clip_tight": Accepted(("always-clipped",), (r"clip",), (*_STUCK, "update-ratio")),
    "fp16_overflow": Accepted(("nonfinite",), (r"float16", r"overflow"), _UNSTABLE),
    "double_softmax": Accepted(
        ("double-softmax",), (r"softmax", r"logits"), (*_STUCK, "update-ratio")
    ),
    "accumulation": Accepted(
        ("lr-too-high", "steps-too-large", "loss-summed"),
        (r"accumulat", r"scale of the loss", r"divid", *_LOWER_LR),
    ),
    "exploding_returns": Accepted(
        ("large-returns",),
        (r"reward", r"returns?\b.{0,40}(scale|large|normali)"),
        (*_ANY, "always-clipped"),
    ),
    "one_batch": Accepted(
        ("data-repeated", "repeated-data", "overfitting"),
        (r"(same|one) batch", r"(same|repeated) samples", r"memori[sz]"),
        ("too-good", *_STUCK),
    ),
    "nan_input": Accepted(("nonfinite", "data-values"), (r"nan\b.{0,30}(input|sample|batch)",)),
    "same_data_on_ranks": Accepted(
        ("data-ranks",), (r"same (data|batch|samples)", r"sampler"), ("overfitting",)
    ),
    "eval_on_train": Accepted(
        ("data-leak",),
        (r"evaluation.{0,40}(training (data|samples|set)|seen in training)",),
        ("too-good", "repeated-data"),
    ),
    "slow_loader": Accepted(
        ("input-bound",), (r"wait.{0,20}(for )?(data|input)",), ("throughput-drop",)
    ),
    "straggler": Accepted(("straggler",), (r"rank \d.{0,30}slow",), ("throughput-drop",)),
    "rank_drift": Accepted(("replica-drift",), (r"not (equal|exchanged)", r"differ.{0,30}rank")),
}

# Notes about a healthy training that say a fact which its own metrics prove.
FACTUAL_NOTES = frozenset({"loss-spike", "gradient-explosion", "always-clipped"})
# Notes that say that nothing improves any more. They mislead if the loss falls afterwards, by more
# than this share of what it had fallen before.
STANDSTILL_NOTES = frozenset({"eval-flat", "plateau"})
STANDSTILL_FALL = 0.05
# Any other note about a healthy training misleads, and so does every warning and every error.
