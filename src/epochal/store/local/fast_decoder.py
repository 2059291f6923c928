"""A short cut for the lines a training loop writes a million times: same keys, other numbers.

A lane is a decoder for lines of one shape that makes no dictionary of them: the numbers go from the
text into their block. Lines that are not of that shape, in whatever way, are refused and take the
long way round; which shape follows which is remembered, so that alternating lines stay on lanes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec.structs import astuple

from epochal.records import Axis, Record
from epochal.store.local.columns import NO_STEP, Block
from epochal.store.local.part import PartFacts

_MAX_LANES = 64
# Making a decoder takes as long as decoding some hundred lines.
_WORTH_A_LANE = 256
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


class Lane:
    """One shape of lines, and the block their numbers go to."""

    __slots__ = ("axis", "block", "decode", "following", "is_nested", "width")

    def __init__(self, record: Record, fields: tuple[str, ...], axis: Axis, block: Block) -> None:
        self.axis = axis
        self.block = block
        self.width = len(fields)
        self.is_nested = record["log"] == "metrics"
        self.decode: Callable[[bytes], Any] = _decoder(record, fields, nested=self.is_nested)
        # What came after a line of this shape the last time.
        self.following = self


class Lanes:
    """The lanes of one part."""

    def __init__(self, facts: PartFacts) -> None:
        self._facts = facts
        self._is_loop = facts.is_loop
        self._lanes: dict[tuple[Any, ...], Lane] = {}
        self._last: Lane | None = None

    def take(self, ordinal: int, line: bytes) -> bool:
        """Whether a line was taken in; where it was not, nothing has changed."""
        if self._last is None:
            return False
        lane = self._last.following
        block = lane.block
        try:
            record = lane.decode(line)
            step, t = record.step, record.t
            block.steps.append(step)  # a step beyond 64 bits raises before anything is added
        except (msgspec.DecodeError, UnicodeDecodeError, OverflowError):
            return False
        values = astuple(record.m) if lane.is_nested else astuple(record)[: lane.width]
        block.values.frombytes(block.pack(*values))
        block.times.append(t)
        block.ordinals.append(ordinal)
        facts = self._facts
        if facts.updated is None or t > facts.updated:
            facts.updated = t
        if self._is_loop and lane.axis == "step" and step > facts.reached.get("step", step - 1):
            facts.reached["step"] = step
        self._last = lane
        return True

    def learn(self, record: Record, fields: tuple[str, ...], axis: Axis, block: Block) -> None:
        """A record of plain numbers went to a block: the next one like it may take a lane."""
        key = (record.get("id"), *record, *fields)
        lane = self._lanes.get(key)
        if lane is None:
            if len(block.steps) < _WORTH_A_LANE or len(self._lanes) >= _MAX_LANES:
                return
            if not _is_plain(record, fields):
                return
            lane = self._lanes[key] = Lane(record, fields, axis, block)
        if self._last is not None:
            self._last.following = lane
        self._last = lane


def _is_plain(record: Record, fields: tuple[str, ...]) -> bool:
    """Whether a decoder can be made; msgspec knows keys only as they stand in the text."""
    if type(record.get("t")) is not float or type(record.get("id", 0)) not in (int, str):
        return False
    return not any(_ESCAPED.search(key) for key in (*record, *fields))


def _decoder(record: Record, fields: tuple[str, ...], *, nested: bool) -> Callable[[bytes], Any]:
    """What decodes lines with just these keys and with numbers in these fields."""
    # Any text can be a key, but not the name of an attribute.
    numbers = [(f"number_{place}", float) for place in range(len(fields))]
    keys = {f"number_{place}": field for place, field in enumerate(fields)}
    others: list[Any] = [("log", Literal[record["log"]]), ("t", float)]
    if nested:
        inner = _struct(numbers, keys)
        return msgspec.json.Decoder(_struct([*others, ("step", int), ("m", inner)], {})).decode
    left = [key for key in record if key not in ("log", "t", "step", *fields)]
    for place, key in enumerate(left):
        kind = Literal[record["id"]] if key == "id" else Any
        others.append((f"other_{place}", kind))
        keys[f"other_{place}"] = key
    step: tuple[Any, ...] = ("step", int) if "step" in record else ("step", int, NO_STEP)
    return msgspec.json.Decoder(_struct([*numbers, *others, step], keys)).decode


def _struct(fields: list[Any], keys: dict[str, str]) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        "Line", fields, rename=keys or None, forbid_unknown_fields=True, gc=False
    )
