"""The series that watching a model writes for its parameters, layers and branches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from epochal.health.observation import Observation
from epochal.health.rule import Verdict


def has_free_metrics(observation: Observation) -> bool:
    """Whether a record is of a step and has free metrics, as those of layers are."""
    return observation.step is not None and "m" in observation.record


def holds_layers(observation: Observation) -> bool:
    """Whether a record of a step has series of layers."""
    return has_free_metrics(observation) and _are_of_layers(tuple(observation.values))


@lru_cache(64)
def _are_of_layers(names: tuple[str, ...]) -> bool:
    return any(_members(family.prefix, family.suffix, names) for family in FAMILIES)


@lru_cache(64)
def _members(prefix: str, suffix: str, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """The names of a family among those of a record, and their layers: most records are alike."""
    return [
        (name, name[len(prefix) : len(name) - len(suffix)])
        for name in names
        if name.startswith(prefix) and name.endswith(suffix)
    ]


@dataclass(frozen=True, slots=True)
class LayerSeries:
    """A family of series, one for each layer: the prefix and suffix of the layer's name."""

    prefix: str
    suffix: str = ""

    def of(self, values: Mapping[str, float]) -> dict[str, float]:
        """The finite values of the family, by layer."""
        members = _members(self.prefix, self.suffix, tuple(values))
        return {layer: values[name] for name, layer in members if math.isfinite(values[name])}

    def name(self, layer: str) -> str:
        return f"{self.prefix}{layer}{self.suffix}"


GRADIENT_NORMS = LayerSeries("grads/", "/norm")
WEIGHT_NORMS = LayerSeries("params/", "/norm")
UPDATE_RATIOS = LayerSeries("update_ratio/")
RUNNING_STATS = LayerSeries("running_stats/", "/norm")
GRADIENT_ZEROS = LayerSeries("grads/", "/zeros")
# The share of a weight's rows whose gradient is exactly zero.
DEAD_UNITS = LayerSeries("grads/", "/dead")
FAMILIES = (GRADIENT_NORMS, WEIGHT_NORMS, UPDATE_RATIOS, RUNNING_STATS)


# A bias before a normalisation, and that of the keys of an attention, change nothing: of their
# gradient only rounding is left, far below that of the weights beside it.
_ROUNDING = 1e-4


def has_gradient(layer: str, gradients: Mapping[str, float]) -> bool:
    """Whether a parameter has a gradient above zero, beyond what rounding leaves of a bias's."""
    gradient, weight = gradients.get(layer), _renamed(layer, "bias", "weight")
    beside = gradients.get(weight, 0.0) if weight != layer else 0.0
    return gradient is not None and gradient > _ROUNDING * beside


def is_spare_bias(layer: str, gradients: Mapping[str, float]) -> bool:
    """Whether a parameter is a bias beside a weight that has a gradient.

    Outputs that are compared with each other, or normalised, do not depend on it.
    """
    weight = _renamed(layer, "bias", "weight")
    return weight != layer and gradients.get(weight, 0.0) > 0


def _renamed(name: str, part: str, other: str) -> str:
    head, dot, last = name.rpartition(".")
    return f"{head}{dot}{last.replace(part, other)}"


def named(layers: Sequence[str]) -> str:
    """Layers in a sentence: ``h.0.mlp (and 3 more: a, b, c)``."""
    others = layers[1:]
    if not others:
        return layers[0]
    shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
    return f"{layers[0]} (and {len(others)} more: {shown})"


