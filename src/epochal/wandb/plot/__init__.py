"""``wandb.plot``: charts of tables; each is kept as its table and a drawing."""

from epochal.wandb.plot.charts import bar, histogram, line, line_series, scatter
from epochal.wandb.plot.curves import confusion_matrix, pr_curve, roc_curve
from epochal.wandb.plot.custom_chart import (
    CustomChart,
    CustomChartSpec,
    Visualize,
    plot_table,
    visualize,
)

__all__ = [
    "CustomChart",
    "CustomChartSpec",
    "Visualize",
    "bar",
    "confusion_matrix",
    "histogram",
    "line",
    "line_series",
    "plot_table",
    "pr_curve",
    "roc_curve",
    "scatter",
    "visualize",
]
