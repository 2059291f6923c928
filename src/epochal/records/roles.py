"""Which series plays which role: the declared one, or one of the names that people give it."""

from __future__ import annotations

from collections.abc import Mapping

from epochal.records.kind import ROLES, Role
from epochal.records.kinds import declared_series

_OTHER_NAMES: Mapping[Role, tuple[str, ...]] = {
    "loss": ("loss", "train_loss", "Loss/train", "total_loss", "training_loss"),
    "eval_loss": (
        "val/loss",
        "val_loss",
        "eval_loss",
        "valid/loss",
        "validation/loss",
        "Loss/validation",
        "test/loss",
        "test_loss",
    ),
    "norm": ("grad_norm", "train/grad_norm", "norm", "gradient_norm", "Gradient/norm"),
    "lr": ("lr", "learning_rate", "train/learning_rate", "Learning_Rate/lr"),
    "throughput": (
        "tokens_per_second",
        "tokens_per_sec",
        "samples_per_second",
        "Performance/tokens_per_sec",
    ),
}


_DECLARED = {field.role: name for name, field in declared_series() if field.role is not None}
# Names tried in this order when no metric was defined with the role; the first that exists is it.
ROLE_GUESSES: Mapping[str, tuple[str, ...]] = {
    role: (_DECLARED[role], *_OTHER_NAMES[role]) for role in ROLES
}
# The role that each of those names is a guess for.
GUESSED_ROLE: Mapping[str, str] = {
    name: role for role, names in ROLE_GUESSES.items() for name in names
}
