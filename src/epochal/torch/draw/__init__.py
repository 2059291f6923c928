"""Pictures of models as SVG and DOT, and curves of a graph's history as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.graph.drawing import Drawing, drawing
from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.draw.module_picture import picture_of
    from epochal.torch.draw.picture import Picture

__all__ = ["Picture", "picture_of"]

__getattr__ = on_first_use(__name__, {"module_picture": ["picture_of"], "picture": ["Picture"]})


def _load_drawing() -> Drawing:
    from epochal.torch.draw.curves import plot_html
    from epochal.torch.draw.graph_picture import picture_of_graph
    from epochal.torch.draw.module_picture import picture_of

    return Drawing(picture_of_graph, picture_of, plot_html)


drawing.register(_load_drawing)
