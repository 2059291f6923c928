"""What is written is declared: no kind, field or event of Epochal is left out."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.journal.layout import RunFolder
from epochal.journal.reader import read_journal
from epochal.records import KINDS, ROLE_GUESSES, ROLES, Kind, declared_series, unit_of
from epochal.records.kinds.events import EVENTS

SOURCES = Path(epochal.__file__).parent
FORMAT_1 = Path(__file__).parents[1] / "journal" / "golden" / "format-1"
EVERY_RECORD = {"log", "t", "step", "m", "nonfinite"}
TYPES: dict[str, tuple[type, ...]] = {
    "number": (int, float),
    "count": (int,),
    "amount": (int, float),
    "text": (str,),
    "flag": (bool,),
    "object": (dict,),
    "list": (list,),
    "any": (object,),
}


def is_declared(kind: Kind, name: str, value: Any) -> bool:
    if name in EVERY_RECORD or name.startswith(tuple(kind.families)):
        return True
    return name in kind.by_name and isinstance(value, (*TYPES[kind[name].type], type(None)))


def test_the_fields_of_the_golden_folder_are_declared() -> None:
    free = {"event", "graph", "of-the-future"}
    odd = [
        (record["log"], name)
        for _, record in read_journal(RunFolder(FORMAT_1))
        if record["log"] not in free
        for name, value in record.items()
        if not is_declared(KINDS[record["log"]], name, value)
    ]
    # It was written when the host's time was one number and a data record had counts nobody read.
    data = [("data", "first_batch"), ("data", "hashed"), ("data", "worker_samples")]
    assert odd == [*data, ("phases", "host_ms")]


def test_every_event_that_the_program_writes_is_declared() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    called = re.findall(r'(?:run|journal|self|_kept|recorder)\.event\(\s*"([a-z-]+)"', text)
    called += re.findall(r'_kept\.add\(\s*"event", name="([a-z-]+)"', text)
    built = re.findall(r'"log": "event",[^}]*?"name": "([a-z-]+)"', text)
    assert {"internal-error", "hardware", "exit", "alert"} <= set(called)
    assert "records-lost" in built
    assert {*called, *built} <= {event.name for event in EVENTS}


def test_names_are_declared_once() -> None:
    groups = [[event.name for event in EVENTS], [name for name, _ in declared_series()]]
    groups += [[field.name for field in kind.fields] for kind in KINDS.values()]
    assert [name for names in groups for name, count in Counter(names).items() if count > 1] == []


def test_each_role_is_that_of_one_declared_series() -> None:
    roles = [field.role for _, field in declared_series() if field.role is not None]
    assert sorted(roles) == sorted(ROLES)
    assert ROLE_GUESSES["eval_loss"][0] == "eval/loss"


def test_fields_of_an_open_set_are_series_under_the_name_of_the_set() -> None:
    assert KINDS["step"].series_names({"loss": 1, "moe_x": 2}) == {
        "loss": "train/loss",
        "moe_x": "moe/x",
    }


@pytest.mark.parametrize(
    ("series", "unit"),
    [
        ("train/duration_ms", "ms"),
        ("gpu/1/power", "mW"),
        ("memory/gpu0/weights/pinned", "bytes"),
        ("resources/gpu_pct", "%"),
        ("train/loss", ""),
        ("gpu/power", "mW"),
        ("my/ram_used", ""),
    ],
)
def test_a_declared_series_has_its_unit(series: str, unit: str) -> None:
    assert unit_of(series) == unit
