"""What a declaration of a record kind consists of: :class:`Kind`, :class:`Field`, :class:`Event`.

A kind is declared once, in ``epochal/records/kinds``. Typed calls, series names, units, tags of
other trackers and the tables of ``docs/explanation/journal.md`` are taken from that declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec

Record = dict[str, Any]
Axis = Literal["step", "epoch", "time", "none"]
# A count is a whole number, an amount a finite number of at least 0.
FieldType = Literal["number", "count", "amount", "text", "flag", "object", "list", "any"]
Role = Literal["loss", "eval_loss", "norm", "lr", "throughput"]

ROLES: tuple[Role, ...] = get_args(Role)
_NUMERIC = frozenset({"number", "count", "amount"})


class Field(msgspec.Struct, frozen=True, eq=False):
    """One field of a record, or of an object inside one.

    ``series`` says that its numbers are a series; of an object, that each of its items is one.
    ``role`` is what the series means for rules and other trackers. ``tensorboard`` is its tag in
    TensorBoard, where that is another one. ``fields`` are those of an object, or of each object of
    a list.
    """

    name: str
    type: FieldType = "number"
    unit: str = ""
    meaning: str = ""
    series: bool = False
    role: Role | None = None
    tensorboard: str = ""
    choices: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()

    @property
    def is_numeric(self) -> bool:
        """Whether it is one number."""
        return self.type in _NUMERIC


class Kind(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One kind of record: its axis, its fields, and how its series are named.

    ``prefix`` stands before the names of its fields in series and in notices about its values. With
    ``by_id`` the record's ``id`` follows it. ``families`` has open sets of fields: the beginning of
    their names, and what stands for it in the series. Records of a ``dense`` kind come every step
    or every second and hold only numbers: readers keep their series and no list of them.
    """

    name: str
    axis: Axis
    meaning: str
    fields: tuple[Field, ...] = ()
    prefix: str = ""
    by_id: bool = False
    families: Mapping[str, str] = {}
    dense: bool = False

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        return {one.name: one for one in self.fields}

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        """The fields that are one series each."""
        return tuple(one.name for one in self.fields if one.series and one.is_numeric)

    @cached_property
    def objects(self) -> tuple[str, ...]:
        """The fields besides ``m`` of which each item is a series."""
        objects = (one.name for one in self.fields if one.series and one.type == "object")
        return tuple(name for name in objects if name != "m")

    def __getitem__(self, name: str) -> Field:
        return self.by_name[name]

    def prefix_for(self, gpu: Any) -> str:
        """The prefix of a field's name in series of records with this ``id``."""
        return f"{self.prefix}{gpu}/" if self.by_id else self.prefix

    def series_names(self, record: Mapping[str, Any]) -> dict[str, str]:
        """The series of each field of a record that is one number, by the field's name."""
        prefix = self.prefix_for(record.get("id", 0)) if self.by_id else self.prefix
        names = {name: prefix + name for name in self.scalars if name in record}
        for start, instead in self.families.items():
            names |= {n: instead + n[len(start) :] for n in record if n.startswith(start)}
        return names


def kind(name: str, axis: Axis, meaning: str, *fields: Field, **naming: Any) -> Kind:
    """Declare a kind; ``naming`` are further fields of `Kind`, such as its prefix."""
    return Kind(name, axis, meaning, fields, **naming)


class Event(msgspec.Struct, frozen=True, eq=False):
    """One name of an ``event`` record that Epochal writes, with the facts beside the name."""

    name: str
    writer: str
    meaning: str
    fields: tuple[Field, ...] = ()


def series(
    name: str,
    unit: str = "",
    meaning: str = "",
    *,
    type: FieldType = "number",  # noqa: A002 (as in Field)
    role: Role | None = None,
    tensorboard: str = "",
) -> Field:
    """A field that is a series."""
    return Field(name, type, unit, meaning, series=True, role=role, tensorboard=tensorboard)


def nested(name: str, type: FieldType, meaning: str, *fields: Field) -> Field:  # noqa: A002
    """An object, or a list of objects, with these fields."""
    return Field(name, type, meaning=meaning, fields=fields)


def texts(*names: str) -> tuple[Field, ...]:
    """Text fields whose names explain them."""
    return tuple(Field(name, "text") for name in names)


def numbers(*names: str, unit: str = "") -> tuple[Field, ...]:
    """Fields of one number whose names explain them."""
    return tuple(Field(name, "number", unit) for name in names)


def counts(*names: str, unit: str = "") -> tuple[Field, ...]:
    """Whole-number fields whose names explain them."""
    return tuple(Field(name, "count", unit) for name in names)
