"""The table of names in ``docs/how-to/from-wandb.md`` is exact."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import epochal.wandb as wandb
from epochal.wandb.settings import VARIABLES

real = pytest.importorskip("wandb")
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "from-wandb.md").read_text(encoding="utf-8")
STATES = ("yes", "partly", "accepted", "launched", "no")


def rows(heading: str) -> dict[str, list[str]]:
    """The names of a table's first column, with the other columns."""
    part = PAGE.partition(f"### {heading}\n")[2].partition("\n#")[0]
    found: dict[str, list[str]] = {}
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`([^`]+)`", cells[0]) if line.startswith("| `") else ():
            assert name not in found, name
            found[name] = cells[1:]
    return found


def test_every_name_of_the_real_package_is_in_the_table() -> None:
    public = {name for name in (*dir(real), *real.__all__) if not name.startswith("_")}
    assert set(rows("Every name")) == public - {"annotations"}  # of `from __future__`


def test_the_states_are_true() -> None:
    states = {name: cells[0] for name, cells in rows("Every name").items()}
    assert set(states.values()) == set(STATES)
    for name, state in states.items():
        if state == "no":
            with pytest.raises(AttributeError, match="lists what it has"):
                getattr(wandb, name)
        elif state == "launched":
            with pytest.raises(AttributeError, match="needs python -m"):
                getattr(wandb, name)
        else:
            assert hasattr(wandb, name), name


def test_every_argument_of_init_is_in_its_table() -> None:
    assert set(rows("Arguments of init")) == set(inspect.signature(real.init).parameters)


def test_every_variable_that_is_read_is_named() -> None:
    named = set(re.findall(r"`(WANDB_[A-Z_]+)`", PAGE))
    assert set(VARIABLES.values()) - {"WANDB_REINIT"} <= named
