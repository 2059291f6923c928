"""Which findings are right about which fault, and which notes mislead about a healthy training.

This table is older than any rule that was changed because of the clinic. A finding is right about
a fault if its rule stands in ``cause``, or if its sentence has one of the ``words``. It gives
accepted advice if its rule stands in ``advice``, or if its advice has one of the ``words`` or
``advice_words``: whoever follows it mends the training or finds the mistake. A rule of ``symptom``
says only that something is wrong. What healthy twins are told as well counts for nothing. The table
was read again for the blind kinds before one of them was judged, and holds for them unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

# An advice that lists everything helps nobody: longer ones are not accepted for their words.
LONGEST_ADVICE_WORDS = 60

_LOWER_RATE = (
    r"(lower|halve|half|reduce|cut|smaller|divide|\d times less).{0,40}(rate|peak)",
    r"(rate|peak).{0,30}(too (high|large)|is high|lower|smaller)",
)
_RAISE_RATE = (
    r"(raise|increase|higher|larger|times).{0,30}(rate|peak)",
    r"(rate|peak).{0,30}(too (low|small)|higher|larger)",
)
_UNSTABLE = (
    "divergence",
    "gradient-acceleration",
    "gradient-explosion",
    "loss-spike",
    "lr-too-high",
    "no-warmup",
    "nonfinite",
    "update-ratio",
    "weight-norm",
)
_STUCK = ("eval-at-chance", "eval-flat", "gradient-vanishing", "never-fell", "plateau")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What is accepted for one fault; words are regular expressions without case."""

    cause: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    advice_words: tuple[str, ...] = ()
    symptom: tuple[str, ...] = ()


_HIGH_RATE = Accepted(cause=("lr-too-high",), words=_LOWER_RATE, symptom=(*_UNSTABLE, *_STUCK))

