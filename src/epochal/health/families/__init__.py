"""The families of trainings, and which of them a run is of."""

from __future__ import annotations

from typing import NamedTuple

from epochal.health.families import language, others, reinforcement, supervised
from epochal.health.families.family import Facts, Family

# The first that recognises a run wins: the more a family changes what is normal, the earlier.
REGISTRY: tuple[Family, ...] = (
    others.ADVERSARIAL,
    language.PREFERENCE,
    reinforcement.FAMILY,
    others.CONTRASTIVE,
    others.GENERATIVE,
    others.TRANSDUCTION,
    language.FAMILY,
    supervised.FAMILY,
)
BY_NAME = {family.name: family for family in REGISTRY}
# Where the targets move with the training, so that the loss need not fall.
MOVING_TARGETS = frozenset(family.name for family in REGISTRY if not family.loss_falls)


class Recognised(NamedTuple):
    """A family, and the fact that speaks for it."""

    family: Family
    why: str


def recognise(facts: Facts) -> Recognised | None:
    """Return the family of a run; None if no fact speaks for one."""
    for family in REGISTRY:
        if (why := family.recognise(facts)) is not None:
            return Recognised(family, why)
    return None


def of_name(name: str | None) -> Recognised | None:
    """Return the family that a user named; None for one that this version does not know."""
    family = BY_NAME.get(name or "")
    return None if family is None else Recognised(family, "you named it")
