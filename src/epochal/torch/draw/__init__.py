"""Pictures of models as SVG and DOT, and curves of a graph's history as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.draw.drawn import picture_of
    from epochal.torch.draw.picture import Picture

__all__ = [
    "Picture",
    "picture_of",
]

__getattr__ = on_first_use(
    __name__,
    {
        "Picture": "picture",
        "picture_of": "drawn",
    },
)