ACCEPTED: dict[str, Accepted] = {
    "rate_x10": _HIGH_RATE,
    "rate_x30": _HIGH_RATE,
    "rate_too_small": Accepted(
        words=(*_RAISE_RATE, r"steps?.{0,30}too small"), symptom=(*_STUCK, "update-ratio")
    ),
    "no_warmup": Accepted(
        cause=("no-warmup",),
        words=(r"warm",),
        advice=("lr-too-high",),
        advice_words=_LOWER_RATE,
        symptom=(*_UNSTABLE, *_STUCK),
    ),
    "rate_zero": Accepted(
        words=(
            r"rate.{0,30}\b(is|was|of|at|to|fell to|stays at) (0|zero)\b",
            r"rate.{0,30}(0|zero)\b",
        ),
        symptom=(*_STUCK, "update-ratio", "frozen-layer"),
    ),
    "schedule_unit": Accepted(
        words=(
            r"schedule",
            r"steps? as.{0,20}epoch",
            r"rate.{0,40}(fell|falls|fallen|decayed|dropped).{0,60}(step|early|too)",
            *_RAISE_RATE,
        ),
        symptom=(*_STUCK, "update-ratio", "frozen-layer"),
    ),
    "exploding_init": Accepted(
        words=(
            r"\binit",
            r"scale of the (weights|outputs|activations)",
            r"start(s|ed)? (too|very) (large|high)",
        ),
        symptom=(*_UNSTABLE, *_STUCK, "dead-layer", "overfitting"),
    ),
    "tiny_init": Accepted(
        words=(
            r"\binit",
            r"scale of the (weights|outputs|activations)",
            r"weights.{0,30}(tiny|small|near 0)",
        ),
        symptom=(*_UNSTABLE, *_STUCK, "dead-layer", "frozen-layer"),
    ),
    "dead_relu": Accepted(
        cause=("dead-layer",),
        words=(r"\bdead\b", r"negative activations", r"always 0", r"relu"),
        symptom=(*_STUCK, "frozen-layer", "update-ratio", "weight-norm"),
    ),
    "frozen": Accepted(
        cause=("frozen-layer",),
        words=(r"frozen", r"requires_grad", r"not (trained|in the optimizer)"),
        symptom=(*_STUCK, "update-ratio"),
    ),
    "missing_parameters": Accepted(
        cause=("frozen-layer",),
        words=(r"(missing|not) in the optimizer", r"frozen"),
        symptom=(*_STUCK, "update-ratio"),
    ),
    "stale_batchnorm": Accepted(
        words=(r"batch ?norm", r"running (statistics|mean)", r"\bmode\b", r"eval\(\)"),
        symptom=(*_STUCK, "overfitting", "divergence", "loss-spike", "nonfinite"),
    ),
    "router_collapse": Accepted(
        cause=("moe-imbalance",),
        words=(r"router", r"experts?\b"),
        symptom=(*_UNSTABLE, *_STUCK, "dead-layer", "frozen-layer"),
    ),
    "missing_zero_grad": Accepted(
        words=(r"zero_grad", r"gradients?.{0,40}(accumulat|add up|never (cleared|reset|zero))"),
        symptom=(*_UNSTABLE, *_STUCK),
    ),
    "missing_step": Accepted(
        cause=("frozen-layer",),
        words=(r"step\(\)", r"(weights|parameters|model).{0,30}(never|not) change"),
        advice=("never-fell",),
        symptom=(*_STUCK, "update-ratio"),
    ),
    "wrong_sign": Accepted(
        words=(r"\bsign\b", r"(maximi[sz]|ascent|negated)"),
        symptom=(*_UNSTABLE, *_STUCK, "overfitting"),
    ),
    "clip_tight": Accepted(
        cause=("always-clipped",), words=(r"clip",), symptom=(*_STUCK, "update-ratio")
    ),
    "fp16_overflow": Accepted(
        cause=("nonfinite",), words=(r"float16", r"fp16", r"overflow"), symptom=_UNSTABLE
    ),
    "double_softmax": Accepted(
        words=(r"softmax", r"saturated", r"logits"), symptom=(*_STUCK, "update-ratio")
    ),
    "wrong_reduction": Accepted(
        cause=("lr-too-high",),
        words=(r"reduction", r"scale of the loss", r"\bsum(med)?\b.{0,40}\bmean\b", *_LOWER_RATE),
        symptom=(*_UNSTABLE, *_STUCK),
    ),
    "accumulation": Accepted(
        cause=("lr-too-high",),
        words=(r"accumulat", r"scale of the loss", r"divid", *_LOWER_RATE),
        symptom=(*_UNSTABLE, *_STUCK),
    ),
    "exploding_returns": Accepted(
        words=(
            r"reward",
            r"returns?\b.{0,40}(scale|large|normali)",
            r"scale of the (loss|targets)",
        ),
        symptom=(*_UNSTABLE, *_STUCK, "always-clipped"),
    ),
    "labels_shuffled": Accepted(
        cause=("never-fell", "eval-at-chance"),
        words=(r"\blabels?\b", r"targets?.{0,30}(match|belong)"),
        symptom=(*_STUCK, "overfitting"),
    ),
    "label_leak": Accepted(
        cause=("too-good",), words=(r"answer", r"leak", r"labels? among the inputs"), symptom=()
    ),
    "one_batch": Accepted(
        cause=("repeated-data",),
        words=(r"(same|one) batch", r"(same|repeated) samples", r"memori[sz]"),
        advice=("overfitting",),
        symptom=("too-good", *_STUCK),
    ),
    "unshuffled": Accepted(
        words=(r"shuffl", r"same order", r"one class", r"sorted"),
        symptom=(*_UNSTABLE, *_STUCK, "overfitting", "repeated-data"),
    ),
    "overfitting": Accepted(
        cause=("overfitting",),
        words=(r"overfit", r"memori[sz]", r"(add|more) data"),
        symptom=("repeated-data", "too-good", "eval-flat"),
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
        symptom=("throughput-drop", "low-sol"),
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

# Notes about a healthy training that say a fact, which its own figures prove.
FACTUAL_NOTES = frozenset({"loss-spike", "gradient-explosion", "always-clipped"})
# Notes that say that nothing gets better any more. They mislead if the loss falls further
# afterwards, by more than this share of what it had fallen before. One of them is a fact about a
# training that has converged; more of them repeat it, and are counted apart.
STANDSTILL_NOTES = frozenset({"eval-flat", "plateau"})
STANDSTILL_FALL = 0.05
# Any other note about a healthy training misleads, and so does every warning and every error.
