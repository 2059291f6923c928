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
_UNSTABLE = (*("divergence", "gradient-explosion", "loss-spike"), *("nonfinite", "lr-too-high"))
_STUCK = ("no-better-than-baseline", "eval-flat", "gradient-vanishing", "never-fell", "plateau")
_ANY = (*_UNSTABLE, *_STUCK)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What is accepted for one fault; words are regular expressions without case."""

    rules: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    symptom: tuple[str, ...] = _ANY


_HIGH_LR = Accepted(("lr-too-high",), _LOWER_LR)
_LOW_LR = Accepted(("lr-too-low",), _RAISE_LR, _STUCK)
_DEAD = Accepted(
    ("dead-layer",),
    (r"\bdead\b", r"negative activations", r"always 0", r"relu"),
    (*_STUCK, "untrained-parameters"),
)
_SUMMED = Accepted(
    ("loss-summed", "lr-too-high"),
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
        ("untrained-parameters",), (r"(missing|not|no|none) .{0,12}optimizer", r"frozen"), _STUCK
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
        ("data-shift",),
        (
            r"evaluation.{0,60}(scale|normali[sz]|preprocess|other data|differ|distribution)",
            r"(normali[sz]|preprocess|scale|transform).{0,60}evaluat",
            r"(prepare|preprocess).{0,60}same way",
        ),
        ("overfitting", "eval-flat", "eval-gap", "no-better-than-baseline", "divergence"),
    ),
    "labels_shuffled": Accepted(
        ("never-fell", "no-better-than-baseline", "data-labels"),
        (r"\blabels?\b", r"targets?.{0,30}(match|belong)"),
        (*_STUCK, "overfitting"),
    ),
    "label_leak": Accepted(
        ("too-good", "data-labels"), (r"answer", r"leak", r"labels? among the inputs"), ()
    ),
    "unshuffled": Accepted(
        ("data-order",),
        (r"shuffl", r"same order", r"one class", r"sorted"),
        (*_ANY, "overfitting", "data-repeated"),
    ),
    "dead_layer": _DEAD,
    "eval_in_train_mode": _EVAL_MODE,
    "sum_loss": _SUMMED,
    "overfitting": Accepted(
        ("overfitting",),
        (r"overfit", r"memori[sz]", r"(add|more) data"),
        ("data-repeated", "too-good", "eval-flat", "eval-gap"),
    ),
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
    "no_warmup": Accepted(("lr-too-high",), (r"warm", *_LOWER_LR)),
    "rate_zero": Accepted(
        ("rate-ended",), (r"rate.{0,30}(0|zero)\b",), (*_STUCK, "untrained-parameters")
    ),
    "schedule_unit": Accepted(
        ("rate-ended",),
        (r"schedule", r"rate.{0,40}(fell|falls|decayed|dropped).{0,60}(step|early)", *_RAISE_LR),
        (*_STUCK, "untrained-parameters"),
    ),
    "exploding_init": Accepted(("init-scale",), _INIT, (*_ANY, "dead-layer", "overfitting")),
    "tiny_init": Accepted(("init-scale",), _INIT, (*_ANY, "dead-layer", "untrained-parameters")),
    "frozen": Accepted(("untrained-parameters",), (r"frozen", r"requires_grad"), _STUCK),
    "stale_batchnorm": Accepted(
        ("stale-batchnorm",),
        (r"batch ?norm", r"running (statistics|mean)", r"\bmode\b", r"eval\(\)"),
        (*_STUCK, "eval-gap", "overfitting", "divergence", "loss-spike", "nonfinite"),
    ),
    "router_collapse": Accepted(("moe-imbalance",), (r"router", r"experts?\b")),
    "missing_step": Accepted(
        ("untrained-parameters", "never-fell"),
        (r"step\(\)", r"(weights|parameters|model).{0,30}(never|not) change"),
        _STUCK,
    ),
    "wrong_sign": Accepted(
        ("loss-sign",), (r"\bsign\b", r"(maximi[sz]|negated)"), (*_ANY, "overfitting")
    ),
    "clip_tight": Accepted(("always-clipped",), (r"clip",), _STUCK),
    "fp16_overflow": Accepted(("nonfinite",), (r"float16", r"overflow"), _UNSTABLE),
    "double_softmax": Accepted(("double-softmax",), (r"softmax", r"logits"), _STUCK),
    "accumulation": Accepted(
        ("lr-too-high", "loss-summed"), (r"accumulat", r"scale of the loss", r"divid", *_LOWER_LR)
    ),
    "exploding_returns": Accepted(
        ("large-returns",),
        (r"reward", r"returns?\b.{0,40}(scale|large|normali)"),
        (*_ANY, "always-clipped"),
    ),
    "one_batch": Accepted(
        ("data-repeated", "overfitting"),
        (r"(same|one) batch", r"(same|repeated) samples", r"memori[sz]"),
        ("too-good", *_STUCK),
    ),
    "nan_input": Accepted(("nonfinite", "data-values"), (r"nan\b.{0,30}(input|sample|batch)",)),
    "same_data_on_ranks": Accepted(
        ("data-repeated",), (r"same (data|batch|samples)", r"sampler"), ("overfitting",)
    ),
    "eval_on_train": Accepted(
        ("data-leak",),
        (r"evaluation.{0,40}(training (data|samples|set)|seen in training)",),
        ("too-good", "data-repeated"),
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
