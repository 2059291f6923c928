"""A chart of a table: what the functions of ``wandb.plot`` return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epochal.run.run import Run
from epochal.wandb.data_types.media import MediaFile, keep_file
from epochal.wandb.data_types.table import Table


@dataclass
class CustomChartSpec:
    """Which chart is drawn of which columns."""

    spec_name: str
    fields: dict[str, Any] = field(default_factory=dict)
    string_fields: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    panel_type: str = "Vega2"
    split_table: bool = False

    @property
    def table_key(self) -> str:
        """The name that the table is recorded under."""
        prefix = "Custom Chart Tables/" if self.split_table else ""
        return f"{prefix}{self.key}_table"


@dataclass
class CustomChart:
    """A table, and how it is drawn."""

    table: Table
    spec: CustomChartSpec

    def set_key(self, key: str) -> None:
        """Give the chart the name that it is logged under."""
        self.spec.key = key

    def write_to(self, run: Run, name: str, step: int) -> None:
        """Keep the table and, of a chart that is known, a drawing of it."""
        from epochal.wandb.plot.drawing import draw

        self.set_key(name)
        self.table.write_to(run, self.spec.table_key, step)
        svg = draw(self.spec.spec_name, self.table, self.spec.fields, self.spec.string_fields)
        if svg is not None:
            title = str(self.spec.string_fields.get("title") or "") or None
            keep_file(run, name, MediaFile(svg.encode(), "image/svg+xml", title), step)


Visualize = CustomChart


def plot_table(
    vega_spec_name: str,
    data_table: Table,
    fields: Mapping[str, Any],
    string_fields: Mapping[str, Any] | None = None,
    split_table: bool = False,
) -> CustomChart:
    """A chart of a table, drawn by the specification of that name."""
    if not isinstance(data_table, Table):
        raise TypeError(f"Expected `data_table` to be `wandb.Table`, got {type(data_table)}.")
    spec = CustomChartSpec(
        vega_spec_name, dict(fields), dict(string_fields or {}), split_table=split_table
    )
    return CustomChart(data_table, spec)


def visualize(id: str, value: Table) -> CustomChart:  # noqa: A002 (W&B's name)
    """A chart of a table, drawn by the specification of that id."""
    if not isinstance(value, Table):
        raise TypeError(f"Expected `value` to be `wandb.Table`, got {type(value)}.")
    return CustomChart(value, CustomChartSpec(id))
