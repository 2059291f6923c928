"""Which rules would only repeat what a graver finding says: they add nothing while it is open."""

from __future__ import annotations

from collections.abc import Mapping

from epochal.health.finding import Finding

_ADVICE = frozenset(
    "advice-stuck advice-fading advice-unstable advice-guard advice-cuts advice-rate-room".split()
)
# A model that was thrown back neither learns nor guesses; its weights and updates show why.
_OF_A_LOST_MODEL = _ADVICE | frozenset(
    "plateau never-fell eval-flat eval-at-chance overfitting weight-norm update-ratio "
    "gradient-vanishing repeated-data".split()
)
# Where the loss is no number nothing that is computed from the weights is one for long.
_OF_NO_NUMBERS = _OF_A_LOST_MODEL | frozenset(
    "nonfinite divergence loss-spike gradient-explosion gradient-acceleration always-clipped "
    "no-warmup lr-too-high dead-layer frozen-layer replica-drift moe-imbalance moe-collapse "
    "too-good".split()
)

CONSEQUENCES: Mapping[str, frozenset[str]] = {
    "nonfinite": _OF_NO_NUMBERS,
    "divergence": _OF_A_LOST_MODEL,
}


def is_consequence(rule: str, subject: str, known: Mapping[tuple[str, str], Finding]) -> bool:
    """Whether an error that is open says already what this rule has found.

    ``known`` are the open findings by rule and subject; an error among them is never silenced, and
    what is milder does not grow.
    """
    own = known.get((rule, subject))
    if own is not None and own.severity == "error":
        return False
    return any(
        finding.severity == "error" and rule in CONSEQUENCES.get(finding.rule, ())
        for finding in known.values()
    )