class StreakCounter:
    """Counts for how many samples in a row each part has ailed, and which one a finding names.

    The one that is named stays the same for as long as it ails, so that the finding does. It has
    recovered after as many samples in a row in which it is well.
    """

    def __init__(self, *, needed: int) -> None:
        self._needed = needed
        self._streaks: dict[str, tuple[int, int]] = {}  # samples in a row, step of the first
        self._lead: str | None = None
        self._well: dict[str, int] = {}  # of parts that were named: samples in a row

    def note(self, name: str, *, ails: bool, step: int, is_well: bool = True) -> None:
        """Take in one sample of one part; ``is_well`` False: it may be as ill as before."""
        if name in self._well:
            self._well[name] = self._well[name] + 1 if is_well and not ails else 0
        if not ails:
            self._streaks.pop(name, None)
            return
        count, since = self._streaks.get(name, (0, step))
        self._streaks[name] = (count + 1, since)

    def names(self) -> list[str]:
        """The parts that have ailed for long enough, in the order in which it began."""
        return [name for name, (count, _) in self._streaks.items() if count >= self._needed]

    def since(self, name: str) -> int:
        """The step of the first sample of a part that ails."""
        return self._streaks[name][1]

    def forget(self) -> None:
        """Count again; named layers stay named until samples clear them."""
        self._streaks.clear()
        self._well = dict.fromkeys(self._well, 0)

    def verdicts(
        self, subject: Callable[[str], str], describe: Callable[[Sequence[str]], Verdict]
    ) -> Iterator[Verdict]:
        """A verdict on the part that is named, and on those that were and have recovered.

        ``subject`` is what a part is called in findings; ``describe`` makes the verdict on all the
        parts that ail, the one that is named first.
        """
        names = self.names()
        for name in [name for name, count in self._well.items() if count >= self._needed]:
            del self._well[name]
            yield Verdict(subject(name), active=False, extent=self._needed)
        if self._lead not in names:
            self._lead = names[0] if names else None
        if self._lead is not None:
            self._well[self._lead] = 0
            yield describe([self._lead, *(name for name in names if name != self._lead)])


# Lists and dictionaries of modules of which a sample takes some, and single modules named alike.
_BESIDE = re.compile(r"(experts|heads|adapters|branches|tasks|domains|towers|languages)$")
_ONE_OF = re.compile(r"(.*(?:expert|head|adapter|branch|task|domain|tower)_?)\d+$")
# What chooses among the members of a list beside it.
_CHOOSES = re.compile(r"gat(e|ing)|router|switch")
# Lists of what follows each other; a residual path may lead around one of these.
_IN_DEPTH = re.compile(r"(^h|layers?|blocks?|stages?)$")


def in_idle_branches(idle: Set[str], parameters: Iterable[str]) -> set[str]:
    """The parameters of branches that are wholly idle, while another one beside them is not."""
    found: set[str] = set()
    for family in _families(tuple(parameters)) if idle else ():
        if any(branch.isdisjoint(idle) for branch in family):
            found.update(*(branch for branch in family if branch <= idle))
    return found


@lru_cache(64)
def _families(parameters: tuple[str, ...]) -> list[list[frozenset[str]]]:
    """Every set of two or more branches among the parameters of a model."""
    choosing = {
        ".".join(parts[:place])
        for parts in (parameter.split(".") for parameter in parameters)
        for place, part in enumerate(parts)
        if _CHOOSES.search(part)
    }
    grouped: dict[str, dict[str, dict[str, str]]] = {}
    for parameter in parameters:
        parts = parameter.split(".")
        for place in range(len(parts)):
            family = _family(parts, place, choosing)
            if family is not None:
                branch, rest = ".".join(parts[: place + 1]), ".".join(parts[place + 1 :])
                grouped.setdefault(family, {}).setdefault(branch, {})[rest] = parameter
    return [
        [frozenset(members.values()) for members in branches.values()]
        for branches in grouped.values()
        if len(branches) > 1 and len({frozenset(members) for members in branches.values()}) == 1
    ]


def _family(parts: Sequence[str], place: int, choosing: Collection[str]) -> str | None:
    """What the branch that a parameter's name has at a place belongs to; None for no branch."""
    container = parts[place - 1] if place else ""
    if one := _ONE_OF.match(parts[place]):
        return ".".join((*parts[:place], one[1]))
    is_chosen = parts[place].isdigit() and ".".join(parts[: max(place - 1, 0)]) in choosing
    is_listed = is_chosen and container and not _IN_DEPTH.search(container)
    if container and (is_listed or _BESIDE.search(container)):
        return ".".join(parts[:place])
    return None
