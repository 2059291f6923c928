"""Makes the evidence sheet of a run: sections in a fixed order, within a number of characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from epochal.store.evidence.curves import loss, metrics
from epochal.store.evidence.data import data
from epochal.store.evidence.material import Fact, Material, Section
from epochal.store.evidence.model import layers, optimizer, program
from epochal.store.evidence.setting import evaluation, nearest, not_recorded, run, times
from epochal.store.run import RunView
from epochal.store.store import Store

# 1,500 tokens of 3.5 characters, without what JSON puts around the texts.
_MOST_CHARACTERS = 4700
# A line with its quotes, comma and indent.
_AROUND = 5
# A longer line would push out ten others.
_LONGEST = 400
_SECTIONS: tuple[tuple[str, Section], ...] = (
    ("run", run),
    ("data", data),
    ("model", program),
    ("optimizer", optimizer),
    ("loss", loss),
    ("metrics", metrics),
    ("evaluation", evaluation),
    ("layers", layers),
    ("times", times),
)


class EvidenceSection(msgspec.Struct, frozen=True):
    """Some facts of an evidence sheet under their title."""

    title: str
    facts: tuple[str, ...]


class Evidence(msgspec.Struct, frozen=True):
    """The decisive facts of a run, without judgement; ``left_out`` counts those without space."""

    run: str
    step: int | None
    sections: tuple[EvidenceSection, ...]
    left_out: int = 0

    def lines(self) -> Iterator[str]:
        """The sheet as people and agents read it."""
        yield f"Evidence of {self.run}"
        for section in self.sections:
            yield section.title
            yield from (f"- {fact}" for fact in section.facts)
        if self.left_out:
            yield f"{self.left_out} more facts were left out for space."

    def __str__(self) -> str:
        return "\n".join(self.lines())


def evidence_of(view: RunView, store: Store | None = None) -> Evidence:
    """The evidence sheet of a run; with its store also what differs from the nearest run."""
    material = Material(view)
    titled = [(title, list(section(material))) for title, section in _SECTIONS]
    titled.append(("differs from the nearest run", list(nearest(material, store))))
    titled.append(("not recorded", list(not_recorded(material))))
    kept, left_out = _fitted([facts for _, facts in titled])
    sections = tuple(
        EvidenceSection(title, facts)
        for (title, _), facts in zip(titled, kept, strict=True)
        if facts
    )
    row = material.row
    return Evidence(f"{row.project}/{row.name}", row.step, sections, left_out)


def _fitted(sections: Sequence[Sequence[Fact]]) -> tuple[list[tuple[str, ...]], int]:
    """Whole lines only: the least important are left out, and of these the last ones first."""
    placed = [(fact.rank, at, fact) for at, facts in enumerate(sections) for fact in facts]
    ordered = sorted(enumerate(placed), key=lambda item: (item[1][0], item[0]))
    chosen: set[int] = set()
    space = _MOST_CHARACTERS
    for place, (_, _, fact) in ordered:
        size = len(fact.text) + _AROUND
        if size <= min(space, _LONGEST):
            space -= size
            chosen.add(place)
    kept: list[list[str]] = [[] for _ in sections]
    for place, (_, at, fact) in enumerate(placed):
        if place in chosen:
            kept[at].append(fact.text)
    return [tuple(texts) for texts in kept], len(placed) - len(chosen)
