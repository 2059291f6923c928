"""Where the nodes of a layered drawing go.

Nodes are in layers, edges point downwards. An edge over several layers gets a bend in each of them,
so that it passes between the nodes. The order within a layer follows the barycentres of the
neighbours; the sweep with the fewest crossings wins. Then each layer is moved as near to its
neighbours as its order and the widths allow (the exact least-squares answer, by pooling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_GAP_X = 22.0
_BEND_GAP_X = 12.0
_ORDER_SWEEPS = 12
_PLACE_SWEEPS = 160
# Long edges and chains of nodes are to be straight; where both meet, the edge gives way.
_BEND_PULL, _CHAIN_PULL, _MIXED_PULL = 8.0, 4.0, 0.1

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Placed:
    """Centres in x by item, and for each edge the items it runs through, both ends included."""

    x: Mapping[str, float]
    layers: tuple[tuple[str, ...], ...]
    routes: Mapping[Edge, tuple[str, ...]]
    width: float


def place(
    layers: Sequence[Sequence[str]], edges: Sequence[Edge], widths: Mapping[str, float]
) -> Placed:
    """Order and place the nodes of the layers; every edge must lead to a later layer."""
    rows, routes = _with_bends(layers, edges)
    links = [pair for route in routes.values() for pair in pairwise(route)]
    rows = _ordered(rows, links)
    x = _centres(rows, links, widths)
    _straighten(rows, routes, x)
    left = min((x[one] - widths.get(one, 0.0) / 2 for row in rows for one in row), default=0.0)
    right = max((x[one] + widths.get(one, 0.0) / 2 for row in rows for one in row), default=0.0)
    return Placed(
        {one: centre - left for one, centre in x.items()},
        tuple(tuple(row) for row in rows),
        routes,
        right - left,
    )


def _with_bends(
    layers: Sequence[Sequence[str]], edges: Sequence[Edge]
) -> tuple[list[list[str]], dict[Edge, tuple[str, ...]]]:
    rows = [list(layer) for layer in layers]
    layer_of = {one: number for number, row in enumerate(rows) for one in row}
    routes: dict[Edge, tuple[str, ...]] = {}
    for source, target in edges:
        bends = []
        for layer in range(layer_of[source] + 1, layer_of[target]):
            bend = f"\0{source}\0{target}\0{layer}"
            rows[layer].append(bend)
            bends.append(bend)
        routes[source, target] = (source, *bends, target)
    return rows, routes


def _ordered(rows: list[list[str]], links: Sequence[Edge]) -> list[list[str]]:
    above, below = _neighbours(links)
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        rows = [list(row) for row in rows]
        numbers = range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1)
        for number in numbers:
            beside = rows[number - 1 if downwards else number + 1]
            place_of = {one: index for index, one in enumerate(beside)}
            neighbours = above if downwards else below
            keys = {
                one: _mean([place_of[n] for n in neighbours.get(one, ())], index)
                for index, one in enumerate(rows[number])
            }
            rows[number].sort(key=keys.__getitem__)
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: Sequence[Sequence[str]], below: Mapping[str, list[str]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        place_of = {one: index for index, one in enumerate(lower)}
        ends = [end for one in upper for end in sorted(place_of[t] for t in below.get(one, ()))]
        total += sum(
            1 for i, first in enumerate(ends) for second in ends[i + 1 :] if second < first
        )
    return total


def _centres(
    rows: Sequence[Sequence[str]], links: Sequence[Edge], widths: Mapping[str, float]
) -> dict[str, float]:
    pulls: dict[str, list[tuple[str, float]]] = {}
    for source, target in links:
        pull = (_CHAIN_PULL, _MIXED_PULL, _BEND_PULL)[_is_bend(source) + _is_bend(target)]
        pulls.setdefault(source, []).append((target, pull))
        pulls.setdefault(target, []).append((source, pull))
    x: dict[str, float] = {}
    for row in rows:
        offsets = _offsets(row, widths)
        middle = offsets[-1] / 2 if offsets else 0.0
        x.update({one: offset - middle for one, offset in zip(row, offsets, strict=True)})
    for sweep in range(_PLACE_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_pulled(one, pulls.get(one, ()), x) for one in row]
            x.update(zip(row, _pooled(wanted, _offsets(row, widths)), strict=True))
    return x


def _straighten(
    rows: Sequence[Sequence[str]], routes: Mapping[Edge, tuple[str, ...]], x: dict[str, float]
) -> None:
    """Make a long edge that passes outside of all nodes one straight line."""
    ends = {(row[side], side) for row in rows if row for side in (0, -1)}
    for route in routes.values():
        bends = [one for one in route[1:-1] if _is_bend(one)]
        for side, outermost in ((0, min), (-1, max)):
            if len(bends) > 1 and all((bend, side) in ends for bend in bends):
                x.update(dict.fromkeys(bends, outermost(x[bend] for bend in bends)))


def _pulled(
    one: str, pulls: Sequence[tuple[str, float]], x: Mapping[str, float]
) -> tuple[float, float]:
    """Where an item would like to be, and how much."""
    weight = sum(pull for _, pull in pulls)
    if not weight:
        return x[one], 0.1
    return sum(x[other] * pull for other, pull in pulls) / weight, weight


def _pooled(wanted: Sequence[tuple[float, float]], offsets: Sequence[float]) -> list[float]:
    """The positions nearest to the wanted ones that keep the order and the gaps."""
    blocks: list[tuple[float, float, int]] = []
    for (place_wanted, weight), offset in zip(wanted, offsets, strict=True):
        blocks.append((place_wanted - offset, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, wa, na), (b, wb, nb) = blocks[-2:]
            blocks[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    bases = [base for base, _, count in blocks for _ in range(count)]
    return [base + offset for base, offset in zip(bases, offsets, strict=True)]


def _offsets(row: Sequence[str], widths: Mapping[str, float]) -> list[float]:
    """The least distances from the first centre of a row to each."""
    offsets: list[float] = []
    for index, one in enumerate(row):
        if not index:
            offsets.append(0.0)
            continue
        before = row[index - 1]
        gap = _BEND_GAP_X if _is_bend(one) and _is_bend(before) else _GAP_X
        half = (widths.get(before, 0.0) + widths.get(one, 0.0)) / 2
        offsets.append(offsets[-1] + half + gap)
    return offsets


def _neighbours(links: Sequence[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for source, target in links:
        above.setdefault(target, []).append(source)
        below.setdefault(source, []).append(target)
    return above, below


def _is_bend(one: str) -> bool:
    return one.startswith(("\0", "\1"))  # bends, and ports of folded drawings


def _mean(places: Sequence[int], otherwise: int) -> float:
    return sum(places) / len(places) if places else float(otherwise)
