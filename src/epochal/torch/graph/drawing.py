"""The functions that draw a graph.

The package `draw` imports graphs, so a graph must not import it. `draw` registers a function that
loads its functions, and a graph calls them through `drawing()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from epochal.registered import Registered

if TYPE_CHECKING:
    from epochal.torch.draw.picture import Picture


class Drawing(NamedTuple):
    """The functions that `draw` provides."""

    picture_of_graph: Callable[..., Picture]  # (graph, profile)
    picture_of: Callable[..., Picture]  # (module, example_inputs, depth=)
    plot_html: Callable[..., None]  # (path, history, title=)


drawing: Registered[Drawing] = Registered()
"""Returns the functions."""
